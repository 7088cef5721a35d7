"""`candidates`: the question's state against options that are encoded apart from it.

An option is read alone, without state or question, so its encoding serves every request that offers it: it
is computed once per call and kept for later ones. A set-attention head then compares the options with each
other and with the question. Options are sorted canonically, so order cannot matter.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reflex.errors import ConfigError
from reflex.prompts.prompt import Branch
from reflex.readouts import base

if TYPE_CHECKING:
    import torch

    from reflex.backbones.backbone import Backbone
    from reflex.forward.config import ForwardConfig

NAME = "candidates"


@dataclass
class Config:
    """width, heads: of the set attention. kept: encoded options kept across requests (0: none).
    weights: a heads file written by training or a release; without it the head is untrained."""

    width: int = 256
    heads: int = 8
    kept: int = 8192
    weights: str | None = None

    def __post_init__(self) -> None:
        if self.width < 1 or self.heads < 1 or self.width % self.heads:
            raise ConfigError(
                f"readout.candidates.width={self.width}: must be a multiple of heads={self.heads}"
            )
        if self.kept < 0:
            raise ConfigError(
                f"readout.candidates.kept={self.kept}: must not be negative; 0 keeps none"
            )


class Readout(base.CanonicalReadout):
    """All three question types."""

    name = NAME

    def __init__(
        self, config: Config, backbone: Backbone, style: Any, forward: ForwardConfig
    ) -> None:
        from reflex.forward.engine import Forward
        from reflex.readouts.candidates_head import make_head
        from reflex.readouts.pointer_head import load_head

        super().__init__(config, backbone, style, forward)
        self.head = make_head(config, backbone.hidden_size).to(backbone.device)
        if config.weights is not None:
            load_head(self.head, config.weights, NAME)
        # Options have no prefix that could be kept.
        self.engine = Forward(backbone, replace(forward, state_cache_mb=0))
        self.known: OrderedDict[tuple[int, ...], torch.Tensor] = OrderedDict()

    def apart(self, branch: Branch) -> tuple[tuple[int, ...], ...]:
        return self.option_ids(branch)

    def scores(
        self, branches: Sequence[Branch], hidden: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        import torch

        ids = [self.apart(branch) for branch in branches]
        encoded = self._encode(dict.fromkeys(each for own in ids for each in own))
        sizes = [len(own) for own in ids]
        padded = torch.nn.utils.rnn.pad_sequence(
            [torch.stack([encoded[each] for each in own]) for own in ids], batch_first=True
        )
        counts = torch.tensor(sizes, device=padded.device)
        mask = torch.arange(padded.shape[1], device=padded.device) < counts[:, None]
        questions = torch.stack([rows[0] for rows in hidden]).float()
        scores = self.head(questions, padded.float(), mask)
        return [row[:size] for row, size in zip(scores, sizes, strict=True)]

    def _encode(self, wanted: dict[tuple[int, ...], None]) -> dict[tuple[int, ...], torch.Tensor]:
        """Hidden state at the end of each option, each computed once; kept unless gradients flow."""
        import torch

        from reflex.forward.tree import alone

        training = torch.is_grad_enabled()
        if training:
            self.known.clear()  # the weights that made them are about to change
        found = {ids: self.known[ids] for ids in wanted if ids in self.known}
        missing = [ids for ids in wanted if ids not in found]
        if missing:
            self.apart_read += sum(map(len, missing))
            result = self.engine.run([alone(ids) for ids in missing])
            found |= {ids: rows[0] for ids, rows in zip(missing, result.hidden, strict=True)}
        if not training:
            for ids in wanted:
                self.known[ids] = found[ids]
                self.known.move_to_end(ids)
            while len(self.known) > self.config.kept:
                self.known.popitem(last=False)
        return found
