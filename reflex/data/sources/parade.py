"""parade: pairs of definitions from computer science."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source
from reflex.data.sources.paraphrase import paraphrase_item

FIELDS = {"Definition1": "definition_1", "Definition2": "definition_2", "Binary labels": "label"}
"""The hub's columns."""


def item(raw: Mapping[str, Any]) -> Item:
    return paraphrase_item(
        str(raw["id"]), raw["definition_1"], raw["definition_2"], bool(raw["label"])
    )


SOURCE = Source(
    name="parade",
    family="paraphrase",
    item=item,
    files={"train/parade_train.jsonl": "hash", "train/parade_test.jsonl": "hash"},
    hub=tuple(
        HubSet("tasksource/parade", split=split, rename=FIELDS, role="hash")
        for split in ("train", "test")
    ),
    licence="none stated",
    use="unstated",
)
