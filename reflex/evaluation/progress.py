"""Items per second and time left while a suite runs."""

from __future__ import annotations

import logging
import time
from typing import Any

import lightning.pytorch as pl
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

log = logging.getLogger(__name__)


class ItemProgress(pl.Callback):
    """Items per second and time left; a bar on a terminal, a log line every few seconds elsewhere."""

    def __init__(self, total: int, every_s: float = 15.0) -> None:
        self.total = total
        self.every_s = every_s
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:.1f} items/s"),
            TimeRemainingColumn(),
            transient=True,
            console=Console(stderr=True),  # standard output is for results
        )

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.start = self.said = time.perf_counter()
        self.done = 0
        self.task = self.progress.add_task("evaluate", total=self.total, rate=0.0)
        if self.progress.console.is_terminal:
            self.progress.start()

    def on_test_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        self.done += len(batch)
        now = time.perf_counter()
        rate = self.done / max(now - self.start, 1e-9)
        self.progress.update(self.task, completed=self.done, rate=rate)
        if not self.progress.console.is_terminal and now - self.said > self.every_s:
            self.said = now
            left = (self.total - self.done) / rate
            log.info("%d/%d items, %.1f items/s, %.0f s left", self.done, self.total, rate, left)

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._stop()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._stop()

    def _stop(self) -> None:
        # Stopping what never started would print an empty line.
        if self.progress.live.is_started:
            self.progress.stop()
