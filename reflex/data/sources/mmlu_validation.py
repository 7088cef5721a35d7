"""mmlu_validation: the validation and dev splits of MMLU, never its test split. MIT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source, multiple_choice


def item(raw: Mapping[str, Any]) -> Item | None:
    if isinstance(raw["label"], str):  # the hub's letter
        raw = {**raw, "label": "ABCD".index(raw["label"])}
    return multiple_choice(raw, extra={"subject": str(raw["subject"]).replace("_", " ")})


SOURCE = Source(
    name="mmlu_validation",
    family="knowledge",
    item=item,
    files={"mmlu/validation.jsonl": "hash", "mmlu/dev.jsonl": "hash"},
    hub=tuple(
        HubSet("cais/mmlu", "all", split, rename={"answer": "label"}, role="hash")
        for split in ("validation", "dev")
    ),
    licence="MIT",
)
