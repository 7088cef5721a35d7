"""The word beside a figure: how sure it is that a suite's rows are the benchmark's own items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reflex.benchmarks.s1.selection import WORDS, weakest
from reflex.reporting.sweep import Sweep
from reflex.tracking.predictions import read_predictions
from reflex.tracking.record import Found, RunRecord

ABSENT = ("missing", "withheld")
"""Words of sources without a figure."""


def sources(record: RunRecord) -> Mapping[str, Mapping[str, Any]]:
    """What the suite says of each of its sources; empty for a suite that says nothing."""
    found = (record.data.get("facts") or {}).get("sources")
    return found if isinstance(found, dict) else {}


def word_of(facts: Mapping[str, Any]) -> str | None:
    """The source's word; how many of its items were read where that is not all of them."""
    word = facts.get("word")
    if word is None or word in ABSENT:
        return word
    n, whole = facts.get("n"), facts.get("n_pinned") or facts.get("n_asked")
    whole = whole or facts.get("n_available")
    return f"{word}, {n} of {whole}" if n and whole and n < whole else str(word)


def combined(facts: Iterable[Mapping[str, Any]]) -> str | None:
    """The word of a figure over several sources: the weakest, and that it is over a part of the items."""
    present = [each for each in facts if each.get("word") in WORDS and each["word"] not in ABSENT]
    if not present:
        return None
    if len(present) == 1:
        return word_of(present[0])
    word = weakest(each["word"] for each in present)
    counts = {each["word"] for each in present}
    text = word if len(counts) == 1 else f"{word} (weakest of {len(present)})"
    return f"{text}, a part" if any(word_of(each) != each["word"] for each in present) else text


def cell_word(record: RunRecord) -> str | None:
    """The word of the cell's pooled figures; None where the suite has no words."""
    return combined(sources(record).values())


def words_by(cell: Found, column: str) -> dict[str, str]:
    """Value of a predictions column → word of the figures over its rows."""
    known = sources(cell.record)
    if not any("word" in facts for facts in known.values()):
        return {}
    if column == "source":
        named = {name: [facts] for name, facts in known.items()}
    else:
        frame = read_predictions(cell.path)
        if column == "category":
            categories = cell.record.data["facts"].get("categories", {})
            frame = frame.assign(category=frame["family"].map(categories))
        groups = frame.groupby(frame[column].astype(str))["source"].unique()
        named = {str(v): [known[s] for s in own if s in known] for v, own in groups.items()}
    found = {value: combined(facts) for value, facts in named.items()}
    return {value: word for value, word in found.items() if word is not None}


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
    words = dict.fromkeys(filter(None, (cell_word(cell.record) for cell in sweep.finished)))
    return f" ({'; '.join(words)})" if words else ""
