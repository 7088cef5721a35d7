"""`label_tokens`: options carry single-token labels; the next-token logits of those labels are the scores.

More options than labels go to pages (each page lists a part of the permuted options and all pages of one
order share one softmax, so their logits become log-probabilities over the whole vocabulary), to two-letter
codes, or are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from reflex.checks import check_choice
from reflex.contract import Question, option_keys
from reflex.errors import ReadoutError
from reflex.prompts.labels import LETTERS, code_candidates
from reflex.prompts.prompt import Branch
from reflex.readouts import base

if TYPE_CHECKING:
    import torch

    from reflex.backbones.backbone import Backbone
    from reflex.forward.config import ForwardConfig

NAME = "label_tokens"


@dataclass
class Config:
    """labels: `letters` (A…Z) or `codes` (A…Z, AA…ZZ without those that are not one token).
    overflow: what happens to more options than labels: `pages`, `codes` or `refuse`."""

    labels: str = "letters"
    overflow: str = "pages"

    def __post_init__(self) -> None:
        check_choice("readout.label_tokens.labels", self.labels, ("letters", "codes"))
        check_choice("readout.label_tokens.overflow", self.overflow, ("pages", "codes", "refuse"))


class Readout(base.Readout):
    """Lettered options for all three question types. Raises ReadoutError if a letter is not one token."""

    name = NAME

    def __init__(
        self, config: Config, backbone: Backbone, style: Any, forward: ForwardConfig
    ) -> None:
        super().__init__(config, backbone, style, forward)
        self.ids = {
            label: backbone.tokens.label_id(self.prefix + label) for label in LETTERS
        }  # every letter is checked here, before the first request
        self.codes = LETTERS
        if "codes" in (config.labels, config.overflow):
            self.codes = backbone.tokens.single_tokens(code_candidates(), self.prefix)
            self.ids |= {code: backbone.tokens.label_id(self.prefix + code) for code in self.codes}
        self.labels_at_once = len(self.codes)  # more of them go to pages, or are refused

    def branches(
        self, question_id: str, question: Question, orders: Sequence[tuple[int, ...]]
    ) -> Iterator[Branch]:
        keys = option_keys(question)
        texts = self.style.option_texts(question)
        labels = self._labels(len(keys))
        n_pages = math.ceil(len(keys) / len(labels))
        size = math.ceil(len(keys) / n_pages)
        for number, order in enumerate(orders):
            for page in range(n_pages):
                shown = order[page * size : (page + 1) * size]
                note = ""
                if n_pages > 1:
                    first = page * size + 1
                    note = self.style.page_note(first, first + len(shown) - 1, len(keys))
                listed = [(label, texts[i]) for label, i in zip(labels, shown, strict=False)]
                text = self.style.branch(self.template, question, listed, "label_ask", note)
                yield Branch(
                    question_id=question_id,
                    order=number,
                    page=page,
                    text=text,
                    keys=tuple(keys[i] for i in shown),
                    labels=labels[: len(shown)],
                )

    def _labels(self, n_options: int) -> tuple[str, ...]:
        labels = self.codes if self.config.labels == "codes" else LETTERS
        if n_options <= len(labels) or self.config.overflow == "pages":
            return labels
        if self.config.overflow == "codes" and n_options <= len(self.codes):
            return self.codes
        raise ReadoutError(
            f"{n_options} options, but readout.label_tokens.overflow={self.config.overflow} has labels "
            f"for {len(self.codes)}; use overflow=pages"
        )

    def scores(
        self, branches: Sequence[Branch], hidden: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        import torch

        paged = [False] * len(branches)
        for i, branch in enumerate(branches):  # the pages of one order follow each other
            if branch.page > 0:
                paged[i] = paged[i - branch.page] = True
        found: list[Any] = [None] * len(branches)
        # One projection per label set; sorted() is stable, so results do not depend on neighbours.
        wanted = sorted(range(len(branches)), key=lambda i: branches[i].labels)
        for labels, group in groupby(wanted, key=lambda i: branches[i].labels):
            indices = list(group)
            rows = torch.cat([hidden[i] for i in indices])
            logits = self.backbone.label_logits(rows, [self.ids[label] for label in labels])
            in_pages = [paged[i] for i in indices]
            if any(in_pages):
                norm = self.backbone.log_normalisers(rows)
                keep = torch.tensor(in_pages, device=norm.device)
                logits = logits - torch.where(keep, norm, torch.zeros_like(norm))[:, None]
            for i, row in zip(indices, logits, strict=True):
                found[i] = row
        return found
