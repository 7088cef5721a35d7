"""`task=plan experiment=… `: what a training run will take, measured on a few of its own steps.

Nothing is guessed: tokens come from the run's own rows, padding and speed from real steps of the real
model on this machine, and the first step, which pays for warming up, is left out.
"""

from __future__ import annotations

import logging
import math
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from reflex.checks import check_count

if TYPE_CHECKING:
    from reflex.training.module import TrainingModule

log = logging.getLogger(__name__)


@dataclass
class PlanTask:
    """steps: real steps that are timed, after one that is not."""

    _target_: str = "reflex.tasks.plan.PlanTask"
    name: str = "plan"
    steps: int = 3

    def __post_init__(self) -> None:
        check_count("task.steps", self.steps)

    def run(self, cfg: DictConfig) -> int:
        """Prints the plan; nothing of it is kept."""
        from reflex.tasks.lineage import ROWS
        from reflex.tasks.train import build_training, train_config

        train_config(cfg)
        work = Path(tempfile.mkdtemp(prefix="reflex-plan-"))
        try:
            module = build_training(cfg, work)
            rows_bytes = (work / ROWS).stat().st_size
        finally:
            shutil.rmtree(work, ignore_errors=True)
        measured = measure(module, self.steps)
        for name, value in report(module, measured, rows_bytes).items():
            print(f"{name:28} {value}")
        return 0


def measure(module: TrainingModule, steps: int) -> dict[str, float]:
    """Tokens per second, padding factor and peak memory over `steps` real optimiser steps."""
    import torch

    from reflex.training.lora import merge_all
    from reflex.training.module import trainable

    optimiser = torch.optim.AdamW(trainable(module).values(), lr=0.0)
    plan = module.plan
    timed: list[tuple[int, float]] = []
    cells = module.model.backbone.cells
    cells.clear()
    # Spread over the run, so that no kind of row is left out by its place in the order.
    count = min(steps + 1, len(plan.steps))
    places = [i * len(plan.steps) // count for i in range(count)]
    for place in places:
        started = time.perf_counter()
        questions = sum(len(module.rows[i].questions) for m in plan.steps[place] for i in m)
        for micro in plan.steps[place]:
            (module.losses(micro).sum() / questions).backward()
        optimiser.step()
        optimiser.zero_grad()
        merge_all(module.model)
        timed.append((plan.step_tokens(place), time.perf_counter() - started))
    kept = timed[1:] or timed
    return {
        "tokens_per_s": sum(tokens for tokens, _ in kept) / sum(seconds for _, seconds in kept),
        "padding": cells.factor,
        "memory_gb": _peak_gb(),
    }


def report(module: TrainingModule, measured: dict[str, float], rows_bytes: int) -> dict[str, str]:
    """What is printed, in order."""
    from reflex.training.module import trainable

    plan, config = module.plan, module.config
    used = sorted(plan.read([i]) for step in plan.steps for micro in step for i in micro)
    seconds = plan.total_tokens / measured["tokens_per_s"]
    weights = sum(p.numel() * p.element_size() for p in trainable(module).values())
    saves = max(1, math.floor(seconds / (60 * config.checkpoint_minutes)))
    return {
        "rows": f"{len(used)} of {len(module.rows)} ({rows_bytes / 1e6:.0f} MB as a file)",
        "tokens per row": (
            f"mean {statistics.fmean(used):.0f}, median {statistics.median(used):.0f}, "
            f"p95 {used[int(0.95 * (len(used) - 1))]}, longest {used[-1]}"
        ),
        "tokens": f"{plan.total_tokens}",
        "steps": f"{len(plan.steps)} of about {config.step_tokens} tokens",
        "trained parameters": f"{sum(p.numel() for p in trainable(module).values())}",
        "padding factor": f"{measured['padding']:.3f}",
        "tokens per second": f"{measured['tokens_per_s']:.0f}",
        "time": f"{seconds / 60:.0f} min",
        "memory, peak": f"{measured['memory_gb']:.1f} GB",
        "checkpoints": (
            f"about {saves} written, {min(saves, config.keep)} kept, {3 * weights / 1e6:.1f} MB each"
        ),
    }


def _peak_gb() -> float:
    import torch

    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e9
    import resource
    import sys

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
