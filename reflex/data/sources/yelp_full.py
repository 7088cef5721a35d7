"""yelp_full: reviews of places with one to five stars (hub only)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source

STARS = {
    "0": ("", "One star: terrible."),
    "1": ("", "Two stars: poor."),
    "2": ("", "Three stars: mixed."),
    "3": ("", "Four stars: good."),
    "4": ("", "Five stars: excellent."),
}
WORDINGS = ("How many stars does the review give?", "How satisfied is the customer?")


def item(raw: Mapping[str, Any]) -> Item:
    stars, _, _ = raw["label"].partition(" ")  # "1 star", "2 star", "3 stars", …
    ask = Ask("score", WORDINGS, str(int(stars) - 1), (STARS,), abstains=False)
    return Item(str(raw["id"]), (raw["text"],), {"stars": ask})


SOURCE = Source(
    name="yelp_full",
    family="sentiment",
    item=item,
    files={},
    hub=(HubSet("Yelp/yelp_review_full"),),
    licence="Yelp dataset terms",
    use="non-commercial",
)
