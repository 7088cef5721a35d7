"""The benchmark texts found on this machine, and which training items share text with them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from reflex.data.jsonl import json_lines
from reflex.data.overlap import Index
from reflex.data.root import source_root
from reflex.data.rows import Row
from reflex.errors import DataError

log = logging.getLogger(__name__)

BENCHMARK_FILES = ("s1bench/*.jsonl", "mmlu/test*.jsonl", "external/*.jsonl")
NOT_TEXT = frozenset({"id", "label", "answer", "split", "subject", "choices", "locale", "title"})
"""Fields that are no evidence of overlap: a subject or a one-word answer occurs everywhere."""


def overlapping_ids(states: Mapping[str, Any], root: Path | None = None) -> set[str]:
    """Ids of the states that share a text, a sentence or an 8-gram with a benchmark row."""
    index = benchmark_index((root or source_root()).resolve())
    if index is None:
        return set()
    return {name for name, state in states.items() if index.reason(state)}


def row_texts(row: Row) -> list[Any]:
    """What of a row is compared: its state and how its questions are put, which may hold a claim of its own.

    Of an item every wording is (reflex/data/mixture.py); options are the source's, or in the state.
    """
    return [row.state, *(question.instructions for question in row.questions.values())]


def held_against(root: Path | None = None) -> dict[str, int]:
    """Rows of every benchmark file that items are compared with, by its path below the data folder."""
    root = (root or source_root()).resolve()
    return {
        str(path.relative_to(root)): sum(1 for _ in json_lines(path))
        for path in _benchmark_files(root)
    }


def _benchmark_files(root: Path) -> list[Path]:
    return [path for pattern in BENCHMARK_FILES for path in sorted(root.glob(pattern))]


@cache
def benchmark_index(root: Path) -> Index | None:
    """The index over all benchmark rows below `root`; None (and a warning) when there are none.

    Raises DataError `file:line` for a row that is no object.
    """
    files = _benchmark_files(root)
    if not files:
        log.warning(
            "no benchmark rows below %s: names are checked, overlapping rows are not (set REFLEX_DATA)",
            root,
        )
        return None
    return Index(_states(files))


def _states(files: list[Path]) -> Iterator[dict[str, Any]]:
    for path in files:
        for number, raw in json_lines(path):
            if not isinstance(raw, dict):
                raise DataError(f"{path}:{number}: a row must be a JSON object")
            yield {key: value for key, value in raw.items() if key not in NOT_TEXT}
