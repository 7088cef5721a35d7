"""Numbers as text, and the tables of a page. One metric is one column everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reflex.metrics import holm
from reflex.metrics.paired import LABELS
from reflex.remote.remote import OF_THE_SERVER
from reflex.reporting.comparisons import Judged
from reflex.reporting.hand import harmless
from reflex.reporting.words import cell_word, words_by
from reflex.tracking.record import Found, RunRecord

NOTHING = "–"

CELL_METRICS = {
    "accuracy": "accuracy",
    "nll": "NLL",
    "brier": "Brier",
    "total_variation": "TV",
    "ece_10": "ECE-10",
    "ece_15": "ECE-15",
    "aurc": "AURC",
    "flip_rate": "flips",
    "disagreement": "disagreement",
}
"""Columns of the table of cells: metric → heading."""

SPLIT_METRICS = ("accuracy", "nll", "brier", "total_variation", "ece_10")
"""Columns of the tables per question type, family and source: few rows, hence the coarser bins."""


def number(value: Any, digits: int = 4, sign: bool = False) -> str:
    """A number to a fixed number of decimals, a dash for null."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return NOTHING if value is None else harmless(value)
    return f"{value:{'+' if sign else ''}.{digits}f}"


def entry_text(entry: Mapping[str, Any] | None) -> str:
    """A metric with its interval, or with what a calibrated model would show at this n (ECE)."""
    if entry is None or entry.get("value") is None:
        return NOTHING
    text = number(entry["value"])
    if entry.get("reference_mean") is not None:
        mean, high = number(entry["reference_mean"], 3), number(entry.get("reference_high"), 3)
        return f"{text} (cal. {mean}, ≤ {high})"
    if entry.get("low") is not None and entry.get("high") is not None:
        return f"{text} ({number(entry['low'], 3)} to {number(entry['high'], 3)})"
    return text


