"""ultrafeedback: how good a response to an instruction is, as a large model rated it (hub only). MIT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source
from reflex.hashing import stable_hash

LEVELS = {
    "0": ("", "Bad: wrong, unhelpful or beside the instruction."),
    "1": ("", "Poor: large parts are wrong or missing."),
    "2": ("", "Fair: partly right and partly helpful."),
    "3": ("", "Good: right and helpful, with small flaws."),
    "4": ("", "Excellent: right, honest and just what was asked for."),
}
WORDINGS = (
    "How good is the response to the instruction?",
    "Rate the quality of the answer.",
    "How well does the response do what was asked for?",
)


def item(raw: Mapping[str, Any]) -> Item | None:
    """One of the row's responses, by hash, with the mean of its four ratings from 1 to 5."""
    instruction = raw["instruction"]
    rated = [each for each in raw["completions"] if each["fine-grained_score"] is not None]
    if not rated:
        return None
    chosen = rated[stable_hash(instruction, "completion") % len(rated)]
    level = int(chosen["fine-grained_score"] + 0.5) - 1
    state = {"instruction": instruction, "response": chosen["response"]}
    ask = Ask("score", WORDINGS, str(level), (LEVELS,))
    return Item(str(raw["id"]), (state,), {"quality": ask}, group=instruction)


SOURCE = Source(
    name="ultrafeedback",
    family="quality",
    item=item,
    hub=(HubSet("openbmb/UltraFeedback"),),
    licence="MIT",
)
