"""Where two readouts answer the same question: how often they differ, and which one is right then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from reflex.metrics.intervals import share
from reflex.reporting.comparisons import Judged
from reflex.reporting.hand import harmless
from reflex.reporting.predictions import predictions_of
from reflex.reporting.tables import NOTHING, entry_text, markdown_table
from reflex.reporting.words import combined, sources
from reflex.tracking.record import Found

if TYPE_CHECKING:
    import pandas as pd

BANDS = ((2, 2), (3, 8), (9, 26), (27, None))
"""Numbers of options the answers are divided by (26: the last letter)."""


ABOUT = (
    "Of questions with one gold answer that both cells answered: `differ` is the share where their top options are "
    "not the same, the last three columns are shares of those."
)


def agreement_text(judged: Sequence[Judged]) -> str:
    """A table per setting of the rule, one line per candidate and number of options; empty unless the cells
    that are compared differ in their readout."""
    parts: list[str] = []
    for one in judged:
        rows = []
        for name, cell in one.cells.items():
            if name == one.baseline or one.baseline not in one.cells:
                continue
            base = one.cells[one.baseline]
            if base.record.axes.get("readout") == cell.record.axes.get("readout"):
                continue
            rows += agreement_rows(name, base, cell)
        if rows:
            parts = parts or [ABOUT]
            head = ["answers", "options", "word", "n", "differ"]
            head += [f"{one.baseline} right", "other right", "both wrong"]
            heading = [f"### {harmless(one.setting)}"] if one.setting else []
            parts += [*heading, markdown_table([harmless(each) for each in head], rows, left=3)]
    return "\n\n".join(parts)


def agreement_rows(name: str, base: Found, other: Found) -> list[list[str]]:
    """Of questions with one gold answer that both cells answered: share of different answers, and of those
    the share where the baseline, the other, or neither is right."""
    pairs = answer_pairs(predictions_of(base), predictions_of(other))
    rows = []
    for low, high in (*BANDS, (1, None)):
        chosen = pairs[(pairs["options"] >= low) & (pairs["options"] <= (high or 10**9))]
        if not len(chosen):
            continue
        apart = chosen["a"] != chosen["b"]
        differ = chosen[apart]
        a, b = (differ[side] == differ["gold"] for side in ("a", "b"))
        known = sources(base.record)
        word = combined(known[name] for name in chosen["source"].unique() if name in known)
        band = "all" if low == 1 else f"{low}" if low == high else f"{low}–{high or ''}"
        rows.append(
            [
                harmless(name),
                band,
                harmless(word or NOTHING),
                str(len(chosen)),
                _share(apart, chosen["group"]),
                *(_share(right, differ["group"]) for right in (a, b, ~a & ~b)),
            ]
        )
    return rows


def _share(hit: pd.Series, group: pd.Series) -> str:
    codes_n = np.unique(group.astype(str), return_inverse=True)[1]
    return entry_text(share(hit.to_numpy(dtype=np.float64), codes_n))


def answer_pairs(base: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """`a`, `b`: the answered option keys of both; `gold`; `options`: how many there were; `source`, `group`."""
    import pandas as pd

    def answers(frame: pd.DataFrame) -> pd.DataFrame:
        rows = frame[frame["gold"] >= 0]
        return pd.DataFrame(
            {
                "item_id": rows["item_id"],
                "question_id": rows["question_id"],
                "source": rows["source"],
                "group": rows["group"],
                "answer": [
                    keys[max(range(len(keys)), key=lambda i: p[i])]
                    for keys, p in zip(rows["keys"], rows["probabilities"], strict=True)
                ],
                "gold": [keys[g] for keys, g in zip(rows["keys"], rows["gold"], strict=True)],
                "options": [len(keys) for keys in rows["keys"]],
            }
        )

    left = answers(base).rename(columns={"answer": "a"})
    right = answers(other)[["item_id", "question_id", "answer"]].rename(columns={"answer": "b"})
    return left.merge(right, on=["item_id", "question_id"])
