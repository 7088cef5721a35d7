"""imdb: film reviews. `item` serves every source of reviews that are good or bad."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source

WORDINGS = (
    "Is the review positive?",
    "Does the writer recommend it?",
    "Did the reviewer like it?",
)
NEGATED = (
    "Is the review negative?",
    "Does the writer advise against it?",
    "Did the reviewer dislike it?",
)
SETS = (
    {"positive": ("positive", None), "negative": ("negative", None)},
    {
        "positive": ("favourable", "The writer liked it."),
        "negative": ("unfavourable", "The writer did not like it."),
    },
)
CHOICES = ("What is the sentiment of the review?", "Is the opinion favourable?")


GOOD = ("positive", "pos", "2")
"""Names of the better label; "2" is what yelp_polarity calls it on the hub."""


def item(raw: Mapping[str, Any]) -> Item:
    good = raw["label"] in GOOD
    true, sentiment = ("true", "positive") if good else ("false", "negative")
    asks = {
        "positive": Ask("noul", WORDINGS, true, negated=NEGATED, abstains=False),
        "sentiment": Ask("choice", CHOICES, sentiment, SETS, abstains=False),
    }
    return Item(str(raw["id"]), (raw["text"], {"review": raw["text"]}), asks)


SOURCE = Source(
    name="imdb",
    family="sentiment",
    item=item,
    files={"train/imdb_polarity.jsonl": "hash"},
    hub=(HubSet("stanfordnlp/imdb"),),
    licence="none stated; published for research",
    use="non-commercial",
)
