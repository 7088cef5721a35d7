"""`rating`: a yes/no question answered on a scale from 0 (certainly no) to 8 (certainly yes).

The next-token scores of the nine digits are read; p(yes) = Σ i/8 · pᵢ, and everything downstream (ECE, NLL,
temperature) is judged on that two-way distribution, not on nine classes. There is one order: a scale that is
read backwards is another scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reflex.contract import Noul, Question
from reflex.errors import ReadoutError
from reflex.prompts.labels import RATING_DIGITS
from reflex.prompts.prompt import Branch
from reflex.readouts import base

if TYPE_CHECKING:
    import torch

    from reflex.backbones.backbone import Backbone
    from reflex.forward.config import ForwardConfig

NAME = "rating"
TOP = len(RATING_DIGITS) - 1

EXPAND: dict[str, dict[str, float]] = {
    digit: {"true": i / TOP, "false": 1 - i / TOP} for i, digit in enumerate(RATING_DIGITS)
}
"""label → option → share: what a label's probability means for the two outcomes."""


@dataclass
class Config:
    """No options."""


class Readout(base.Readout):
    """Yes/no questions only. Raises ReadoutError if a digit is not one token."""

    name = NAME

    def __init__(
        self, config: Config, backbone: Backbone, style: Any, forward: ForwardConfig
    ) -> None:
        super().__init__(config, backbone, style, forward)
        self.ids = {digit: backbone.tokens.label_id(self.prefix + digit) for digit in RATING_DIGITS}

    def branches(
        self, question_id: str, question: Question, orders: Sequence[tuple[int, ...]]
    ) -> list[Branch]:
        if not isinstance(question, Noul):
            raise ReadoutError(
                f"readout.{question.type}=rating: the 0-8 scale answers yes/no questions only; use "
                "label_tokens"
            )
        ends = self.style.rating_ends(question)
        listed = list(zip((RATING_DIGITS[0], RATING_DIGITS[-1]), ends, strict=True))
        text = self.style.branch(
            self.template, question, listed, "rating_ask", heading="rating_heading"
        )
        return [Branch(question_id, 0, 0, text, keys=RATING_DIGITS, labels=RATING_DIGITS)]

    def scores(
        self, branches: Sequence[Branch], hidden: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        import torch

        return list(self.backbone.label_logits(torch.cat(list(hidden)), list(self.ids.values())))

    def expand(self, question: Question) -> tuple[tuple[float, ...], ...]:
        """Nine labels × (true, false)."""
        return tuple((EXPAND[digit]["true"], EXPAND[digit]["false"]) for digit in RATING_DIGITS)
