"""Training through the forward that evaluates and serves."""
