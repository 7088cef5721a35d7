"""mmlu_pro: exam questions with up to ten answers, without any question of MMLU. MIT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source, multiple_choice


def item(raw: Mapping[str, Any]) -> Item | None:
    if str(raw.get("src", "")).startswith("ori_mmlu"):
        return None  # a question of MMLU; the local file was cleared of them
    return multiple_choice(raw, extra={"subject": raw["category"]})


SOURCE = Source(
    name="mmlu_pro",
    family="knowledge",
    item=item,
    files={"train/mmlu_pro.jsonl": "hash"},
    hub=(
        HubSet(
            "TIGER-Lab/MMLU-Pro",
            split="test",
            rename={"options": "choices", "answer_index": "label"},
            role="hash",
        ),
    ),
    licence="MIT",
)
