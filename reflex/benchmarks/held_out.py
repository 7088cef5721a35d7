"""Held-out rows of the training sources: many families and option counts, none of them trained on.

The `fit` and `report` splits of `reflex.data.sources` in their first wording: what a calibration is fitted
on and judged on, and where option lists are long (banking77: 77, clinc_oos: 151). S1Bench's subsets and
rows that overlap with them are not among them (reflex/data/guard.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reflex.benchmarks.base import Suite, limited, measured, row_counts
from reflex.checks import check_choice, check_limit, check_names
from reflex.contract import option_keys
from reflex.data.augment import build
from reflex.data.root import source_root
from reflex.data.rows import Row, rows_sha256
from reflex.data.splits import HALVES
from reflex.errors import DataError

if TYPE_CHECKING:
    from reflex.data.mixture import Mixture
    from reflex.data.sources.base import Ask, Item

SOURCES = (
    *("emotion", "ag_news", "anli", "arc_easy", "snips", "goemotions", "banking77", "clinc_oos"),
    # Hard ones: knowledge is more than what is easy to know.
    *("mmlu_validation", "commonsense_qa"),
    *("fact_questions", "strategyqa", "mrpc", "parade", "rotten_tomatoes", "openai_moderation"),
    *("sst5", "feedbackqa"),
)
OPPOSITE, REWORDED = "_not", "_reworded"
NOTES = {
    "rows": "held-out rows in the first wording of their source, in hash order",
    "options": "rows of split fit vary the number of options, so that every band has some; rows of split "
    "report show all of them",
}


@dataclass
class HeldOut:
    """`per_source` rows of each source and split. `split`: `report`, `fit` or `all`.

    `questions`: only questions of these names (empty: all). `opposites`: yes/no questions are asked again
    in other words and the other way round, for question sensitivity (NAME_reworded, NAME_not).
    `max_chars`: rows with a longer state are left out. `limit`: the first N of each source and split.
    """

    _target_: str = "reflex.benchmarks.held_out.HeldOut"
    name: str = "held_out"
    sources: list[str] = field(default_factory=lambda: list(SOURCES))
    per_source: int | None = 100
    split: str = "all"
    questions: list[str] = field(default_factory=list)
    opposites: bool = False
    max_chars: int = 2000
    limit: int | None = None

    def __post_init__(self) -> None:
        for key, count in (
            ("per_source", self.per_source),
            ("max_chars", self.max_chars),
            ("limit", self.limit),
        ):
            check_limit(f"benchmark.{key}", count)
        check_choice("benchmark.split", self.split, ("all", *HALVES))
        check_names("benchmark.sources", self.sources)

    def fit_names(self) -> list[str]:
        """See `reflex.benchmarks.base.fit_names`."""
        return [self.name, *self.sources]

    def load(self) -> Suite:
        """Raises DataError or ContaminationError as `reflex.data.mixture.load_mixture` does."""
        from reflex.data.sources import source

        mixture = _mixture(tuple(self.sources), self.max_chars, str(source_root()))
        splits = tuple(HALVES) if self.split == "all" else (self.split,)
        items = {
            item.id: item
            for pool in mixture.pools.values()
            for split in (splits if self.opposites else ())
            for item in pool.items[split]
        }
        rows: list[Row] = []
        for split in splits:
            asked = [self._asked(row, items.get(row.id)) for row in mixture.held_out(split)]
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
                **row_counts(own),
                "options": sorted(
                    {len(option_keys(q)) for row in own for q in row.questions.values()}
                ),
                "licence": source(name).licence,
            }
        pairs = {"question_pairs": _pairs(rows)} if self.opposites else {}
        return Suite(
            name=self.name,
            rows=rows,
            facts={
                **pairs,
                "data_sha256": rows_sha256(rows),
                "sources": sources,
                "licences": {name: each["licence"] for name, each in sources.items()},
                "notes": NOTES,
            },
        )

    def _asked(self, row: Row, item: Item | None) -> Row:
        names = [name for name in row.questions if not self.questions or name in self.questions]
        questions = {name: row.questions[name] for name in names}
        labels = {name: row.labels[name] for name in names}
        for name in names:
            ask = None if item is None else item.asks[name]
            if ask is None or ask.kind != "noul" or not ask.negated:
                continue
            shown = ask.sets[0] if ask.sets else {}
            reworded, opposite = f"{name}{REWORDED}", f"{name}{OPPOSITE}"
            questions[opposite], labels[opposite] = build(ask, ask.negated[0], shown, negated=True)
            if len(ask.wordings) > 1:
                questions[reworded], labels[reworded] = build(ask, ask.wordings[1], shown)
        return replace(row, questions=questions, labels=labels)


def questions_of(
    sources: Sequence[str], max_chars: int, split: str
) -> dict[str, Mapping[str, Ask]]:
    """Row id → what a held-out row asks, by question name."""
    pools = _mixture(tuple(sources), max_chars, str(source_root())).pools.values()
    return {item.id: item.asks for pool in pools for item in pool.items[split]}


@lru_cache(maxsize=4)
def _mixture(sources: tuple[str, ...], max_chars: int, root: str) -> Mixture:
    """Every row of the sources by split. Kept: the cells of a sweep read the same rows."""
    from reflex.data.mixture import MixtureConfig, load_mixture

    config = MixtureConfig(
        name="held_out", sources=dict.fromkeys(sources, 1.0), max_chars=max_chars
    )
    return load_mixture(config)


def _pairs(rows: list[Row]) -> list[dict[str, str]]:
    """Questions of the measured rows that belong together, for `reflex.metrics.sensitivity`."""
    asked = {name for row in measured(rows) for name in row.questions}
    kinds = {OPPOSITE: "opposite", REWORDED: "paraphrase"}
    return [
        {"kind": kind, "a": name.removesuffix(suffix), "b": name}
        for name in sorted(asked)
        for suffix, kind in kinds.items()
        if name.endswith(suffix)
    ]
