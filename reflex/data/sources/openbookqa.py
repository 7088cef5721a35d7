"""openbookqa: elementary science that takes a common-sense step. Apache-2.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Item, Source, multiple_choice


def item(raw: Mapping[str, Any]) -> Item | None:
    return multiple_choice(raw)


SOURCE = Source(
    name="openbookqa",
    family="knowledge",
    item=item,
    files={"train/openbookqa_train.jsonl": "hash", "train/openbookqa_test.jsonl": "hash"},
    licence="Apache-2.0",
)
