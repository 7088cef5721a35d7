"""Held-out rows of the training sources: many families and option counts, none of them trained on.

The `fit` and `report` splits of `reflex.data.sources` in their first wording: what a calibration is fitted
on and judged on, and where option lists are long (banking77: 77, clinc_oos: 151). S1Bench's subsets and
rows that overlap with them are not among them (reflex/data/contamination.py).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reflex.benchmarks.base import Suite, check_count, limited, majority
from reflex.contract import option_keys
from reflex.data.rows import Row, rows_sha256
from reflex.data.splits import HALVES
from reflex.errors import ConfigError, DataError

if TYPE_CHECKING:
    from reflex.data.mixture import Mixture

SOURCES = (
    *("emotion", "ag_news", "anli", "arc_easy", "snips", "goemotions", "banking77", "clinc_oos"),
    *("strategyqa", "mrpc", "rotten_tomatoes", "openai_moderation", "sst5", "feedbackqa"),
)
NOTES = {
    "rows": "held-out rows in the first wording of their source, in hash order",
    "options": "rows of split fit vary the number of options, so that every band has some; rows of split "
    "report show all of them",
    "majority": "what the best constant answer to a row's first question gets; where options differ from row "
    "to row, the best constant place",
}


@dataclass
class HeldOut:
    """`per_source` rows of each source and split. `split`: `report`, `fit` or `all`.

    `questions`: only questions of these names (empty: all). `max_chars`: rows with a longer state are
    left out. `limit`: the first N of each source and split.
    """

    _target_: str = "reflex.benchmarks.held_out.HeldOut"
    name: str = "held_out"
    sources: list[str] = field(default_factory=lambda: list(SOURCES))
    per_source: int | None = 100
    split: str = "all"
    questions: list[str] = field(default_factory=list)
    max_chars: int = 2000
    limit: int | None = None

    def __post_init__(self) -> None:
        for key, count in (
            ("per_source", self.per_source),
            ("max_chars", self.max_chars),
            ("limit", self.limit),
        ):
            check_count(f"benchmark.{key}", count)
        if self.split not in ("all", *HALVES):
            known = ", ".join(("all", *HALVES))
            raise ConfigError(f"benchmark.split={self.split} must be one of {known}")
        if not self.sources or len(set(self.sources)) != len(self.sources):
            raise ConfigError("benchmark.sources must name each source once, and at least one")

    def load(self) -> Suite:
        """Raises DataError or ContaminationError as `reflex.data.mixture.load_mixture` does."""
        from reflex.data.sources import source
        from reflex.data.sources.base import data_root

        mixture = _mixture(tuple(self.sources), self.max_chars, str(data_root()))
        splits = tuple(HALVES) if self.split == "all" else (self.split,)
        rows: list[Row] = []
        for split in splits:
            asked = [self._asked(row) for row in mixture.held_out(split)]
            kept = [row for row in asked if row.questions]
            # Rows come source by source in hash order; a limit is of each, split by split.
            rows += limited(limited(kept, self.per_source, split), self.limit)
        if not rows:
            raise DataError(
                f"benchmark.questions={self.questions}: no row of {', '.join(self.sources)} asks them"
            )
        sources: dict[str, Any] = {}
        for name in self.sources:
            own = [row for row in rows if row.source == name]
            sources[name] = {
                "n": len(own),
                "splits": dict(Counter(row.split for row in own)),
                "options": sorted(
                    {len(option_keys(q)) for row in own for q in row.questions.values()}
                ),
                "licence": source(name).licence,
                **_baseline([row for row in own if row.split != "fit"] or own),
            }
        return Suite(
            name=self.name,
            rows=rows,
            facts={
                "data_sha256": rows_sha256(rows),
                "sources": sources,
                "licences": {name: each["licence"] for name, each in sources.items()},
                "notes": NOTES,
            },
        )

    def _asked(self, row: Row) -> Row:
        names = [name for name in row.questions if not self.questions or name in self.questions]
        return replace(
            row,
            questions={name: row.questions[name] for name in names},
            labels={name: row.labels[name] for name in names},
        )


@lru_cache(maxsize=1)
def _mixture(sources: tuple[str, ...], max_chars: int, root: str) -> Mixture:
    """Every row of the sources by split. Kept: the cells of a sweep read the same rows."""
    from reflex.data.mixture import MixtureConfig, load_mixture

    config = MixtureConfig(
        name="held_out", sources=dict.fromkeys(sources, 1.0), max_chars=max_chars
    )
    return load_mixture(config)


def _baseline(rows: list[Row]) -> dict[str, Any]:
    """As `majority`; by place in the list where no two rows need have the same options."""
    labels = [next(iter(row.labels.values())) for row in rows]
    if not labels or len({tuple(sorted(label)) for label in labels}) == 1:
        return majority(rows)
    places = Counter(
        max(range(len(label)), key=list(label.values()).__getitem__) for label in labels
    )
    place, count = places.most_common(1)[0]
    return {"majority": count / len(labels), "majority_label": f"option {place + 1}"}
