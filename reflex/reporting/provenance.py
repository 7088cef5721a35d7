"""How a page was made: everything in the records that somebody needs to make it again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from reflex.reporting.hand import harmless
from reflex.reporting.plots import BINS
from reflex.reporting.sweep import Sweep
from reflex.reporting.tables import NOTHING, markdown_table, number
from reflex.tracking.record import RunRecord

SHOWN_ELSEWHERE = ("sources", "macro", "notes", "categories", "parts", "question_pairs")
"""Facts of a suite that the page tells in sections of their own."""

_DIGEST = re.compile("[0-9a-f]{40,}")


def provenance(sweep: Sweep) -> str:
    """Commit, command, backbone, prompt, data, machine, versions, then one line per cell."""
    records = [cell.record for cell in sweep.cells]
    facts = {
        "Commit": (_commit(record) for record in records),
        "Command": (f"`{record.command}`" for record in records if record.command),
        "Backbone": (_pairs(record.backbone) for record in records),
        "Served": (_served(record.served) for record in records if record.served),
        "Prompt": (f"hash {record.prompt_hash[:16]}" for record in records if record.prompt_hash),
        "Data": (_data(record) for record in records),
        "Seed": (str(record.seed) for record in records),
        "Hardware": (_pairs(record.hardware) for record in records),
        "Versions": (_versions(record.packages) for record in records),
        "Numerics": (str(record.numerics) for record in records),
    }
    lines = [f"- {name}: {text}" for name, values in facts.items() if (text := _distinct(values))]
    lines += [f"- About the data: {text}" for text in _data_facts(records)]
    rows = [
        [
            harmless(record.name),
            f"`{record.hash[:16]}`",
            record.status,
            record.started,
            number(record.wall_s, 1),
            _wandb(record),
        ]
        for record in records
    ]
    head = ["cell", "hash", "status", "started (UTC)", "seconds", "W&B run"]
    return "\n".join(lines) + "\n\n" + markdown_table(head, rows, left=4)


def definitions(sweep: Sweep, headings: Mapping[str, str]) -> str:
    """One line per metric of the page (metric → its column's heading), from the records, and how intervals and
    bins are meant."""
    known: dict[str, str] = {}
    for cell in sweep.cells:
        known = {**cell.record.metric_definitions, **known}
    lines = [
        f"- {'' if heading == name else f'{heading}: '}`{name}`, {harmless(known[name])}"
        for name, heading in headings.items()
        if name in known
    ]
    if any("ece_10_soft" in cell.record.metrics for cell in sweep.cells):
        lines.append(
            "- Labels of some rows are shares of raters: there the columns ECE are `ece_10_soft` and "
            "`ece_15_soft`, against the label's own probability of the top answer."
        )
    lines.append(
        "- smallest detectable: the true difference that a comparison like this one finds in 80 of 100 repeats, "
        "alone and after Holm's first step: 2.8 standard errors (over groups, as the interval) for one comparison, "
        "3.1 for two, 3.4 for five, more where groups are few, and beyond the margin where the rule has one. A p-value "
        "with ≤ is the smallest that the resamples can tell. Where fewer than 25 answers became right or wrong, the "
        "interval and p-value of accuracy claim no more than McNemar's exact test."
    )
    lines.append(f"- The reliability diagram has {BINS} equal bins of the top probability.")
    lines.append(
        "- In brackets: a 95 % interval, or, for a calibration error, the mean and the 95th percentile "
        "that a perfectly calibrated model with the same confidences would show at this n, rows taken as independent."
    )
    return "\n".join(lines)


def _distinct(values: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(harmless(value) for value in values if value))


def _commit(record: RunRecord) -> str:
    commit = record.git.get("commit")
    if not commit:
        return "unknown (no git checkout)"
    return f"`{str(commit)[:12]}`" + (
        " with uncommitted changes" if record.git.get("dirty") else ""
    )


def _served(served: Mapping[str, Any]) -> str:
    """What a server said of itself: run, prompt, readout, orders, calibration, arithmetic."""
    health = served.get("health") or {}
    said = ("run", "prompt", "readout", "orders", "calibration", "device", "dtype", "strategy")
    return _pairs({"base_url": served.get("base_url")} | {key: health.get(key) for key in said})


def _data(record: RunRecord) -> str:
    data = record.data
    if not data:
        return ""
    hashes = [
        f"{name} {str(data[key])[:16]}"
        for name, key in (("sha256", "sha256"), ("items", "items_sha256"))
        if data.get(key)
    ]
    return ", ".join([f"{data.get('suite', NOTHING)}, {data.get('n_rows', NOTHING)} rows", *hashes])


def _data_facts(records: Iterable[RunRecord]) -> list[str]:
    facts: dict[str, None] = {}
    for record in records:
        for key, value in (record.data.get("facts") or {}).items():
            if key not in SHOWN_ELSEWHERE:
                facts[f"{key}: {_short(value)}"] = None
    return [harmless(text) for text in facts]


def _pairs(values: Mapping[str, Any]) -> str:
    shown = {key: value for key, value in values.items() if value not in (None, [], {}, "")}
    return ", ".join(f"{key} {_short(value)}" for key, value in shown.items())


def _versions(packages: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {version}" for name, version in packages.items() if version)


def _wandb(record: RunRecord) -> str:
    if record.wandb is None:
        return NOTHING
    text = f"{record.wandb.id or NOTHING} ({record.wandb.mode})"
    return harmless(f"{text}: {record.wandb.error}" if record.wandb.error else text)


def _short(value: Any) -> str:
    if isinstance(value, str):
        text = value[:16] if _DIGEST.fullmatch(value) else value
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else f"{text[:299]}…"
