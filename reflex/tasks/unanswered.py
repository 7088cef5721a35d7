"""What a suite says of itself when some of its rows stayed unanswered: nothing that was not measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reflex.benchmarks.base import Suite, row_counts
from reflex.benchmarks.words import read_of, whole_of
from reflex.data.rows import Row
from reflex.tasks.clean import absent, with_sources


def answered_only(suite: Suite, answered: list[Row], by: str) -> Suite:
    """The suite of those of its rows; counts, words and macro are theirs, and a note says how many of how many
    `by` answered. The suite itself where that is all of them."""
    if len(answered) == len(suite.rows):
        return suite
    sources = {}
    for name, before in suite.facts.get("sources", {}).items():
        asked, own = ([r for r in rows if r.source == name] for rows in (suite.rows, answered))
        sources[name] = before if len(own) == len(asked) else _counted(before, own)
    note = f"{len(answered)} of {len(suite.rows)} items, by {by}; every figure is over those"
    facts = {**suite.facts, "notes": {**(suite.facts.get("notes") or {}), "answered": note}}
    return replace(suite, rows=answered, facts=with_sources(facts, sources) if sources else facts)


def _counted(before: dict[str, Any], answered: list[Row]) -> dict[str, Any]:
    if not answered:
        return absent(before, "missing", "no item of it was answered")
    # Where it does not say how many items its word speaks of, they are those that were asked.
    whole = {} if whole_of(before) else {"n_asked": read_of(before)}
    return {**before, **whole, **row_counts(answered)}
