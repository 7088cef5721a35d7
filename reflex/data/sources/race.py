"""race: reading comprehension of English exams, four answers (hub only). Non-commercial research."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source, multiple_choice


def item(raw: Mapping[str, Any]) -> Item | None:
    passage = raw["article"]
    asked = {**raw, "choices": raw["options"], "label": "ABCD".index(raw["answer"])}
    made = multiple_choice(asked, extra={"passage": passage})
    # Without its passage the question has no answer; one passage has several questions.
    return made and replace(made, states=made.states[:1], group=passage)


SOURCE = Source(
    name="race",
    family="fact",
    item=item,
    hub=(HubSet("ehovy/race", "all", role="train"), HubSet("ehovy/race", "all", "test")),
    licence="non-commercial research only",
    use="non-commercial",
)
