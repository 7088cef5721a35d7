"""yelp_polarity: reviews of places, good or bad."""

from __future__ import annotations

from reflex.data.sources.base import HubSet, Source
from reflex.data.sources.imdb import item

SOURCE = Source(
    name="yelp_polarity",
    family="sentiment",
    item=item,
    files={"train/yelp_polarity.jsonl": "hash"},
    hub=(HubSet("fancyzhx/yelp_polarity"),),
    licence="none stated; published for research",
    use="non-commercial",
)
