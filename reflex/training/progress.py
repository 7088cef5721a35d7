"""What a run tells while it goes: loss, speed and padding over the last window, time left; checkpoints."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import lightning

from reflex.backbones.padding import Cells
from reflex.training.checkpoint import load_newest, restore_random, save_checkpoint
from reflex.training.config import TrainConfig

log = logging.getLogger(__name__)


class Progress(lightning.Callback):
    """One line every `log_steps` steps, the same numbers as JSON lines in `log.jsonl` and to the logger.

    `cells` is what the backbone's calls count into; it is emptied with every line.
    """

    def __init__(self, folder: Path, config: TrainConfig, cells: Cells) -> None:
        self.path = folder / "log.jsonl"
        self.every = config.log_steps
        self.cells = cells
        self.losses: list[float] = []
        self.tokens = 0
        self.clock = 0.0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.clock = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: int, batch_idx: int
    ) -> None:
        plan = pl_module.plan
        self.losses.append(pl_module.last["loss"])
        self.tokens += plan.step_tokens(batch)
        done, total = pl_module.step, len(plan.steps)
        if (done % self.every and done != total) or not trainer.is_global_zero:
            return
        now = time.perf_counter()
        speed = self.tokens / max(1e-9, now - self.clock)
        left = sum(map(plan.step_tokens, range(done, total)))
        line = {
            "step": done,
            "steps": total,
            "loss": round(sum(self.losses) / len(self.losses), 5),
            "lr": pl_module.last["lr"],
            "grad_norm": round(pl_module.last["grad_norm"], 4),
            "tokens_per_s": round(speed, 1),
            "padding": round(self.cells.factor, 3),
            "left_s": round(left / speed),
        }
        log.info(
            "step %d/%d  loss %.4f  lr %.2e  %.0f tokens/s  padding %.2f  %.0f min left",
            done, total, line["loss"], line["lr"], speed, line["padding"], left / speed / 60,
        )  # fmt: skip
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if trainer.logger is not None:
            trainer.logger.log_metrics({k: v for k, v in line.items() if k != "step"}, step=done)
        self.losses, self.tokens, self.clock = [], 0, now
        self.cells.clear()


class Checkpoints(lightning.Callback):
    """Resumes before the first step; saves every few minutes and at the end."""

    def __init__(self, folder: Path, config: TrainConfig) -> None:
        self.folder = folder
        self.seconds = 60 * config.checkpoint_minutes
        self.keep = config.keep
        self.saved = 0.0
        self.state: dict[str, Any] | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        # Lightning draws the first step number before on_train_start, and optimisers exist only then.
        self.state = load_newest(self.folder)
        if self.state is not None:
            pl_module.step = self.state["step"]

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if self.state is not None:
            pl_module.restore(self.state)
            restore_random(self.state["random"])
            log.info("resumed at step %d of %d", pl_module.step, len(pl_module.plan.steps))
        self.state = None
        self.saved = time.monotonic()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: int, batch_idx: int
    ) -> None:
        last = pl_module.step == len(pl_module.plan.steps)
        if last or time.monotonic() - self.saved >= self.seconds:
            if trainer.is_global_zero:
                save_checkpoint(self.folder, pl_module.step, pl_module.state(), self.keep)
            self.saved = time.monotonic()
