"""Per source of a suite: its word, our figures, the majority baseline; the macro; notes on the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from reflex.benchmarks.s1.board import macro
from reflex.benchmarks.s1.definitions import FAST, SUBSETS
from reflex.metrics import Metric
from reflex.metrics.baselines import constant_correct
from reflex.metrics.frame import items
from reflex.metrics.intervals import mean, mean_interval
from reflex.metrics.scores import correct
from reflex.reporting.hand import harmless
from reflex.reporting.predictions import predictions_of
from reflex.reporting.tables import (
    CELL_METRICS,
    NOTHING,
    SPLIT_METRICS,
    cell_labels,
    entry_text,
    markdown_table,
    number,
    sample_size,
    shown_entry,
)
from reflex.reporting.words import ABSENT, cell_word, in_brackets, sources, word_of
from reflex.tracking.record import Found, RunRecord

SUITES = (set(SUBSETS), set(FAST))
"""The subsets whose mean is a macro of S1Bench."""

ABOUT_MAJORITY = (
    "Majority: the best constant answer to each question of a source, found on the same rows in hindsight, so better "
    "than one that is chosen beforehand, by most where options are many and rows few: there `below` does not say that "
    "an answer chosen beforehand would win. Above and below: the paired 95 % interval of the difference, over groups, "
    "excludes zero; every line by itself, uncorrected for their number."
)


def sources_table(cells: Sequence[Found]) -> str:
    """One line per source and cell; a source without rows has one line that says why. Empty if no suite
    says anything of its sources."""
    records = [cell.record for cell in cells]
    names = list(dict.fromkeys(name for record in records for name in sources(record)))
    labels = cell_labels(records)
    frames = [predictions_of(cell) for cell in cells] if names else []
    rows = []
    for name in names:
        asked = [record for record in records if name in sources(record)]
        if all(sources(record)[name].get("word") in ABSENT for record in asked):
            facts = sources(asked[0])[name]
            dashes = [NOTHING] * (len(SPLIT_METRICS) + 3)
            why = harmless(facts.get("reason", NOTHING))
            rows.append([harmless(name), harmless(facts["word"]), why, *dashes])
            continue
        for record, label, frame in zip(records, labels, frames, strict=True):
            if name in sources(record):
                rows.append(_row(name, record, frame, label))
    if not rows:
        return ""
    first, *rest = (CELL_METRICS[name] for name in SPLIT_METRICS)
    head = ["source", "word", "cell", first, "majority", "against majority", *rest, "n"]
    return f"{markdown_table(head, rows, left=3)}\n\n{ABOUT_MAJORITY}"


def _row(name: str, record: RunRecord, frame: pd.DataFrame, label: str) -> list[str]:
    facts = sources(record)[name]
    metrics = record.by.get("source", {}).get(name, {})
    shown = [entry_text(shown_entry(metrics, metric)) for metric in SPLIT_METRICS]
    majority, beyond = constant_answer(frame[frame["source"] == name])
    return [
        harmless(name),
        harmless(word_of(facts) or NOTHING),
        harmless(label),
        shown[0],
        number(majority, 3),
        against(beyond),
        *shown[1:],
        sample_size(metrics),
    ]


def constant_answer(rows: pd.DataFrame) -> tuple[float | None, Metric]:
    """(accuracy of the best constant answer to each question, our accuracy minus it with its paired interval) on
    these rows of one source."""
    if not (rows["gold"] >= 0).any():
        return None, mean(np.zeros(0), np.zeros(0, dtype=np.int64))
    x = items(rows)
    keep_n = x.scored_n
    constant_n = constant_correct(rows)
    return float(constant_n.mean()), mean(correct(x)[keep_n] - constant_n, x.group_n[keep_n])


def against(beyond: Mapping[str, Any]) -> str:
    """Accuracy minus the majority's, and whether its 95 % interval lies on one side of zero."""
    if beyond.get("value") is None:
        return NOTHING
    text = number(beyond["value"], 3, sign=True)
    low, high = beyond.get("low"), beyond.get("high")
    if low is None or high is None:
        return text
    side = "above" if low > 0 else "below" if high < 0 else "cannot tell"
    return f"{text} {side}"


