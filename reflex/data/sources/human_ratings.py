"""human_ratings: sentiment of short texts as 15 to 99 people rated it (soft labels). MIT.

The rows of the benchmark of that name (docs/decisions/012-human-ratings-labels.md): what it measures on is
held out here too, and only its other half is trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reflex.assets import HUMAN_RATINGS
from reflex.data.human_ratings import QUESTIONS, families, labels_of
from reflex.data.sources.base import Ask, Item, OptionSet, Source

POSITIVE = (str(QUESTIONS["positive"].instructions), "Does the writer think well of it?")
NOT_POSITIVE = ("Is the sentiment of this text neutral or negative?",)
SENTIMENT = (
    str(QUESTIONS["sentiment"].instructions),
    "Is the text negative, neutral or positive?",
    "Classify the sentiment.",
)
_NAMES: dict[str, Any] = QUESTIONS["sentiment"].model_dump()["criteria"]
SENTIMENTS: tuple[OptionSet, ...] = (
    {name: (name, text) for name, text in _NAMES.items()},
    {name: (name, None) for name in _NAMES},
)
RATING = (
    str(QUESTIONS["rating"].instructions),
    "Rate the sentiment of the text from extremely negative to extremely positive.",
)
LEVELS: tuple[str, ...] = tuple(QUESTIONS["rating"].model_dump()["criteria"])

ROLES = {"fit": "train", "report": "report"}
"""Half of the benchmark → role here."""


def derive(_: Callable[[str], Iterator[Mapping[str, Any]]]) -> Iterator[Mapping[str, Any]]:
    for family in families(HUMAN_RATINGS):
        for split, rated in family.splits.items():
            for each in rated:
                yield {
                    "id": f"{family.name}/{each.id}",
                    "text": each.text,
                    "labels": labels_of(each.ratings),
                    "group": f"{family.name}/{each.article}",
                    "role": ROLES[split],
                }


def item(raw: Mapping[str, Any]) -> Item:
    labels, text = raw["labels"], raw["text"]
    levels = {str(level): ("", name) for level, name in enumerate(LEVELS)}
    asks = {
        "positive": Ask("noul", POSITIVE, labels["positive"], negated=NOT_POSITIVE, abstains=False),
        "sentiment": Ask("choice", SENTIMENT, labels["sentiment"], SENTIMENTS, abstains=False),
        "rating": Ask("score", RATING, labels["rating"], (levels,), abstains=False),
    }
    return Item(raw["id"], (text, {"text": text}), asks, group=raw["group"])


SOURCE = Source(
    name="human_ratings",
    family="sentiment",
    item=item,
    derive=derive,
    licence=HUMAN_RATINGS.licence,
)
