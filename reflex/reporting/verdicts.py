"""The verdict of a page and of the index: the rule's outcome, and what speaks for reading it with care."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reflex.data.jsonl import canonical
from reflex.reporting.comparisons import Judged
from reflex.reporting.context import at_the_limit, below_uniform, nothing_known
from reflex.reporting.hand import harmless
from reflex.reporting.sweep import Sweep, verdict_block
from reflex.reporting.words import data_line
from reflex.tracking.record import Found


def verdict_text(sweep: Sweep, judged: Sequence[Judged]) -> str:
    """The page's verdict, with what the rows are and the rule itself."""
    block = verdict_block(sweep)
    stopped = at_the_limit(sweep.finished)
    if block is None:
        none = "No paired decision rule is recorded, so the numbers below stand without a verdict by this page."
        return "\n\n".join(filter(None, [none, stopped]))
    parts = [_outcome(one) for one in judged]
    parts += [*below_uniform(judged), *filter(None, [trained_once(judged), stopped])]
    if line := data_line(sweep):
        parts.append(f"On these rows: {harmless(line)}.")
    return "\n\n".join([*parts, f"Decision rule: {_rule(block)}."])


def _outcome(one: Judged) -> str:
    setting = f" ({harmless(one.setting)})" if one.setting else ""
    return f"**{one.verdict.capitalize()}**{setting}. {harmless(one.sentence)}"


def trained_once(judged: Sequence[Judged]) -> str:
    """That an interval over items does not hold the luck of a training; empty where none differs."""
    for one in judged:
        if len({_training(cell) for cell in one.cells.values()}) > 1:
            return (
                "What is compared was trained once each: intervals are over items, and how far another seed of a "
                "training would move a difference is not in them."
            )
    return ""


def _training(cell: Found) -> tuple[str, ...]:
    """What a cell was trained to: here, or before, as an adapter of its own or a server's."""
    found = cell.record.data.get("training") or {}
    adapter = cell.record.backbone.get("adapter_sha256")
    return str(found.get("plan_sha256")), canonical(found.get("curve")), str(adapter)


def _rule(block: dict[str, Any]) -> str:
    candidates = block.get("candidates")
    names = candidates if isinstance(candidates, list) else [candidates]
    return harmless(
        f"{' and '.join(map(str, names))} against {block.get('baseline')} on {block.get('metric')}, "
        f"margin {block.get('margin', 0)}, {block.get('comparison', 'paired_bootstrap')}, "
        "Holm's correction over the candidates"
    )


def verdict_summary(judged: Sequence[Judged]) -> str:
    """The verdict in the index: the word, and the word per candidate."""
    parts = []
    for one in judged:
        details = "; ".join(f"{name}: {found['verdict']}" for name, found in one.details.items())
        setting = f"{one.setting}: " if one.setting else ""
        none = (
            "; no compared cell is shown better than equally likely options"
            if nothing_known(one)
            else ""
        )
        parts.append(f"{setting}{one.verdict}" + (f" ({details})" if details else "") + none)
    return " · ".join(parts) or "no paired rule: the marks in its reasoning"
