"""Text with provenance: which characters may become control tokens and which never may.

A prompt is a sequence of `Piece`s. Pieces that come from the tokenizer's own chat template are `control`;
everything else (wording, state, instructions, option names) is ordinary text, and is tokenised so that
`<|im_end|>` typed by a user is twelve characters and never the end of a turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from reflex.contract import Text


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of prompt text; `control` marks text of the tokenizer's template."""

    text: str
    control: bool = False


@dataclass(frozen=True, slots=True)
class Template:
    """The tokenizer's chat turn around a system text and a user text.

    `before` + system + `between` + user + `after` is the whole prompt up to the answer's first token.
    `answers_after_turn` is False for a model without a chat template: there the prompt ends in an
    `Answer:` line and labels carry a leading space.
    """

    before: str
    between: str
    after: str
    answers_after_turn: bool

    @property
    def label_prefix(self) -> str:
        return "" if self.answers_after_turn else " "


def join(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Drop empty pieces and merge neighbours of the same kind, so that tokenisation sees natural runs."""
    merged: list[Piece] = []
    for piece in pieces:
        if not piece.text:
            continue
        if merged and merged[-1].control == piece.control:
            merged[-1] = Piece(merged[-1].text + piece.text, piece.control)
        else:
            merged.append(piece)
    return tuple(merged)


def as_text(value: Text) -> str:
    """A string as it is; JSON in insertion order, indented for objects that span a state."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2)


def as_line(value: Text) -> str:
    """A description: a string as it is, structured JSON on one line."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
