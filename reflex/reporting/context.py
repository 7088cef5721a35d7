"""What a reader needs beside a table of cells: what knowing nothing gets, whether times compare, which
temperatures were stopped by the limit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from reflex.calibration.minimise import at_bound
from reflex.metrics.frame import items
from reflex.reporting.comparisons import Judged
from reflex.reporting.hand import harmless
from reflex.reporting.tables import CELL_METRICS, cell_label, differing_axes, number
from reflex.reporting.words import cell_word, in_brackets
from reflex.tracking.predictions import read_predictions
from reflex.tracking.record import Found


@dataclass(frozen=True)
class Uniform:
    """Figures of the answer "every option equally likely" on a cell's own rows. Accuracy is expected: one in
    the number of options of each row with one gold answer; None where there is none."""

    accuracy: float | None
    nll: float
    brier: float
    n: int


def uniform(cell: Found) -> Uniform:
    """The uniform answer on the rows that a finished cell answered."""
    assert cell.record.predictions is not None
    return _uniform(cell.path, cell.record.predictions.sha256)


@lru_cache(maxsize=256)
def _uniform(path: Path, _sha256: str) -> Uniform:
    """As `uniform`; a page asks several times for the same predictions."""
    x = items(read_predictions(path))
    real_nk = np.arange(x.target_nk.shape[1]) < x.options_n[:, None]
    p_nk = real_nk / x.options_n[:, None]
    chance_n = 1 / x.options_n[x.scored_n]
    return Uniform(
        accuracy=float(chance_n.mean()) if len(chance_n) else None,
        nll=float(np.log(x.options_n).mean()),
        brier=float(((p_nk - x.target_nk) ** 2).sum(axis=1).mean()),
        n=len(x),
    )


def uniform_text(cells: Sequence[Found]) -> str:
    """One sentence per set of rows the cells answered."""
    found = dict.fromkeys((uniform(cell), cell_word(cell.record)) for cell in cells)
    return "\n".join(
        f"Every option equally likely: accuracy {number(one.accuracy)} expected, NLL {number(one.nll)}, "
        f"Brier {number(one.brier)} on these rows{in_brackets(word)} (n {one.n})."
        for one, word in found
    )


def cost_caution(cells: Sequence[Found]) -> str:
    """Why `ms/decision` of the cells does not compare; empty where nothing speaks against it."""
    records = [cell.record for cell in cells]
    reasons = []
    if len({json.dumps(record.hardware, sort_keys=True) for record in records}) > 1:
        reasons.append("not on the same machine, or not on as many cores")
    if len({record.git.get("commit") for record in records}) > 1:
        reasons.append("with different commits of the code")
    spans = sorted((record.started, record.finished) for record in records)
    if any(later[0] < earlier[1] for earlier, later in pairwise(spans)):
        reasons.append("at the same time")
    if not reasons:
        return ""
    return f"`ms/decision` does not compare: cells ran {' and '.join(reasons)}."


def below_uniform(judged: Sequence[Judged]) -> Iterator[str]:
    """Per outcome whose metric is a loss: the compared cells that are not better than the uniform answer."""
    for one in judged:
        if worse := _not_above_uniform(one):
            told = ", ".join(f"{name} ({said})" for name, said in worse.items())
            yield harmless(
                f"Not better in {CELL_METRICS[_metric(one)]} than every option equally likely: {told}."
            )


def nothing_known(one: Judged) -> bool:
    """Whether the rule's metric is a loss and none of the compared cells is better than the uniform answer."""
    return bool(one.cells) and len(_not_above_uniform(one)) == len(one.cells)


def _metric(one: Judged) -> str:
    return next((found.metric for found in one.comparisons.values()), "")


def _not_above_uniform(one: Judged) -> dict[str, str]:
    """Cell → its figure and the uniform answer's."""
    metric, worse = _metric(one), {}
    if metric not in ("nll", "brier"):
        return {}
    for name, cell in one.cells.items():
        value = cell.record.metrics.get(metric, {}).get("value")
        floor = getattr(uniform(cell), metric)
        if value is not None and value >= floor:
            worse[name] = f"{number(value)}, uniform {number(floor)}"
    return worse


def at_the_limit(cells: Sequence[Found]) -> str:
    """One sentence naming the cells and buckets whose temperature is the largest or smallest that is tried."""
    axes = differing_axes([cell.record for cell in cells])
    found = []
    for cell in cells:
        fitted = (cell.record.data.get("calibration") or {}).get("temperatures") or {}
        stopped = [key for key, value in fitted.items() if at_bound(value)]
        if stopped:
            found.append(f"{cell_label(cell.record, axes)} ({', '.join(sorted(stopped))})")
    if not found:
        return ""
    return harmless(
        "Fitted temperatures at the limit of what is tried, where the best one is unknown and answers are close "
        f"to uniform or to one option: {'; '.join(found)}."
    )
