"""A model behind somebody's `POST /v1/systemone`: the second implementation of what evaluation needs."""
