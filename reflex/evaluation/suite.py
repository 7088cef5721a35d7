"""Lightning runs the suite: a module whose `test_step` calls the one forward, token-budget batches."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import lightning.pytorch as pl
import pandas as pd
from torch.utils.data import DataLoader

from reflex.contract import Request
from reflex.data.rows import Row
from reflex.decider import Decider, Decision
from reflex.evaluation.progress import ItemProgress
from reflex.evaluation.rows import row_predictions
from reflex.forward.groups import by_sum
from reflex.model import Prepared
from reflex.quiet import quiet_lightning

quiet_lightning()

BATCH_TOKENS = 8192
"""Unique tokens per forward, which runs them in model calls of the size that suits the device."""


@dataclass(frozen=True)
class Item:
    """A row ready for the forward; `index` is its place in the suite."""

    index: int
    row: Row
    compiled: Prepared


@dataclass
class SuiteResult:
    """Predictions in suite order, and what they cost. unique_tokens: of the rows' trees, and of what readouts
    read beside them."""

    predictions: pd.DataFrame
    unique_tokens: int
    seconds: float
    strategies: dict[str, int] = field(default_factory=dict)

    def cost(self, decider: Decider) -> dict[str, Any]:
        """Tokens and milliseconds per decision (one question of one item)."""
        decisions = len(self.predictions)
        cache = decider.model.engine.cache
        return {
            "decisions": decisions,
            "tokens_per_decision": self.unique_tokens / decisions,
            "ms_per_decision": 1e3 * self.seconds / decisions,
            "forward_s": self.seconds,
            "cache": {"hits": cache.hits, "misses": cache.misses},
        }


class EvaluationData(pl.LightningDataModule):
    """The suite's rows as batches of at most `batch_tokens` unique tokens, longest first."""

    def __init__(self, decider: Decider, rows: Sequence[Row], batch_tokens: int | None) -> None:
        super().__init__()
        if batch_tokens is None:
            batch_tokens = BATCH_TOKENS
        items = [
            Item(i, row, decider.model.prepare(Request(state=row.state, questions=row.questions)))
            for i, row in enumerate(rows)
        ]
        items.sort(key=lambda item: -item.compiled.unique_tokens)
        self.batches = list(by_sum(items, lambda item: item.compiled.unique_tokens, batch_tokens))
        self.tree_tokens = sum(item.compiled.unique_tokens for item in items)

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.batches, batch_size=None, collate_fn=None)  # type: ignore[arg-type]

    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        return batch  # token ids become tensors inside the forward


class EvaluationModule(pl.LightningModule):
    """`test_step` decides a batch; decisions are kept by suite index, so order is restored at the end."""

    def __init__(self, decider: Decider) -> None:
        super().__init__()
        # Not the model: Lightning would move a part of this module to the CPU when the suite is over.
        self.decider = decider
        self.decisions: dict[int, dict[str, Decision]] = {}
        self.seconds = 0.0
        self.strategies: Counter[str] = Counter()

    def test_step(self, batch: list[Item], batch_idx: int) -> None:
        start = time.perf_counter()
        decided = self.decider.decide([item.compiled for item in batch])
        self.seconds += time.perf_counter() - start
        for item, decisions in zip(batch, decided, strict=True):
            self.decisions[item.index] = decisions


def run_suite(
    decider: Decider, rows: Sequence[Row], batch_tokens: int | None = None, logger: Any = None
) -> SuiteResult:
    """Decide every question of every row through Lightning; predictions come back in suite order.

    batch_tokens: unique tokens of the rows that go through one forward; None = BATCH_TOKENS.
    """
    data = EvaluationData(decider, rows, batch_tokens)
    module = EvaluationModule(decider)
    before = _apart_read(decider)
    device = decider.model.backbone.device.type
    trainer = pl.Trainer(
        accelerator={"cuda": "gpu"}.get(device, device),
        devices=1,
        logger=logger or False,
        callbacks=[ItemProgress(len(rows), data.tree_tokens)],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    count = lambda _, __, output: module.strategies.update(output.strategies)  # noqa: E731
    hook = decider.model.register_forward_hook(count)
    try:
        with interruptible():
            trainer.test(module, datamodule=data, verbose=False)
    finally:
        hook.remove()
    frame = pd.DataFrame(
        prediction
        for i, row in enumerate(rows)
        for prediction in row_predictions(row, module.decisions[i])
    )
    tokens = data.tree_tokens + _apart_read(decider) - before
    return SuiteResult(frame, tokens, module.seconds, dict(module.strategies))


def _apart_read(decider: Decider) -> int:
    """Tokens that its readouts had read beside the trees so far, such as options of their own."""
    return sum(readout.apart_read for readout in decider.model.built.values())


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C stays KeyboardInterrupt: Lightning makes it exit(1) and leaves the signal ignored."""
    try:
        yield
    except SystemExit:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)
        raise KeyboardInterrupt from None
