"""goemotions: 28 emotions of Reddit comments. CC BY 4.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, Item, Source, plain
from reflex.data.sources.labels import GOEMOTIONS

WORDINGS = (
    "Which emotion does the comment express?",
    "What does the writer of the comment feel?",
    "Classify the comment by its main emotion.",
)
SETS = (plain(GOEMOTIONS),)


def item(raw: Mapping[str, Any]) -> Item:
    text = raw["text"]
    asks = {"emotion": Ask("choice", WORDINGS, raw["label"], SETS)}
    return Item(str(raw["id"]), (text, {"comment": text}), asks)


SOURCE = Source(
    name="goemotions",
    family="emotion",
    item=item,
    files={"train/goemotions_train.jsonl": "hash"},
    licence="CC BY 4.0",
)