def shown_entry(metrics: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The entry of a column. A calibration error of rows with soft labels is the one against the label's own
    probability: a perfect model of divided raters is not miscalibrated. With hard labels the two are one."""
    entry: Mapping[str, Any] | None = metrics.get(f"{name}_soft", metrics.get(name))
    return entry


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table whose first `left` columns are text and the others numbers."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    lines = [head, rule, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def differing_axes(records: Sequence[RunRecord]) -> list[str]:
    """Axes (and `seed`) in which the cells differ, in the records' order; empty for one cell.

    Beside a server's answers, what a model is made of belongs to which model answers.
    """
    keys = list(dict.fromkeys(key for record in records for key in record.axes))
    if len({record.axes.get("model") for record in records}) > 1:
        keys = [key for key in keys if key not in OF_THE_SERVER]
    found = [key for key in keys if len({str(record.axes.get(key)) for record in records}) > 1]
    if len({record.seed for record in records}) > 1 and "seed" not in found:
        found.append("seed")
    return found


def cell_labels(records: Sequence[RunRecord]) -> list[str]:
    """Each cell by the axes in which they differ; one cell by its name."""
    axes = differing_axes(records)
    return [
        ", ".join(f"{key}={axis_value(record, key)}" for key in axes) or record.name
        for record in records
    ]


def axis_value(record: RunRecord, key: str) -> str:
    """An axis's value as text; a dash where the cell does not set it."""
    value = record.axes.get(key, record.seed if key == "seed" else None)
    return NOTHING if value is None else str(value)


def sample_size(metrics: Mapping[str, Any]) -> str:
    """Number of predictions behind these metrics, and behind their accuracy where ties were left out."""
    n = metrics.get("nll", {}).get("n")
    scored = metrics.get("accuracy", {}).get("n")
    if n is None:
        return NOTHING
    return str(n) if scored in (None, n) else f"{n} ({scored} with one gold answer)"


def cell_rows(records: Sequence[RunRecord]) -> tuple[list[str], list[list[str]], int]:
    """Heading and one row per finished cell: its axes, word, metrics, sample size and cost; and how many of the
    columns, the first ones, are text."""
    axes = differing_axes(records)
    shown = [name for name in CELL_METRICS if any(name in record.metrics for record in records)]
    words = [cell_word(record) for record in records]
    texts = [*(axes or ["cell"]), *(["word"] if any(words) else [])]
    head = [*texts, *(CELL_METRICS[name] for name in shown), "n", "tokens/decision", "ms/decision"]
    rows = []
    for record, word in zip(records, words, strict=True):
        cost = record.cost
        rows.append(
            [
                *([axis_value(record, key) for key in axes] or [record.name]),
                *([word or NOTHING] if any(words) else []),
                *(entry_text(shown_entry(record.metrics, name)) for name in shown),
                sample_size(record.metrics),
                number(cost.get("tokens_per_decision"), 1),
                number(cost.get("ms_per_decision"), 2),
            ]
        )
    return head, rows, len(texts)


def cells_table(cells: Sequence[Found]) -> str:
    """The table of finished cells."""
    head, rows, texts = cell_rows([cell.record for cell in cells])
    escaped = [[harmless(text) for text in row] for row in rows]
    return markdown_table(head, escaped, left=texts)


def split_table(cells: Sequence[Found], column: str) -> str:
    """Metrics per value of `column` (such as "type") and cell, with the value's word; empty where no record
    has any."""
    records = [cell.record for cell in cells]
    labels = cell_labels(records)
    values = sorted({value for record in records for value in record.by.get(column, {})})
    words = [words_by(cell, column) if column in cell.record.by else {} for cell in cells]
    rows = []
    for value in values:
        for record, label, known in zip(records, labels, words, strict=True):
            metrics = record.by.get(column, {}).get(value)
            if metrics is None:
                continue
            rows.append(
                [
                    harmless(value),
                    *([harmless(known.get(value, NOTHING))] if any(words) else []),
                    harmless(label),
                    *(entry_text(shown_entry(metrics, name)) for name in SPLIT_METRICS),
                    sample_size(metrics),
                ]
            )
    if not rows:
        return ""
    heads = [CELL_METRICS[name] for name in SPLIT_METRICS]
    named = [column, *(["word"] if any(words) else []), "cell"]
    return markdown_table([*named, *heads, "n"], rows, left=len(named))


def failed_table(cells: Sequence[Found]) -> str:
    """Cells without a result, and why."""
    rows = [
        [harmless(cell.record.name), harmless(cell.record.error or "no reason recorded")[:500]]
        for cell in cells
    ]
    return markdown_table(["cell", "error"], rows, left=2)


def comparison_table(judged: Judged) -> str:
    """Every paired difference, candidate minus baseline, with what could have been detected."""
    adjusted: dict[str, dict[str, float]] = {}
    for metric in LABELS:
        raw = {name: each.differences[metric].p_value for name, each in judged.comparisons.items()}
        adjusted[metric] = holm({name: p for name, p in raw.items() if p is not None})
    rows = []
    for name, found in judged.comparisons.items():
        for metric, one in found.differences.items():
            rows.append(
                [
                    harmless(f"{name} − {found.baseline}"),
                    LABELS[metric],
                    number(one.baseline),
                    number(one.candidate),
                    number(one.value, sign=True),
                    one.interval,
                    p_text(one.p_value, one.p_at_most),
                    p_text(adjusted[metric].get(name), one.p_at_most),
                    str(one.n),
                    number(
                        one.detectable_of(
                            len(judged.comparisons), found.margin if metric == found.metric else 0.0
                        )
                    ),
                ]
            )
    head = ["comparison", "metric", "baseline", "candidate", "difference", "95 % interval"]
    head += ["p", "p (Holm)", "n", "smallest detectable"]
    return markdown_table(head, rows, left=2)


def p_text(value: float | None, at_most: bool = False) -> str:
    """A p-value to three decimals; `at_most`: it is a bound."""
    if value is None:
        return NOTHING
    if value < 0.001:
        return "< 0.001"
    return f"≤ {value:.3f}" if at_most else f"{value:.3f}"
