"""rotten_tomatoes: one-sentence film reviews."""

from __future__ import annotations

from reflex.data.sources.base import HubSet, Source
from reflex.data.sources.imdb import item

SOURCE = Source(
    name="rotten_tomatoes",
    family="sentiment",
    item=item,
    files={"train/rotten_tomatoes.jsonl": "hash"},
    hub=(HubSet("cornell-movie-review-data/rotten_tomatoes"),),
    licence="none stated; published for research",
    use="non-commercial",
)
