"""openbookqa: elementary science that takes a common-sense step. Apache-2.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source, keyed_choices, multiple_choice


def item(raw: Mapping[str, Any]) -> Item | None:
    return multiple_choice(keyed_choices(raw))


SOURCE = Source(
    name="openbookqa",
    family="knowledge",
    item=item,
    files={"train/openbookqa_train.jsonl": "hash", "train/openbookqa_test.jsonl": "hash"},
    hub=(
        HubSet("allenai/openbookqa", "additional", rename={"question_stem": "question"}),
        HubSet("allenai/openbookqa", "additional", "test", rename={"question_stem": "question"}),
    ),
    licence="Apache-2.0",
)
