"""Held-out questions over states that cannot answer them: the right answer is to be unsure.

Every row is a held-out row whose state is exchanged for one of a family that is not adjacent to its own; a
row with a question that any text answers is left out (the rules that training rows for abstention are made
by). Its label is uniform, so NLL and Brier say how far from undecided an answer is; there is no gold answer,
and accuracy does not apply.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from reflex.benchmarks.base import Suite, limited
from reflex.benchmarks.held_out import HeldOut, questions_of
from reflex.checks import check_limit
from reflex.data.augment import adjacent, can_abstain
from reflex.data.rows import Row, rows_sha256
from reflex.errors import DataError
from reflex.hashing import stable_hash

SALT = "foreign state"


@dataclass
class ForeignStates:
    """`per_source` rows of each source; states come from the others, by hash. `limit`: of each source."""

    _target_: str = "reflex.benchmarks.foreign_states.ForeignStates"
    name: str = "foreign_states"
    sources: list[str] = field(default_factory=list)
    per_source: int = 100
    max_chars: int = 900
    limit: int | None = None

    def __post_init__(self) -> None:
        check_limit("benchmark.per_source", self.per_source)
        check_limit("benchmark.limit", self.limit)

    def load(self) -> Suite:
        """Raises DataError where no two sources are far enough from each other."""
        suite = HeldOut(
            sources=self.sources,
            per_source=self.per_source,
            split="report",
            max_chars=self.max_chars,
        ).load()
        asks = questions_of(self.sources, self.max_chars, "report")
        unsure = [
            row
            for row in suite.rows
            if all(can_abstain(asks[row.id][name]) for name in row.questions)
        ]
        rows = [made for row in unsure if (made := foreign(row, suite.rows)) is not None]
        if not rows:
            raise DataError(
                "benchmark.sources: name sources of families that are not adjacent, and one at least whose "
                "questions not any text answers"
            )
        rows = limited(rows, self.limit)
        facts: dict[str, Any] = {
            "data_sha256": rows_sha256(rows),
            "licences": suite.facts["licences"],
            "notes": {"label": "uniform: the state cannot answer the question"},
        }
        return Suite(self.name, rows, facts)


def foreign(row: Row, rows: list[Row]) -> Row | None:
    """`row` over another row's state with uniform labels; None where no family is far enough."""
    donors = [each for each in rows if each.family not in adjacent(row.family)]
    if not donors:
        return None
    donor = min(donors, key=lambda each: stable_hash(f"{row.id}\x1f{each.id}", SALT))
    labels = {name: dict.fromkeys(label, 1 / len(label)) for name, label in row.labels.items()}
    return replace(
        row,
        id=f"foreign/{row.id}",
        state=donor.state,
        labels=labels,
        source=f"foreign {row.source}",
        family=f"foreign {row.family}",
    )
