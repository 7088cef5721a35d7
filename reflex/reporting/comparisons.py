"""The decision rule applied to a sweep: candidates against the baseline on the same items."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reflex.errors import ReflexError
from reflex.metrics import Comparison, check_block, compare, verdict
from reflex.remote.remote import OF_THE_SERVER
from reflex.reporting.predictions import predictions_of
from reflex.reporting.sweep import Sweep, matches, named_axes, verdict_block
from reflex.tracking.record import Found, RunRecord


@dataclass(frozen=True)
class Judged:
    """The rule's outcome among cells that agree on every axis the rule does not name.

    `setting` says which cells (empty when the sweep varies nothing else); `problems` are one line
    each; `cells` are what was compared, by their names in the rule.
    """

    setting: str
    verdict: str
    sentence: str
    details: dict[str, Any]
    comparisons: dict[str, Comparison] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    baseline: str = ""
    cells: dict[str, Found] = field(default_factory=dict)


def judge_sweep(sweep: Sweep) -> list[Judged]:
    """One outcome per setting, in the order of the cells; none where no rule was recorded.

    A rule that cannot be applied becomes an outcome `cannot tell` with the reason.
    """
    block = verdict_block(sweep)
    if block is None:
        return []
    block = {key: value for key, value in block.items() if value is not None}
    try:
        _, baseline, candidates, _ = check_block(block)
    except ReflexError as error:
        return [Judged("", "cannot tell", f"The decision rule cannot be applied: {error}", {})]
    settings: dict[str, dict[str, Found]] = {}
    for cell in sweep.finished:
        for name in (baseline, *candidates):
            if matches(cell.record, name):
                # Cells come newest try last within a name, which only a changed config can repeat.
                settings.setdefault(_setting(cell.record, name), {})[name] = cell
    if not settings:
        return [Judged("", "cannot tell", f"No finished cell is {baseline}.", {})]
    varying = _varying(list(settings))
    return [_judge(block, baseline, cells, varying[setting]) for setting, cells in settings.items()]


def _judge(block: dict[str, Any], baseline: str, cells: dict[str, Found], setting: str) -> Judged:
    comparisons: dict[str, Comparison] = {}
    problems = []
    if baseline in cells:
        base = predictions_of(cells[baseline])
        for name, cell in cells.items():
            if name == baseline:
                continue
            try:
                comparisons[name] = compare(
                    base,
                    predictions_of(cell),
                    names=(baseline, name),
                    metric=str(block["metric"]),
                    margin=float(block.get("margin", 0.0)),
                )
            except ReflexError as error:
                problems.append(str(error))
    else:
        problems.append(f"The baseline {baseline} has no finished cell here.")
    try:
        found = verdict(block, comparisons)
    except ReflexError as error:
        problems.append(str(error))
        found = {"verdict": "cannot tell", "sentence": "The rule cannot be applied.", "details": {}}
    return Judged(
        setting=setting,
        **found,
        comparisons=comparisons,
        problems=problems,
        baseline=baseline,
        cells=cells,
    )


def _setting(record: RunRecord, name: str) -> str:
    """What two cells must share to be compared: every axis outside the rule's names, and the seed."""
    named = set(named_axes(name))
    if "model" in named:  # what a server is made of belongs to which model answers
        named |= set(OF_THE_SERVER)
    rest = {key: value for key, value in record.axes.items() if key not in named}
    return "\n".join([*(f"{key}={rest[key]}" for key in sorted(rest)), f"seed={record.seed}"])


def _varying(settings: list[str]) -> dict[str, str]:
    """Each setting by the parts in which the settings differ."""
    parts = {setting: setting.split("\n") for setting in settings}
    shared = set.intersection(*(set(lines) for lines in parts.values()))
    return {
        setting: ", ".join(line for line in lines if line not in shared)
        for setting, lines in parts.items()
    }
