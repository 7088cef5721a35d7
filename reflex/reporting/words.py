"""The words of a record and of a sweep (reflex/benchmarks/words.py says what a word is)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.benchmarks import words
from reflex.benchmarks.s1.selection import WORDS
from reflex.benchmarks.words import ABSENT, combined, sources_of, word_of
from reflex.reporting.predictions import predictions_of
from reflex.reporting.sweep import Sweep
from reflex.tracking.record import Found, RunRecord

__all__ = [
    "ABSENT",
    "cell_word",
    "combined",
    "data_line",
    "in_brackets",
    "sources",
    "sweep_word",
    "word_of",
    "words_by",
]


def sources(record: RunRecord) -> Mapping[str, Mapping[str, Any]]:
    """What the suite says of each of its sources; empty for a suite that says nothing."""
    return sources_of(record.data.get("facts"))


def cell_word(record: RunRecord) -> str | None:
    """The word of the cell's pooled figures; None where the suite has no words."""
    return combined(sources(record).values())


def in_brackets(word: str | None) -> str:
    """` (WORD)` behind a figure, or nothing."""
    return f" ({word})" if word else ""


def words_by(cell: Found, column: str) -> dict[str, str]:
    """Value of a predictions column → word of the figures over its rows."""
    facts = cell.record.data.get("facts")
    if not any("word" in each for each in sources_of(facts).values()):
        return {}
    return words.words_by(facts, column, predictions_of(cell))


def data_line(sweep: Sweep) -> str:
    """One line over all cells: sources by word, absent ones last; empty where no suite has words."""
    by_word: dict[str, dict[str, None]] = {}
    for cell in sweep.finished:
        for name, facts in sources(cell.record).items():
            if facts.get("word") in WORDS:
                by_word.setdefault(facts["word"], {})[name] = None
    parts = [f"{word}: {', '.join(by_word[word])}" for word in WORDS if word in by_word]
    return "; ".join(parts)


def sweep_word(sweep: Sweep) -> str:
    """` (WORD rows)` for headings and captions over the whole sweep, or nothing."""
    found = dict.fromkeys(filter(None, (cell_word(cell.record) for cell in sweep.finished)))
    return in_brackets("; ".join(found))
