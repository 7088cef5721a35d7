"""commonsense_qa: five everyday answers. MIT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source, keyed_choices, multiple_choice


def item(raw: Mapping[str, Any]) -> Item | None:
    return multiple_choice(keyed_choices(raw))


SOURCE = Source(
    name="commonsense_qa",
    family="knowledge",
    item=item,
    files={"train/commonsense_qa_dev.jsonl": "hash"},
    hub=(HubSet("tau/commonsense_qa"), HubSet("tau/commonsense_qa", split="validation")),
    licence="MIT",
)
