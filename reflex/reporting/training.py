"""What trained cells were trained on, and how the loss fell: from the records' `data.training`."""

from __future__ import annotations

from collections.abc import Sequence

from reflex.reporting.hand import harmless
from reflex.reporting.tables import NOTHING, cell_labels, markdown_table, number
from reflex.tracking.record import Found

SHARES = (0.1, 0.2, 0.5, 1.0)
"""Shares of the steps whose loss is shown."""


def training_table(cells: Sequence[Found]) -> str:
    """One line per cell: rows, steps, tokens, and the mean training loss around a share of the steps.

    Empty where no cell trained anything. Losses of different loss functions are not comparable.
    """
    records = [cell.record for cell in cells]
    if not any("training" in record.data for record in records):
        return ""
    rows = []
    for record, label in zip(records, cell_labels(records), strict=True):
        facts = record.data.get("training") or {}
        curve = {round(share, 1): loss for share, loss in facts.get("curve", ())}
        rows.append(
            [
                harmless(label),
                *(str(facts.get(key, NOTHING)) for key in ("rows", "steps", "tokens")),
                *(number(curve.get(share), 3) for share in SHARES),
            ]
        )
    head = ["cell", "rows", "steps", "tokens", *(f"loss at {share:.0%}" for share in SHARES)]
    return markdown_table(head, rows)
