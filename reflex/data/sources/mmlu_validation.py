"""mmlu_validation: the validation and dev splits of MMLU, never its test split. MIT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source, multiple_choice


def item(raw: Mapping[str, Any]) -> Item | None:
    return multiple_choice(raw, extra={"subject": str(raw["subject"]).replace("_", " ")})


SOURCE = Source(
    name="mmlu_validation",
    family="knowledge",
    item=item,
    files={"mmlu/validation.jsonl": "hash", "mmlu/dev.jsonl": "hash"},
    hub=(HubSet("cais/mmlu", "all", "validation", rename={"answer": "label"}),),
    licence="MIT",
)
