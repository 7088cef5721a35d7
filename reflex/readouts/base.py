"""What every readout provides, and what the model makes of it: `OptionScores`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from reflex.contract import Question
from reflex.prompts.prompt import Branch

if TYPE_CHECKING:
    import torch

    from reflex.backbones.backbone import Backbone
    from reflex.forward.tree import Segment


@dataclass(frozen=True)
class OptionScores:
    """Scores of one question's options, per order, before temperature.

    keys: option keys in the caller's order. order_keys[o][i] is the key behind scores[o][i] (float32, with
    gradient in training). expand: None, or a (labels × keys) matrix that turns label probabilities into
    option probabilities (the rating readout reads nine digits for two outcomes). wordings: how many
    wordings the orders divide into, one after another.
    """

    question_id: str
    type: str
    readout: str
    keys: tuple[str, ...]
    order_keys: tuple[tuple[str, ...], ...]
    scores: tuple[torch.Tensor, ...]
    expand: tuple[tuple[float, ...], ...] | None = None
    notes: dict[str, Any] | None = None
    wordings: int = 1


class Readout(Protocol):
    """Turns a question into branches, and the hidden states at their reads into scores."""

    name: str
    style: Any

    def branches(
        self, question_id: str, question: Question, orders: Sequence[tuple[int, ...]]
    ) -> list[Branch]:
        """The branches to read, grouped by order. Raises ReadoutError for a question it cannot score."""
        ...

    def segments(self, branch: Branch, first: int) -> list[Segment]:
        """The branch as tree segments; `first` is the index its first segment will have."""
        ...

    def scores(
        self, branches: Sequence[Branch], hidden: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Per branch, float32 scores over `branch.keys` from its reads (reads × hidden)."""
        ...

    def expand(self, question: Question) -> tuple[tuple[float, ...], ...] | None:
        """See `OptionScores.expand`."""
        ...


KINDS = ("choice", "noul", "score")


def used_readouts(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the readouts that a resolved `readout` group puts to use, a router's parts included."""
    names = {options[kind] for kind in KINDS}
    if "auto" in names:
        names |= {options["auto"]["labels"], options["auto"]["head"]}
    return tuple(sorted(names))


def text_segment(backbone: Backbone, branch: Branch) -> Segment:
    """The branch's own text as one segment that is read at its last token."""
    from reflex.forward.tree import Segment

    ids = backbone.tokens.encode(branch.text)
    return Segment(ids, -1, (len(ids) - 1,))
