"""sciq: science exam questions with a supporting passage (hub only). CC BY-NC 3.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source, multiple_choice
from reflex.data.splits import hash_order


def item(raw: Mapping[str, Any]) -> Item | None:
    right = raw["correct_answer"]
    answers = [right, *(raw[f"distractor{number}"] for number in (1, 2, 3))]
    choices = hash_order(answers, str, raw["question"])  # the row names the right one first
    asked = {**raw, "choices": choices, "label": choices.index(right)}
    return multiple_choice(asked, extra={"passage": raw["support"]} if raw["support"] else {})


SOURCE = Source(
    name="sciq",
    family="knowledge",
    item=item,
    hub=(HubSet("allenai/sciq", role="train"), HubSet("allenai/sciq", split="test")),
    licence="CC BY-NC 3.0",
    use="non-commercial",
)
