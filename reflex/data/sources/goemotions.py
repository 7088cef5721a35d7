"""goemotions: 28 emotions of Reddit comments. CC BY 4.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source, plain
from reflex.data.sources.labels import GOEMOTIONS

WORDINGS = (
    "Which emotion does the comment express?",
    "What does the writer of the comment feel?",
    "Classify the comment by its main emotion.",
)
SETS = (plain(GOEMOTIONS),)


def item(raw: Mapping[str, Any]) -> Item | None:
    labels = raw.get("labels", (raw.get("label"),))
    if len(labels) != 1:  # the hub has comments of several emotions
        return None
    text = raw["text"]
    asks = {"emotion": Ask("choice", WORDINGS, labels[0], SETS, abstains=False)}
    return Item(str(raw["id"]), (text, {"comment": text}), asks)


SOURCE = Source(
    name="goemotions",
    family="emotion",
    item=item,
    files={"train/goemotions_train.jsonl": "hash"},
    hub=(HubSet("google-research-datasets/go_emotions", "simplified"),),
    licence="CC BY 4.0",
)
