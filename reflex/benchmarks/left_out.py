"""What a suite says of itself when rows of it are left out: nothing that was not measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from reflex.benchmarks.base import Suite, row_counts
from reflex.benchmarks.words import ABSENT, read_of, whole_of
from reflex.data.rows import Row


def without(suite: Suite, ids: Collection[str], fact: str) -> Suite:
    """The suite without the rows of these ids, which its facts count by source under `fact`. The suite itself where
    there are none."""
    if not ids:
        return suite
    dropped = Counter(row.source for row in suite.rows if row.id in ids)
    return replace(
        suite,
        rows=[row for row in suite.rows if row.id not in ids],
        facts={**suite.facts, fact: dict(sorted(dropped.items()))},
    )


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


def absent(before: Mapping[str, Any], word: str, reason: str) -> dict[str, Any]:
    """What a suite says of a source none of whose rows is measured."""
    kept = {key: value for key, value in before.items() if key in ("licence", "published")}
    return {"word": word, "reason": reason, "n": 0, **kept}


def with_sources(facts: Mapping[str, Any], sources: Mapping[str, Any]) -> dict[str, Any]:
    """A suite's facts with those of its sources replaced, and its macro told from them."""
    found = {**facts, "sources": dict(sources)}
    if "macro" in facts:
        lacking = [
            name
            for name in facts["macro"]["subsets"]
            if sources.get(name, {}).get("word") in ABSENT
        ]
        complete = facts["macro"]["complete"] and not lacking
        word = facts["macro"]["word"] if complete else None
        found["macro"] = {**facts["macro"], "complete": complete, "lacking": lacking, "word": word}
    return found