def mean_ece_text(cells: Sequence[Found]) -> str:
    """Per cell the unweighted mean of `ece_10` over the suite's sources, beside that of a calibrated model with
    the same confidences; empty with fewer than two sources that have rows."""
    records = [cell.record for cell in cells]
    lines = []
    for record, label in zip(records, cell_labels(records), strict=True):
        by_source = record.by.get("source", {})
        entries = [
            shown_entry(by_source[name], "ece_10") for name in sources(record) if name in by_source
        ]
        found = [entry for entry in entries if entry and entry.get("value") is not None]
        if len(found) < 2 or len(found) < len(entries):
            continue
        middle = sum(entry["value"] for entry in found) / len(found)
        calibrated = sum(entry.get("reference_mean") or 0.0 for entry in found) / len(found)
        soft = sum("ece_10_soft" in by_source.get(name, {}) for name in sources(record))
        against_labels = f", {soft} of them against the labels' own probabilities" if soft else ""
        lines.append(
            f"- {harmless(label)}: mean ECE-10 over {len(found)} sources"
            f"{against_labels}{in_brackets(cell_word(record))} {number(middle)} (calibrated: {number(calibrated)})"
        )
    return "\n".join(lines)


def macro_text(cells: Sequence[Found]) -> str:
    """The suite's macro accuracy with its weakest word, per cell, or why there is none; over a choice of subsets
    that is no suite, their mean, which is not called a macro. Empty where no suite has one."""
    everyone = [cell.record for cell in cells]
    labelled = [
        (label, record)
        for label, record in zip(cell_labels(everyone), everyone, strict=True)
        if "macro" in (record.data.get("facts") or {})
    ]
    rows: list[list[str]] = []
    lacking: dict[str, None] = {}
    for label, record in labelled:
        facts = record.data["facts"]
        by_source = record.by.get("source", {})
        accuracy = {
            name: metrics["accuracy"]["value"]
            for name, metrics in by_source.items()
            if metrics.get("accuracy", {}).get("value") is not None
        }
        found = macro(accuracy, facts)
        if found is None:
            words = facts["macro"]["subsets"]
            absent = [name for name in words if name not in accuracy]
            lacking[
                f"{len(absent)} of {len(words)} subsets have no figure: {', '.join(absent)}"
            ] = None
            continue
        part = any(
            word_of(facts["sources"][name]) != facts["sources"][name]["word"]
            for name in facts["macro"]["subsets"]
        )
        word = f"{found['word']}, a part of the items" if part else found["word"]
        entries = [by_source[name]["accuracy"] for name in facts["macro"]["subsets"]]
        rows.append(
            [
                harmless(label),
                harmless(word),
                entry_text({"value": found["value"], **mean_interval(entries)}),
                str(found["n"]),
                str(sum(entry["n"] for entry in entries)),
            ]
        )
    suite = all(set(record.data["facts"]["macro"]["subsets"]) in SUITES for _, record in labelled)
    parts = [f"No macro is given: {harmless(why)}." for why in lacking]
    if rows and not suite:
        parts.append("No macro is given: these subsets are a choice of ours. Their mean:")
    if rows:
        name = "macro accuracy" if suite else "mean accuracy"
        parts.append(markdown_table(["cell", "weakest word", name, "subsets", "n"], rows, left=2))
    return "\n\n".join(parts)


def notes_text(cells: Sequence[Found]) -> str:
    """Everything the suites note about themselves, each once and whole; empty without notes."""
    found: dict[str, None] = {}
    for cell in cells:
        for name, text in _notes(cell.record.data.get("facts") or {}):
            found[f"- {harmless(name)}: {harmless(text)}"] = None
    return "\n".join(found)


def _notes(facts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(name, text) of a suite's notes and of those of its parts."""
    notes = facts.get("notes")
    if isinstance(notes, dict):
        # older records define a majority of their own; the page computes its own and says how
        yield from ((name, text) for name, text in notes.items() if name != "majority")
    for part, own in (facts.get("parts") or {}).items():
        yield from ((f"{part}, {name}", text) for name, text in _notes(own))
