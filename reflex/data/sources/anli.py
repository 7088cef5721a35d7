"""anli: adversarial inference over encyclopedia passages, as fact checking. CC BY-NC 4.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source
from reflex.data.sources.nli import pair_item
from reflex.data.sources.sentences import PASSAGES

LABELS = {
    "SUPPORTS": "yes",
    "REFUTES": "no",
    "NOT ENOUGH INFO": "maybe",
    "entailment": "yes",  # the hub's names
    "neutral": "maybe",
    "contradiction": "no",
}


def item(raw: Mapping[str, Any]) -> Item | None:
    label = LABELS.get(raw["label"])
    if label is None:
        return None
    return pair_item(str(raw["id"]), raw["evidence"], raw["claim"], label)


SOURCE = Source(
    name="anli",
    family="fact",
    item=item,
    texts=PASSAGES,
    files={"train/anli_test.jsonl": "hash"},
    hub=(
        HubSet(
            "facebook/anli", split="train_r3", rename={"premise": "evidence", "hypothesis": "claim"}
        ),
    ),
    licence="CC BY-NC 4.0",
    use="non-commercial",
)
