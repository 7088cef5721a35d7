"""`compact`: state, question and lettered options as one JSON object in the user turn.

The prefix ends inside the object, behind the state; a branch completes it. The headings of `TEXTS` are the
object's keys here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from reflex.contract import Question, Text
from reflex.prompts.pieces import Piece, Template, join
from reflex.prompts.styles.chat import TEXTS, ChatStyle


@dataclass
class CompactStyle(ChatStyle):
    """Components as in `chat`; `state_heading`, `question_heading`, … name the keys of the object."""

    DEFAULTS: ClassVar[Mapping[str, str]] = {
        **TEXTS,
        "system_prompt": (
            "You get one JSON object with a state and a question about it. Follow its reply key exactly."
        ),
        "state_heading": "state",
        "question_heading": "question",
        "options_heading": "options",
        "rating_heading": "scale",
    }

    _target_: str = "reflex.prompts.styles.compact.CompactStyle"
    name: str = "compact"

    def evidence(self, state: Text) -> str:
        return f"{_json(self.words['state_heading'])}: {_json(state)}"

    def prefix(self, template: Template, state: Text) -> tuple[Piece, ...]:
        return join([*self.opening(template), Piece(f"{{{self.evidence(state)},")])

    def state_branch(self, template: Template, state: Text) -> tuple[Piece, ...]:
        return join([Piece(f" {self.evidence(state)}}}"), *self.closing(template)])

    def branch(
        self,
        template: Template,
        question: Question,
        listed: Sequence[tuple[str, str]],
        ask: str,
        note: str = "",
        heading: str = "options_heading",
    ) -> tuple[Piece, ...]:
        words = self.words
        asked: dict[str, Any] = {
            words["question_heading"]: question.instructions or self.instructions(question)
        }
        if note:
            asked["note"] = note
        if heading == "rating_heading":
            asked[words[heading]] = dict(listed)
        elif listed:
            asked[words[heading]] = [
                {"letter": label, "text": text} if label else {"text": text}
                for label, text in listed
            ]
        asked["reply"] = words[ask]
        text = _json(asked)
        if self.schema_first:
            return join([*self.opening(template), Piece(f"{text[:-1]},")])
        return join([Piece(" " + text[1:]), *self.closing(template)])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
