"""How much of what training computes on is padding: cells against tokens, counted in the model calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from reflex.forward import calls


@dataclass
class Cells:
    """laid: rows times their longest, over all calls. used: tokens among them."""

    laid: int = 0
    used: int = 0

    @property
    def factor(self) -> float:
        """Cells computed on for each token: 1 without padding."""
        return self.laid / max(1, self.used)

    def add(self, lengths: Sequence[int]) -> None:
        self.laid += len(lengths) * max(lengths)
        self.used += sum(lengths)

    def clear(self) -> None:
        self.laid = self.used = 0


@contextmanager
def counted() -> Iterator[Cells]:
    """Inside, every training call (tree rows or plain rows) is counted; nothing that it computes changes."""
    cells = Cells()
    run_tree_rows, run_rows = calls.run_tree_rows, calls.run_rows

    def tree_rows(backbone: Any, group: Any) -> Any:
        cells.add([len(row.ids) for row in group])
        return run_tree_rows(backbone, group)

    def flat_rows(backbone: Any, group: Any) -> Any:
        cells.add([len(ids) for ids in group])
        return run_rows(backbone, group)

    calls.run_tree_rows, calls.run_rows = tree_rows, flat_rows  # type: ignore[assignment]
    try:
        yield cells
    finally:
        calls.run_tree_rows, calls.run_rows = run_tree_rows, run_rows
