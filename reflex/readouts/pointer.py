"""`pointer`: every option is a segment of its own below the question, and a small head scores its end.

Options are blind to each other and are laid out in a canonical order (by text), whatever order the caller
lists them in: the same tokens reach the model, so reordering options cannot change an answer. There is no
ceiling on the number of options, and one pass is enough where label tokens need one per order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reflex.checks import check_choice, check_count
from reflex.prompts.prompt import Branch
from reflex.readouts import base

if TYPE_CHECKING:
    import torch

    from reflex.backbones.backbone import Backbone
    from reflex.forward.config import ForwardConfig
    from reflex.forward.tree import Segment

NAME = "pointer"
HEADS = ("linear", "bilinear")


@dataclass
class Config:
    """head: `linear` scores the option's end alone; `bilinear` adds a product with the question's end.
    rank: width of that product. end: text behind every option, whose last token is read.
    weights: a heads file written by training or a release; without it the head is untrained."""

    head: str = "bilinear"
    rank: int = 64
    end: str = "\n"
    weights: str | None = None

    def __post_init__(self) -> None:
        check_choice("readout.pointer.head", self.head, HEADS)
        check_count("readout.pointer.rank", self.rank)


class Readout(base.CanonicalReadout):
    """All three question types: yes/no and levels are options with their texts like any other."""

    name = NAME

    def __init__(
        self, config: Config, backbone: Backbone, style: Any, forward: ForwardConfig
    ) -> None:
        from reflex.readouts.pointer_head import load_head, make_head

        super().__init__(config, backbone, style, forward)
        self.end = config.end
        self.head = make_head(config, backbone.hidden_size).to(backbone.device)
        if config.weights is not None:
            load_head(self.head, config.weights, NAME)

    def segments(self, branch: Branch, first: int) -> list[Segment]:
        from reflex.forward.tree import Segment

        below = [Segment(ids, first, (len(ids) - 1,)) for ids in self.option_ids(branch)]
        return [*super().segments(branch, first), *below]

    def scores(
        self, branches: Sequence[Branch], hidden: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        import torch

        sizes = [len(branch.keys) for branch in branches]
        counts = torch.tensor(sizes, device=hidden[0].device)
        asked = torch.stack([rows[0] for rows in hidden]).float()
        options = torch.cat([rows[1:] for rows in hidden]).float()
        scores = self.head(options, asked.repeat_interleave(counts, dim=0))
        return list(scores.split(sizes))
