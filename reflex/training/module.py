"""The Lightning module: planned steps through `DecisionModel.forward`, the loss, the optimiser."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import lightning
import torch

from reflex.data.rows import Row, rows_sha256
from reflex.errors import ConfigError, TrainingError
from reflex.forward.product_attention import use_product_attention
from reflex.model import DecisionModel, Prepared
from reflex.readouts.base import OptionScores
from reflex.training.batches import Plan, micro_batches
from reflex.training.config import TrainConfig
from reflex.training.lora import add_lora, frozen, merge_all
from reflex.training.losses import question_losses
from reflex.training.processes import (
    end_on_sigterm,
    local_gradients,
    process,
    sum_over_processes,
)

log = logging.getLogger(__name__)


def prepare(model: DecisionModel, config: TrainConfig, seed: int) -> None:
    """Put the trained parts in place: adapter, heads or everything; the rest stays frozen.

    Raises TrainingError where that leaves nothing to train, ConfigError as `add_lora` does.
    """
    model.requires_grad_(False)
    if config.method == "lora":
        dtype = getattr(torch, model.backbone.facts.dtype)
        add_lora(model.backbone.model, config.lora, seed, dtype)
    elif config.method == "full":
        model.backbone.model.float().requires_grad_(True)
    for head in model.heads.values():
        head.requires_grad_(True)
    if model.backbone.facts.packable and model.backbone.device.type == "cpu":
        use_product_attention(model.backbone.model)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise TrainingError("train.method=head: the readouts in use have no head; use lora")


def trainable(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


class TrainingModule(lightning.LightningModule):
    """One `training_step` is one optimiser step over planned micro-batches (manual optimisation).

    The loss is the mean over the step's questions, however they are divided into micro-batches.
    """

    def __init__(
        self,
        model: DecisionModel,
        rows: Sequence[Row],
        compiled: Sequence[Prepared],
        plan: Plan,
        config: TrainConfig,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = model
        self.rows = rows
        self.compiled = compiled
        self.plan = plan
        self.config = config
        self.fingerprint = f"{plan.fingerprint()}:{rows_sha256(rows)}"
        self.step = 0
        self.last: dict[str, float] = {}
        check_targets(compiled, config)

    # -- what Lightning asks for ---------------------------------------------------------------

    def configure_optimizers(self) -> Any:
        heads = {f"model.heads.{name}" for name, _ in self.model.heads.named_parameters()}
        named = trainable(self)
        groups = [
            {"params": [p for n, p in named.items() if n not in heads], "lr": self.config.lr},
            {"params": [p for n, p in named.items() if n in heads], "lr": self.config.head_lr},
        ]
        optimiser = torch.optim.AdamW(
            [group for group in groups if group["params"]], weight_decay=self.config.weight_decay
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: rate(step, len(self.plan.steps), self.config)
        )
        return {"optimizer": optimiser, "lr_scheduler": schedule}

    def train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(
            _Remaining(self), batch_size=None, num_workers=0, collate_fn=lambda step: step
        )

    def on_train_start(self) -> None:
        end_on_sigterm()

    def training_step(self, step: int, index: int) -> None:
        optimiser = self.optimizers()
        schedule = self.lr_schedulers()
        optimiser.zero_grad()  # type: ignore[union-attr]
        loss = self.accumulate(self.plan.steps[step])
        parameters = list(trainable(self).values())
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.config.clip)
        if not math.isfinite(float(norm)):
            raise TrainingError(f"step {step}: gradient is not finite; {self._rows_of(step)}")
        optimiser.step()  # type: ignore[union-attr]
        schedule.step()  # type: ignore[union-attr]
        merge_all(self.model)
        self.step = step + 1
        lr = float(schedule.get_last_lr()[0])  # type: ignore[union-attr]
        self.last = {"loss": loss, "grad_norm": float(norm), "lr": lr}

    # -- the loss ------------------------------------------------------------------------------

    def accumulate(self, micros: Sequence[Sequence[int]]) -> float:
        """Gradients of the step's mean loss; returns that loss. Several processes share the rows.

        Raises TrainingError, naming the rows, for a loss that is not finite.
        """
        questions = sum(len(self.rows[i].questions) for micro in micros for i in micro)
        total = 0.0
        with local_gradients(self):
            for micro in self._own_share(micros):
                losses = self.losses(micro)
                loss = losses.sum() / questions
                value = float(loss.detach())
                if not math.isfinite(value):
                    names = ", ".join(self.rows[i].id for i in micro)
                    raise TrainingError(f"step {self.step}: the loss is {value}; rows: {names}")
                self.manual_backward(loss)
                total += value
        return sum_over_processes(trainable(self).values(), total)

    def _own_share(self, micros: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        rank, world = process()
        if world == 1:
            return micros
        own = [i for micro in micros for i in micro][rank::world]
        return micro_batches(self.plan, own, self.config.micro_tokens)

    def losses(self, indices: Sequence[int]) -> torch.Tensor:
        """One loss per question of these rows, in order.

        A row of more than `micro_tokens`, which is not divided, keeps its inputs alone for the backward pass and
        is computed again there: the same gradients in the memory of one layer.
        """
        if self.config.method != "head":  # nothing flows back through the backbone
            long = self.plan.read(indices) > self.config.micro_tokens
            recompute(self.model.backbone.model, self.config.gradient_checkpointing or long)
        compiled = [self.compiled[i] for i in indices]
        asked = [(i, name) for i in indices for name in self.rows[i].questions]
        targets = [self.rows[i].labels[name] for i, name in asked]
        held = self.frozen_answers(compiled) if self.config.loss.anchor else None
        scores = dict(zip(indices, self.model(compiled).scores, strict=True))
        scored = [scores[i][name] for i, name in asked]
        return question_losses(scored, targets, self.config.loss, held)

    def frozen_answers(self, compiled: Sequence[Prepared]) -> list[OptionScores | None]:
        """What the untrained backbone scores, question by question; None where a readout's head decides.

        With gradients switched on, so that it is the same forward to the last bit: without them the engine
        would share cached prefixes.
        """
        with frozen(self.model):
            output = self.model(compiled)
        return [
            replace(scores, scores=tuple(each.detach() for each in scores.scores))
            if has_frozen_answer(asked.readout)
            else None
            for item, found in zip(compiled, output.scores, strict=True)
            for asked in item.asked
            for scores in (found[asked.question_id],)
        ]

    def _rows_of(self, step: int) -> str:
        names = [self.rows[i].id for micro in self.plan.steps[step] for i in micro]
        return f"rows: {', '.join(names)}"

    # -- resume --------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything a checkpoint holds beside step and random states."""
        return {
            "plan": self.fingerprint,
            "weights": {name: p.detach().clone() for name, p in trainable(self).items()},
            "optimiser": self.trainer.optimizers[0].state_dict(),
            "schedule": self.trainer.lr_scheduler_configs[0].scheduler.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint. Raises TrainingError when it belongs to other data or settings."""
        if state["plan"] != self.fingerprint:
            raise TrainingError(
                "the checkpoint belongs to another plan of rows; start anew with train.fresh=true"
            )
        own = trainable(self)
        if set(own) != set(state["weights"]):
            raise TrainingError(
                "the checkpoint holds other weights; start anew with train.fresh=true"
            )
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(state["weights"][name])
        self.trainer.optimizers[0].load_state_dict(state["optimiser"])
        self.trainer.lr_scheduler_configs[0].scheduler.load_state_dict(state["schedule"])
        self.step = state["step"]
        merge_all(self.model)


class _Remaining(torch.utils.data.IterableDataset):
    """Numbers of the steps that are still to do."""

    def __init__(self, module: TrainingModule) -> None:
        self.module = module

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.module.step, len(self.module.plan.steps)))


def recompute(model: Any, on: bool) -> None:
    """Whether the model's next forward keeps each layer's input alone (activation checkpointing)."""
    if on:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    else:
        model.gradient_checkpointing_disable()
    model.train(on)  # transformers recomputes in training mode alone


def rate(step: int, steps: int, config: TrainConfig) -> float:
    """Factor on the peak rate: linear warm-up, then down to 0 at the last step."""
    warm = max(1, round(steps * config.warmup))
    if step < warm:
        return (step + 1) / warm
    done = (step - warm) / max(1, steps - warm)
    if config.schedule == "linear":
        return max(0.0, 1 - done)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def has_frozen_answer(readout: Any) -> bool:
    """Whether the frozen backbone answers through `readout`: a head starts untrained and has nothing to say."""
    return getattr(readout, "head", None) is None


def check_targets(compiled: Sequence[Prepared], config: TrainConfig) -> None:
    """Raise ConfigError for a loss term that these questions leave without a target."""
    asked = [each for item in compiled for each in item.asked]
    if config.loss.anchor:
        headed = sorted(
            {each.readout.name for each in asked if not has_frozen_answer(each.readout)}
        )
        if all(not has_frozen_answer(each.readout) for each in asked):
            raise ConfigError(
                f"train.loss.anchor: readout {', '.join(headed)} has no frozen answer, its head is untrained; "
                "use readout=label_tokens or continuation, or remove the anchor"
            )
        if headed:
            log.warning("train.loss.anchor: questions read by %s are not held", ", ".join(headed))
    if config.loss.self_distill and all(
        len({branch.order for branch in each.branches}) == 1 for each in asked
    ):
        raise ConfigError(
            "train.loss.self_distill: every question is read in one order, which is its own mean; set "
            "train.orders=4 and a readout with labels"
        )
