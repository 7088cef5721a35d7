"""feedbackqa: how helpful an answer to a question is, rated by two people (soft labels)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, Item, Source

LEVELS = {
    "0": ("", "Bad: does not answer the question."),
    "1": ("", "Could be improved: touches the question but leaves it open."),
    "2": ("", "Acceptable: answers most of the question."),
    "3": ("", "Excellent: answers the question fully."),
}
WORDINGS = (
    "How helpful is the answer to the question?",
    "Rate how well the answer addresses the question.",
    "Does the answer resolve the question?",
)


def item(raw: Mapping[str, Any]) -> Item:
    rated = {str(i): float(p) for i, p in enumerate(raw["distribution"])}
    state = {"question": raw["question"], "answer": raw["answer"]}
    return Item(
        str(raw["id"]),
        (state,),
        {"helpful": Ask("score", WORDINGS, rated, (LEVELS,))},
        raw["question"],
    )


SOURCE = Source(
    name="feedbackqa",
    family="quality",
    item=item,
    files={"train/feedbackqa_valid.jsonl": "hash"},
    licence="none stated",
    use="unstated",
)
