"""What a source must have in each split for its labels to be trained and measured."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from reflex.data.splits import HALVES
from reflex.errors import DataError

if TYPE_CHECKING:
    from reflex.data.mixture import Pool

COMMON = 100
"""Training items of a label from which on none held out is no chance: below 10⁻⁸ by the shares of base.py."""


def check_coverage(pool: Pool) -> None:
    """What is held out is trained, and what is trained is held out. Raises DataError.

    A source with training items has some in both held-out splits. Of a question with a fixed label set
    (multiple choice has none) every label offered is seen, every label seen is trained, and one with `COMMON`
    training items or more is held out. A rarer one need not be: of a label with twenty items chance holds out none
    in one split of twenty-five, and more rows are often not to be had.
    """
    if pool.items["train"]:
        for split in HALVES:
            if not pool.items[split]:
                raise DataError(
                    f"source {pool.name}: trained, but split {split} has no items; use more rows of the source"
                )
    offered: dict[str, set[str]] = {}
    seen: dict[str, Counter[str]] = {}
    fixed: dict[str, set[tuple[str, ...]]] = {}
    for split, items in pool.items.items():
        for item in items:
            for name, ask in item.asks.items():
                labels = tuple(ask.sets[0]) if ask.sets and ask.sets[0] else ("true", "false")
                fixed.setdefault(name, set()).add(labels)
                offered.setdefault(name, set()).update(labels)
                for label, p in ask.distribution(labels).items():
                    if p > 0:
                        seen.setdefault(f"{name}/{split}", Counter())[label] += 1
    for name, wanted in offered.items():
        if len(fixed[name]) > 1:
            continue
        train = set(seen.get(f"{name}/train", ()))
        observed = set().union(*(seen.get(f"{name}/{split}", ()) for split in pool.items))
        if missing := sorted(observed - train):
            raise DataError(
                f"source {pool.name}: label {missing[0]!r} of {name} is never trained but scored; "
                "use more rows of the source"
            )
        if missing := sorted(wanted - observed):
            raise DataError(
                f"source {pool.name}: {name} offers {missing[0]!r}, which no row has as its answer; "
                "use more rows of the source"
            )
        trained = seen.get(f"{name}/train", Counter())
        held_out = set().union(*(seen.get(f"{name}/{split}", ()) for split in HALVES))
        common = {label for label, count in trained.items() if count >= COMMON}
        if missing := sorted(common - held_out):
            raise DataError(
                f"source {pool.name}: label {missing[0]!r} of {name} is trained on {trained[missing[0]]} items but "
                f"in no item of splits {' and '.join(HALVES)}; hold some of them out"
            )
