"""24 support tickets × 3 questions, written and labelled for this project: a smoke set.

It shows that a choice, a score and a noul question work end to end, and a model far off. It cannot tell two
working models apart; `facts["notes"]` says how far apart they would have to be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from reflex.assets import sha256_of
from reflex.benchmarks.base import Suite, limited
from reflex.benchmarks.task_file import read_tasks
from reflex.checks import check_limit

NAME = "tickets"
FILE = Path(__file__).with_name("tickets.json")
LICENCE = "Apache-2.0"
DISCORDANT = (0.15, 0.3, 0.5)
"""Shares of tickets that exactly one of two systems has right, for `cannot_detect`."""


@dataclass
class Tickets:
    """`limit`: the first N tickets in hash order."""

    _target_: str = "reflex.benchmarks.tickets.Tickets"
    name: str = NAME
    limit: int | None = None

    def __post_init__(self) -> None:
        check_limit("benchmark.limit", self.limit)

    def load(self) -> Suite:
        every = read_tasks(FILE)
        rows = limited(every, self.limit)
        counts = {"n": len(rows), "n_available": len(every)}
        return Suite(
            name=self.name,
            rows=rows,
            facts={
                "data_sha256": sha256_of(FILE),
                "sources": {NAME: {"word": "exact", **counts, "licence": LICENCE}},
                "detectable": half_width(len(rows)),
                "licences": {NAME: LICENCE},
                "notes": {"size": cannot_detect(len(rows))},
            },
        )


def half_width(n: int) -> float:
    """Half the width of a 95 % interval around an accuracy of 80 % of n answers: z √(p (1 − p) / n)."""
    return 1.96 * math.sqrt(0.8 * (1 - 0.8) / n)


def cannot_detect(n: int) -> str:
    """One plain passage for the page: what n tickets are too few for."""
    from reflex.metrics.resampling import detectable_accuracy

    paired = []
    for share in DISCORDANT:
        found = detectable_accuracy(share, n)
        far = "not at all" if found is None else f"from {100 * found:.0f} points on"
        paired.append(f"{far} when they disagree on {share:.0%} of the tickets")
    return (
        f"A smoke set: {n} tickets per question. An accuracy of 80 % is known to "
        f"±{100 * half_width(n):.0f} points. Two systems can be told apart (4 times in 5) "
        f"{', '.join(paired)}. Calibration errors cannot be read from it, and the three questions "
        "share the tickets, so pooling them adds little."
    )
