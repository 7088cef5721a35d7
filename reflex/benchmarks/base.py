"""What every benchmark gives: a suite of labelled rows and the facts that identify it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from reflex.checks import check_limit
from reflex.data.rows import Row
from reflex.data.splits import hash_order


@dataclass
class Suite:
    """`facts` is JSON-able and goes into the run record: data_sha256, words, licences, notes."""

    name: str
    rows: list[Row]
    facts: dict[str, Any] = field(default_factory=dict)


class Benchmark(Protocol):
    """A config dataclass with `_target_`; Hydra makes one and the task calls `load`."""

    def load(self) -> Suite: ...


def fit_names(benchmark: Any) -> list[str]:
    """Names of the data that rows of split `fit` come from: what the benchmark's own `fit_names` says, else
    its name and file. One whose rows are all of split `report` sets `report_only`."""
    own = getattr(benchmark, "fit_names", None)
    if own is not None:
        return list(own())
    values = (getattr(benchmark, key, None) for key in ("name", "path", "file"))
    return [str(value) for value in values if value]


def limited(rows: list[Row], limit: int | None, salt: str = "limit") -> list[Row]:
    """The first `limit` rows of each source in hash order of their ids; all, as given, for None.

    A smaller limit is a prefix of a larger one. Raises ConfigError for a limit below 1.
    """
    check_limit("benchmark.limit", limit)
    if limit is None:
        return list(rows)
    sources: dict[str, list[Row]] = {}
    for row in rows:
        sources.setdefault(row.source, []).append(row)
    return [
        row
        for members in sources.values()
        for row in hash_order(members, lambda row: row.id, salt)[:limit]
    ]


def measured(rows: list[Row]) -> list[Row]:
    """The rows that figures are over: those that are not of split `fit`, where there are any others."""
    return [row for row in rows if row.split != "fit"] or rows


def files_sha256(hashes: Mapping[str, str]) -> str:
    """One hash over those of several files, or parts, by name."""
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()


def row_counts(rows: list[Row]) -> dict[str, Any]:
    """`n`, the rows that are measured, and `splits`: how many of each split are read."""
    return {"n": len(measured(rows)), "splits": dict(Counter(row.split for row in rows))}
