"""Several benchmarks as one suite, for example MMLU with S1Bench."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hydra.utils import instantiate

from reflex.benchmarks.base import Suite, files_sha256, fit_names, limited, row_counts
from reflex.checks import check_limit
from reflex.data.rows import Row
from reflex.errors import ConfigError, DataError

PAIRS = "question_pairs"


@dataclass
class Combined:
    """`parts`: name → a benchmark's config with its `_target_`. `limit`: the first N of each set."""

    _target_: str = "reflex.benchmarks.combined.Combined"
    name: str = "combined"
    parts: dict[str, Any] = field(default_factory=dict)
    limit: int | None = None

    def __post_init__(self) -> None:
        check_limit("benchmark.limit", self.limit)
        if not self.parts:
            raise ConfigError("benchmark.parts is empty; name at least one benchmark")

    def fit_names(self) -> list[str]:
        """Of the parts that can have rows of split fit; of all where none can."""
        every = list(self._benchmarks().values())
        able = [each for each in every if not getattr(each, "report_only", False)]
        return [name for each in able or every for name in fit_names(each)]

    def _benchmarks(self) -> dict[str, Any]:
        return {
            name: part if hasattr(part, "load") else instantiate(part)
            for name, part in self.parts.items()
        }

    def load(self) -> Suite:
        """Raises DataError when two parts hold the same item, or a part cannot be loaded."""
        suites: dict[str, Suite] = {
            name: benchmark.load() for name, benchmark in self._benchmarks().items()
        }
        rows: list[Row] = [row for suite in suites.values() for row in suite.rows]
        repeated = [key for key, count in Counter(row.id for row in rows).items() if count > 1]
        if repeated:
            raise DataError(f"benchmark.parts: item {repeated[0]!r} is in two parts; drop one")
        scored = limited(rows, self.limit)
        sources: dict[str, Any] = {}
        for suite in suites.values():
            sources |= suite.facts.get("sources", {})
        read = {name: [row for row in scored if row.source == name] for name in sources}
        hashes = {name: suite.facts.get("data_sha256", "") for name, suite in suites.items()}
        facts: dict[str, Any] = {
            "data_sha256": files_sha256(hashes),
            "sources": {name: {**each, **row_counts(read[name])} for name, each in sources.items()},
            "licences": {
                name: licence
                for suite in suites.values()
                for name, licence in suite.facts.get("licences", {}).items()
            },
            "parts": {name: suite.facts for name, suite in suites.items()},
        }
        categories: dict[str, str] = {}
        for suite in suites.values():
            categories |= suite.facts.get("categories", {})
        if categories := categories or _parts_of(suites):
            facts["categories"] = categories
        if pairs := [pair for suite in suites.values() for pair in suite.facts.get(PAIRS, ())]:
            facts[PAIRS] = pairs
        if macros := [suite.facts["macro"] for suite in suites.values() if "macro" in suite.facts]:
            facts["macro"] = macros[0]
        return Suite(self.name, scored, facts)


def _parts_of(suites: dict[str, Suite]) -> dict[str, str]:
    """Family → the part it belongs to; nothing where two parts share a family."""
    owners = [(row.family, name) for name, suite in suites.items() for row in suite.rows]
    found = dict(owners)
    return found if len(found) == len(set(owners)) else {}
