"""How much of what a backbone computes on is padding: cells against tokens, counted in its model calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
