"""banking77: 77 intents of bank customers. CC BY 4.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source, humanised, plain
from reflex.data.sources.labels import BANKING77

WORDINGS = (
    "Which intent does the customer's message express?",
    "What does the customer want?",
    "Classify the banking query by intent.",
    "Which topic should this message be routed to?",
    "Pick the intent that fits the request best.",
)
SETS = (plain(BANKING77), humanised(BANKING77))


def item(raw: Mapping[str, Any]) -> Item:
    text = raw["text"]
    states = (text, {"message": text}, {"utterance": text}, {"text": text})
    return Item(
        str(raw["id"]), states, {"intent": Ask("choice", WORDINGS, raw["label"], SETS, large=True)}
    )


SOURCE = Source(
    name="banking77",
    family="intent",
    item=item,
    files={"train/banking77_train.jsonl": "train", "train/banking77_test.jsonl": "report"},
    hub=(
        HubSet("legacy-datasets/banking77", role="train", revision="refs/convert/parquet"),
        HubSet("legacy-datasets/banking77", split="test", revision="refs/convert/parquet"),
    ),
    licence="CC BY 4.0",
)
