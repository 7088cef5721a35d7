"""`Branch`: what a style and a readout produce and the forward runs."""

from __future__ import annotations

from dataclasses import dataclass

from reflex.prompts.pieces import Piece


@dataclass(frozen=True, slots=True)
class Branch:
    """One rendering of one question in one option order (and one page of it).

    `keys[i]` is the option key behind `labels[i]`. `options`, when not empty, are texts scored as
    segments of their own below this branch, one per key; they see the branch and not each other.
    """

    question_id: str
    order: int
    page: int
    text: tuple[Piece, ...]
    keys: tuple[str, ...]
    labels: tuple[str, ...] = ()
    options: tuple[tuple[Piece, ...], ...] = ()
