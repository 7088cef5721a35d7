"""How trees are turned into model calls. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from reflex.checks import check_choice, check_count, check_not_negative

STRATEGIES = ("auto", "packed", "batched", "flat")


@dataclass
class ForwardConfig:
    """strategy: `packed` | `batched` | `flat` | `auto` (per tree, by what re-reading the prefix would cost).

    max_tokens: padded tokens in one model call, or on a CPU in all that run at once (512 a core where that is
      more: reflex/forward/side_by_side.py); what does not fit runs in slices, also a prefix. A longer branch (or a
      row that `flat` was asked for) runs alone.
    row_tokens: length that rows of packed branches are filled to (measured: scripts/bench_forward.py).
    tree_row_tokens: length that rows of whole trees are filled to when gradients flow.
    max_mask: entries of one block mask (rows × queries × keys); bounds memory by tokens squared
      (one row that has more stands alone).
    crossover_tokens: `auto` shares the prefix when re-reading it would cost more tokens than this.
    reuse_tokens: `auto` also shares prefixes at least this long, and any already cached, because later
      calls may ask about the same state (serving sets it; 0 = only what one call shares).
    state_cache_mb: byte budget of the cache of state prefixes (0 switches it off).
    """

    strategy: str = "auto"
    max_tokens: int = 4096
    row_tokens: int = 320
    tree_row_tokens: int = 512
    max_mask: int = 1 << 25
    crossover_tokens: int = 48
    reuse_tokens: int = 0
    state_cache_mb: int = 512

    def __post_init__(self) -> None:
        check_choice("forward.strategy", self.strategy, STRATEGIES)
        for name in ("max_tokens", "row_tokens", "tree_row_tokens", "max_mask"):
            check_count(f"forward.{name}", getattr(self, name))
        for name in ("crossover_tokens", "reuse_tokens", "state_cache_mb"):
            check_not_negative(f"forward.{name}", getattr(self, name))
