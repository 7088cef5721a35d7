"""`yesno`: a yes/no question read from the words themselves: the next-token scores of `yes` and `no`.

Spellings that are one token (`yes`, `Yes`) count together, as the logarithm of their summed weight. Nothing
is listed, so there is one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reflex.contract import Noul, Question, option_keys, question_is_described
from reflex.errors import ConfigError, ReadoutError
from reflex.prompts.prompt import Branch
from reflex.readouts import base

if TYPE_CHECKING:
    import torch

    from reflex.backbones.backbone import Backbone
    from reflex.forward.config import ForwardConfig

NAME = "yesno"


@dataclass
class Config:
    """yes, no: spellings, paired by position; a pair counts where both are one token."""

    yes: list[str] = field(default_factory=lambda: ["yes", "Yes"])
    no: list[str] = field(default_factory=lambda: ["no", "No"])

    def __post_init__(self) -> None:
        if len(self.yes) != len(self.no) or not self.yes:
            raise ConfigError(
                f"readout.yesno: {len(self.yes)} spellings of yes and {len(self.no)} of no; give pairs"
            )


class Readout(base.Readout):
    """Yes/no questions only. Raises ReadoutError if no pair of words is one token each."""

    name = NAME

    def __init__(
        self, config: Config, backbone: Backbone, style: Any, forward: ForwardConfig
    ) -> None:
        super().__init__(config, backbone, style, forward)
        single = {*backbone.tokens.single_tokens([*config.yes, *config.no], self.prefix)}
        pairs = zip(config.yes, config.no, strict=True)
        self.words = [pair for pair in pairs if single.issuperset(pair)]
        if not self.words:
            raise ReadoutError(
                f"none of the pairs {list(zip(config.yes, config.no, strict=True))} is one token each in "
                "this tokenizer; set readout.yesno.yes and readout.yesno.no, or use label_tokens"
            )
        label_id = backbone.tokens.label_id
        self.ids = [
            label_id(self.prefix + word) for pair in zip(*self.words, strict=True) for word in pair
        ]

    def branches(
        self, question_id: str, question: Question, orders: Sequence[tuple[int, ...]]
    ) -> list[Branch]:
        if not isinstance(question, Noul):
            raise ReadoutError(
                f"readout.{question.type}=yesno: yes and no answer yes/no questions only; use label_tokens"
            )
        texts = self.style.option_texts(question) if question_is_described(question) else ()
        listed = [("", text) for text in texts]
        text = self.style.branch(self.template, question, listed, "yesno_ask")
        return [Branch(question_id, 0, 0, text, option_keys(question), self.words[0])]

    def scores(
        self, branches: Sequence[Branch], hidden: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        import torch

        logits = self.backbone.label_logits(torch.cat(list(hidden)), self.ids)
        return list(logits.unflatten(1, (2, len(self.words))).logsumexp(-1))
