"""arc_easy: grade-school science questions. CC BY-SA 4.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source, keyed_choices, multiple_choice


def item(raw: Mapping[str, Any]) -> Item | None:
    return multiple_choice(keyed_choices(raw))


SOURCE = Source(
    name="arc_easy",
    family="knowledge",
    item=item,
    files={"train/arc_easy_train.jsonl": "hash", "train/arc_easy_test.jsonl": "hash"},
    hub=(
        HubSet("allenai/ai2_arc", "ARC-Easy"),
        HubSet("allenai/ai2_arc", "ARC-Easy", "test"),
    ),
    licence="CC BY-SA 4.0",
)
