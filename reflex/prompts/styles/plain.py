"""`plain`: for base models. No chat turn, even where the tokenizer has one: the text ends in `Answer:` and a
label is a letter behind a space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from reflex.contract import Question, Text
from reflex.prompts.pieces import Piece, Template, as_line, join
from reflex.prompts.styles.chat import TEXTS, ChatStyle


@dataclass
class PlainStyle(ChatStyle):
    """Components as in `chat`, with other defaults; an empty system prompt is left out."""

    DEFAULTS: ClassVar[Mapping[str, str]] = {
        **TEXTS,
        "system_prompt": "",
        "state_heading": "Context:",
        "question_heading": "Question:",
        "options_heading": "Options:",
        "rating_heading": "Scale:",
        # A base model continues text; telling it how to reply would only be more text to continue.
        "label_ask": "",
        "text_ask": "",
        "rating_ask": "The answer is a digit from 0 to 8.",
        "yesno_ask": "The answer is yes or no.",
    }

    _target_: str = "reflex.prompts.styles.plain.PlainStyle"
    name: str = "plain"

    def label_prefix(self, template: Template) -> str:
        return " "

    def opening(self, template: Template) -> tuple[Piece, ...]:
        system = self.words["system_prompt"]
        return (Piece(f"{system}\n\n" if system else ""),)

    def closing(self, template: Template) -> tuple[Piece, ...]:
        cue = self.words["answer_cue"]
        return (Piece(f"\n{cue}" if cue else ""),)

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
        lines = [f"{words['question_heading']} {self.instructions(question)}"]
        if listed:
            lines.append(words[heading])
            lines += [f"  {label}: {text}" if label else f"  {text}" for label, text in listed]
        asked = "\n".join([*lines, *filter(None, [note, words[ask]])])
        if self.schema_first:
            return join([*self.opening(template), Piece(f"{asked}\n\n")])
        return join([Piece(asked), *self.closing(template)])

    def named(self, name: str, description: Text | None) -> str:
        return name if description in (None, "") else f"{name} - {as_line(description)}"
