"""fever_adversarial: hard claims (FEVER 2.0), two outcomes. CC BY-SA 3.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Item, Source
from reflex.data.sources.nli import pair_item
from reflex.data.sources.sentences import PASSAGES

LABELS = {"SUPPORTS": "yes", "REFUTES": "no"}


def item(raw: Mapping[str, Any]) -> Item | None:
    label = LABELS.get(raw["label"])
    if label is None:
        return None
    return pair_item(str(raw["id"]), raw["evidence"], raw["claim"], label, labels=("yes", "no"))


SOURCE = Source(
    name="fever_adversarial",
    family="fact",
    item=item,
    texts=PASSAGES,
    files={"train/fever_adversarial.jsonl": "hash"},
    licence="CC BY-SA 3.0",
)
