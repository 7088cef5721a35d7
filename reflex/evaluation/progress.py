"""How far a suite is, and the time left, while it runs."""

from __future__ import annotations

import logging
import time
from typing import Any

import lightning.pytorch as pl
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

log = logging.getLogger(__name__)


class ItemProgress(pl.Callback):
    """Items per second and time left; a bar on a terminal, a log line every few seconds elsewhere.

    total, tokens: of the whole suite. Time goes by tokens, for the longest items come first.
    """

    def __init__(self, total: int, tokens: int, every_s: float = 15.0) -> None:
        self.total = total
        self.tokens = tokens
        self.every_s = every_s
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[items]}/{task.fields[of]} items"),
            TextColumn("{task.fields[rate]:.1f} items/s"),
            TimeRemainingColumn(),
            transient=True,
            console=Console(stderr=True),  # standard output is for results
        )

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.start = self.said = time.perf_counter()
        self.done = self.read = 0
        self.task = self.progress.add_task(
            "evaluate", total=self.tokens, items=0, of=self.total, rate=0.0
        )
        if self.progress.console.is_terminal:
            self.progress.start()

    def on_test_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        self.done += len(batch)
        self.read += sum(item.compiled.unique_tokens for item in batch)
        now = time.perf_counter()
        spent = max(now - self.start, 1e-9)
        rate = self.done / spent
        self.progress.update(self.task, completed=self.read, items=self.done, rate=rate)
        if not self.progress.console.is_terminal and now - self.said > self.every_s:
            self.said = now
            left = spent * (self.tokens - self.read) / self.read
            log.info("%d/%d items, %.1f items/s, %.0f s left", self.done, self.total, rate, left)

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._stop()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._stop()

    def _stop(self) -> None:
        # Stopping what never started would print an empty line.
        if self.progress.live.is_started:
            self.progress.stop()
