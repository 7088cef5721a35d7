"""The terms of the training loss. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from reflex.checks import check_not_negative
from reflex.errors import ConfigError


@dataclass
class LossConfig:
    """Weights of the terms. `nll` cross-entropy; `brier` Σ(p−t)² over options (0..2); for `score` questions
    only: `rps` ranked probability score, `ordinal` expected squared distance of levels, both in 0..1.

    Two terms look at no label. `anchor`: KL(frozen ‖ trained), how far an answer has moved from the same
    backbone without its update (train.method=lora; readouts without a head of their own, whose untrained
    answer would mean nothing). `self_distill`: KL(mean ‖ order), how far the answer in one order is from the
    model's own mean over the orders it is trained in (train.orders).
    """

    nll: float = 1.0
    brier: float = 0.0
    rps: float = 0.0
    ordinal: float = 0.0
    anchor: float = 0.0
    self_distill: float = 0.0

    def __post_init__(self) -> None:
        values = vars(self)
        for name, value in values.items():
            check_not_negative(f"train.loss.{name}", value)
        if not any(values.values()):
            raise ConfigError("train.loss: every term has weight 0; give one a weight")
