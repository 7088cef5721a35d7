"""What a reader needs beside a table of cells: what knowing nothing gets, whether times compare, which
temperatures were stopped by the limit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from reflex.calibration.minimise import at_bound
from reflex.metrics import Difference, scores
from reflex.metrics.baselines import uniform_losses
from reflex.metrics.frame import items
from reflex.metrics.paired import judge
from reflex.metrics.resampling import differences
from reflex.reporting.comparisons import Judged
from reflex.reporting.hand import harmless
from reflex.reporting.predictions import read_once
from reflex.reporting.tables import CELL_METRICS, cell_labels, number
from reflex.reporting.words import cell_word, in_brackets
from reflex.tracking.record import Found

TIED_SHARE = 0.02
"""A cell with more ties than this among its answers is said to have them."""


@dataclass(frozen=True)
class Uniform:
    """Figures of the answer "every option equally likely" on a cell's own `n` rows. Accuracy is expected: one in
    the number of options of each of the `scored` rows with one gold answer; None where there is none. `above`: per
    loss, the cell's minus the uniform answer's, paired row by row. `tied`: rows whose largest probability the cell
    gives to several options."""

    accuracy: float | None
    nll: float
    brier: float
    n: int
    scored: int
    above: Mapping[str, Difference] = field(default_factory=dict, compare=False)
    tied: int = field(default=0, compare=False)


def uniform(cell: Found) -> Uniform:
    """The uniform answer on the rows that a finished cell answered."""
    assert cell.record.predictions is not None
    return _uniform(cell.path, cell.record.predictions.sha256)


@lru_cache(maxsize=256)
def _uniform(path: Path, sha256: str) -> Uniform:
    """As `uniform`; a page asks several times for the same predictions."""
    x = items(read_once(path, sha256))
    losses = uniform_losses(x)
    own = {"nll": scores.nll(x), "brier": scores.brier(x)}
    above = differences(
        np.stack([losses[name] for name in losses], axis=1),
        np.stack([own[name] for name in losses], axis=1),
        x.group_n,
        list(losses),
        ["lower"] * len(losses),
    )
    chance_n = 1 / x.options_n[x.scored_n]
    return Uniform(
        accuracy=float(chance_n.mean()) if len(chance_n) else None,
        nll=float(losses["nll"].mean()),
        brier=float(losses["brier"].mean()),
        n=len(x),
        scored=len(chance_n),
        above={one.metric: one for one in above},
        tied=int(((x.p_nk == x.p_nk.max(axis=1)[:, None]).sum(axis=1) > 1).sum()),
    )


def uniform_text(cells: Sequence[Found]) -> str:
    """One sentence per set of rows the cells answered."""
    found = dict.fromkeys((uniform(cell), cell_word(cell.record)) for cell in cells)
    return "\n".join(
        f"Every option equally likely: accuracy {number(one.accuracy)} expected, NLL {number(one.nll)}, "
        f"Brier {number(one.brier)} on these rows{in_brackets(word)} (n {one.n}"
        f"{'' if one.scored == one.n else f', {one.scored} with one gold answer'})."
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
    """Per outcome whose metric is a loss: the compared cells that are not shown to be better than the uniform
    answer, on the same rows."""
    for one in judged:
        if found := _not_shown_better(one):
            told = "; ".join(f"{name} {_gap(above)}" for name, above in found.items())
            yield harmless(
                f"Not shown to be better in {CELL_METRICS[_metric(one)]} than every option equally likely: {told}."
            )


def nothing_known(one: Judged) -> bool:
    """Whether the rule's metric is a loss and none of the compared cells is shown to be better than the uniform
    answer."""
    return bool(one.cells) and len(_not_shown_better(one)) == len(one.cells)


def _metric(one: Judged) -> str:
    return next((found.metric for found in one.comparisons.values()), "")


def _not_shown_better(one: Judged) -> dict[str, Difference]:
    """Cell → its loss against the uniform answer's, where the 95 % interval is not below zero."""
    found = {name: uniform(cell).above.get(_metric(one)) for name, cell in one.cells.items()}
    return {name: each for name, each in found.items() if each and judge(each) != "better"}


def _gap(above: Difference) -> str:
    word = "worse" if judge(above) == "worse" else "cannot tell"
    return f"{number(above.value, sign=True)} ({above.interval}, {word})"


def tied_text(cells: Sequence[Found]) -> str:
    """One line per cell that often gives several options exactly the same largest probability; empty where none
    does."""
    labels = cell_labels([cell.record for cell in cells])
    lines = []
    for cell, label in zip(cells, labels, strict=True):
        found = uniform(cell)
        if found.tied > TIED_SHARE * found.n:
            lines.append(
                f"{harmless(label)}: {found.tied} of {found.n} answers give several options "
                "exactly the same largest probability. The first declared of them counts as the answer, so that "
                "accuracy, ECE and AURC of this cell follow the order of options there."
            )
    return "\n\n".join(lines)


def at_the_limit(cells: Sequence[Found]) -> str:
    """One sentence naming the cells and buckets whose temperature is the largest or smallest that is tried."""
    labels = cell_labels([cell.record for cell in cells])
    found = []
    for cell, label in zip(cells, labels, strict=True):
        fitted = (cell.record.data.get("calibration") or {}).get("temperatures") or {}
        stopped = [key for key, value in fitted.items() if at_bound(value)]
        if stopped:
            found.append(f"{label} ({', '.join(sorted(stopped))})")
    if not found:
        return ""
    return harmless(
        "Fitted temperatures at the limit of what is tried, where the best one is unknown and answers are close "
        f"to uniform or to one option: {'; '.join(found)}."
    )
