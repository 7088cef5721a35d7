"""How a model is trained. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from reflex.checks import (
    check_above_zero,
    check_choice,
    check_count,
    check_limit,
    check_not_negative,
    check_share,
)
from reflex.errors import ConfigError
from reflex.training.lora_config import LoraConfig
from reflex.training.loss_config import LossConfig

METHODS = ("lora", "full", "head", "frozen")
SCHEDULES = ("cosine", "linear")


@dataclass
class TrainConfig:
    """method: `lora`, `full` (all weights), `head` (the readout's head alone) or `frozen` (nothing: the cell
    of a sweep over trainings that the others are compared with).

    lr, head_lr: peak rates of the backbone's update and of the heads (AdamW). warmup: share of the steps.
    step_tokens: unique tokens of one optimiser step. micro_tokens: of one forward and backward, which
    bounds memory; a longer row is computed again in the backward pass instead of kept, as
    gradient_checkpointing does with every row. max_tokens: stop the plan after this many tokens (null: all rows
    of the mixture).
    orders: option orders each question is trained in (null: those of the `orders` group).
    schema_first: share of the rows, by hash of their id, that are read in the layout schema_first whatever
    prompt.layout says (null: all rows in prompt.layout).
    checkpoint_minutes: at most this much work is lost. keep: checkpoints kept. fresh: set an old run aside.
    name: the run's folder below runs_dir, instead of its hash.
    save_dtype: of the saved adapter (float16 halves its size and keeps three digits more than it needs).
    """

    _target_: str = "reflex.training.config.TrainConfig"
    name: str | None = None
    method: str = "lora"
    lora: LoraConfig = field(default_factory=LoraConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    lr: float = 5e-4
    head_lr: float = 1e-3
    weight_decay: float = 0.0
    schedule: str = "cosine"
    warmup: float = 0.05
    clip: float = 1.0
    step_tokens: int = 3072
    micro_tokens: int = 1536
    max_tokens: int | None = None
    bucket_steps: int = 16
    orders: int | None = None
    schema_first: float | None = None
    gradient_checkpointing: bool = False
    checkpoint_minutes: float = 4.0
    keep: int = 2
    log_steps: int = 10
    fresh: bool = False
    save_dtype: str = "float16"

    def __post_init__(self) -> None:
        check_choice("train.method", self.method, METHODS)
        check_choice("train.schedule", self.schedule, SCHEDULES)
        for name in ("step_tokens", "micro_tokens", "keep", "log_steps", "bucket_steps"):
            check_count(f"train.{name}", getattr(self, name))
        check_limit("train.max_tokens", self.max_tokens)
        if self.orders is not None:  # null is no limit here, but the run's own orders
            check_count("train.orders", self.orders)
        for name in ("lr", "head_lr", "clip", "checkpoint_minutes"):
            check_above_zero(f"train.{name}", getattr(self, name))
        check_not_negative("train.weight_decay", self.weight_decay)
        if self.name and (self.name == ".." or Path(self.name).name != self.name):
            raise ConfigError(
                f"train.name={self.name}: the name of a folder below runs_dir, no path"
            )
        check_choice("train.save_dtype", self.save_dtype, ("float32", "float16", "bfloat16"))
        if not 0 <= self.warmup < 1:
            raise ConfigError(f"train.warmup={self.warmup}: a share of the steps, in 0..1")
        if self.schema_first is not None:
            check_share("train.schema_first", self.schema_first)
        if self.loss.anchor and self.method in ("full", "head"):
            raise ConfigError(
                f"train.loss.anchor: needs train.method=lora; with {self.method} no frozen weights are kept "
                "beside the trained ones"
            )
