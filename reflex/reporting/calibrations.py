"""What a cell's own calibration is and how it carries over; and how answers follow the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reflex.calibration.errors import LEFT_OUT
from reflex.calibration.fit import AT_THE_LIMIT
from reflex.calibration.temperature import CONTENT_FREE
from reflex.metrics import sensitivity
from reflex.reporting.hand import harmless
from reflex.reporting.tables import (
    NOTHING,
    cell_labels,
    entry_text,
    markdown_table,
    number,
)
from reflex.tracking.record import Found

ERRORS = {
    "raw": "fit rows, before",
    "fitted": "fit rows, after",
    "in_family": "other rows of the same families",
    "left_out": "a family left out of the fit",
}

ALWAYS = ("raw", "fitted")
"""Errors that leave nothing out."""
ABOUT_ECE = "ECE of this table is against the gold answer, on the rows that have one."
ON_ALL_ROWS = (
    "the prior is estimated on all rows of split `fit`, so that no part of them is held out from it"
)


def calibration_text(cells: Sequence[Found]) -> str:
    """Temperatures, errors on rows and families left out, warnings, per cell that fitted something."""
    records = [cell.record for cell in cells]
    fitted = [
        (harmless(label), record.data["calibration"])
        for label, record in zip(cell_labels(records), records, strict=True)
        if record.data.get("calibration")
    ]
    if not fitted:
        return ""
    temperatures, errors, remarks, families = [], [], [], []
    for label, found in fitted:
        for bucket, value in found.get("temperatures", {}).items():
            temperatures.append([label, harmless(bucket), number(value, 3)])
        for bucket, fallback in found.get("fallbacks", {}).items():
            where = f"uses {fallback['to']}: {fallback['why']}"
            remarks.append(f"- {label}: bucket {harmless(bucket)} {harmless(where)}")
        measured = found.get("errors", {})
        for key, name in ERRORS.items():
            if (entry := measured.get(key)) and (key in ALWAYS or _held_out(found)):
                errors.append([label, name, number(entry["nll"]), *_ece(entry), str(entry["n"])])
        if found.get("prior"):
            remarks.append(f"- {label}: position prior, estimator {harmless(found['prior'])}")
            if found["prior"] not in (None, CONTENT_FREE):
                remarks.append(f"- {label}: {ON_ALL_ROWS}")
        if _held_out(found):
            families += _families(label, measured.get("left_out", {}).get("families", {}))
        remarks += [
            f"- {label}: {harmless(text)}"
            for text in found.get("warnings", [])
            if AT_THE_LIMIT not in text
            and LEFT_OUT not in text  # told beside the verdict, and as a table
        ]
    parts = [
        "Fitted on the rows of split `fit` of the same run; every other table is of the other rows."
    ]
    if temperatures:
        parts.append(markdown_table(["cell", "bucket", "temperature"], temperatures, left=2))
    if errors:
        head = ["cell", "measured on", "NLL", "ECE-15", "n of ECE", "n"]
        parts += [markdown_table(head, errors, left=2), ABOUT_ECE]
    if families:
        head = ["cell", "family left out", "NLL before", "NLL after", "change", "n"]
        table = markdown_table(head, families, left=2)
        parts.append(
            f"<details><summary>{len(families)} families, each left out of a fit</summary>\n\n{table}\n\n</details>"
        )
    if remarks:
        parts.append("\n".join(remarks))
    return "\n\n".join(parts)


def _ece(entry: Mapping[str, Any]) -> list[str]:
    """ECE beside a calibrated model's, and its number of rows; older records hold the value alone."""
    beside = entry.get("ece_15_of", {})
    shown = entry_text({**beside, "value": entry.get("ece_15")})
    return [shown, str(beside.get("n", NOTHING))]


def _held_out(found: Mapping[str, Any]) -> bool:
    """Whether anything was fitted that a family or a fold can be left out of."""
    return bool(found.get("temperatures")) and found.get("prior") in (None, CONTENT_FREE)


def _families(label: str, families: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    return [
        [
            label,
            harmless(name),
            number(each["nll_raw"]),
            number(each["nll"]),
            entry_text({**each, "value": each["nll"] - each["nll_raw"]}),
            str(each["n"]),
        ]
        for name, each in families.items()
    ]


def sensitivity_table(cells: Sequence[Found]) -> str:
    """Opposite, reworded and ensemble questions; beside each what perfect answers would show. Empty
    where no cell asked any."""
    records = [cell.record for cell in cells]
    rows = []
    for record, label in zip(records, cell_labels(records), strict=True):
        for name in sensitivity.DEFINITIONS:
            entry = record.metrics.get(name)
            if entry is not None:
                of_labels, n = number(entry.get("labels")), str(entry.get("n", NOTHING))
                rows.append([harmless(label), name, entry_text(entry), of_labels, n])
    if not rows:
        return ""
    table = markdown_table(["cell", "metric", "value", "of the labels", "n"], rows, left=2)
    shown = dict.fromkeys(row[1] for row in rows)
    known = {name: text for record in records for name, text in record.metric_definitions.items()}
    lines = [f"- `{name}`: {harmless(known[name])}" for name in shown if name in known]
    return "\n\n".join(filter(None, [table, "\n".join(lines)]))
