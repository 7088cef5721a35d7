"""Two runs on the same items: which is better, by how much, and could it be noise?

Only items that both runs answered count. A difference is candidate minus baseline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from reflex.errors import DataError
from reflex.metrics import scores
from reflex.metrics.frame import Floats, Items, check_columns, items
from reflex.metrics.intervals import dense
from reflex.metrics.resampling import Difference, differences

ALPHA = 0.05
PAIRED_METRICS = {"nll": "lower", "brier": "lower", "accuracy": "higher"}
LABELS = {"nll": "NLL", "brier": "Brier score", "accuracy": "accuracy"}
EXACT_BELOW = 25
"""McNemar's exact test is used with fewer discordant rows than this, else chi-squared with correction; and a
difference in accuracy then claims no more than that test does (`_at_most_exact`)."""

_KEY = ["item_id", "question_id"]
_TARGET_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Comparison:
    """What `compare` found. `verdict` is better, worse or cannot tell, of the candidate, on
    `metric`."""

    baseline: str
    candidate: str
    n: int
    dropped_baseline: int
    dropped_candidate: int
    groups: int
    differences: dict[str, Difference]
    mcnemar: dict[str, Any]
    metric: str
    margin: float
    verdict: str
    sentence: str


def compare(
    baseline: pd.DataFrame,
    candidate: pd.DataFrame,
    *,
    names: tuple[str, str] = ("baseline", "candidate"),
    metric: str = "nll",
    margin: float = 0.0,
    seed: int = 0,
) -> Comparison:
    """Compare two Predictions frames on the (item_id, question_id) pairs that both hold.

    Groups are those of the baseline. The result does not depend on row order. Raises DataError in
    one line when a frame is empty or holds a pair twice, when nothing is common, when options or
    targets of a common pair differ, or when `metric` is not one of PAIRED_METRICS.
    """
    if metric not in PAIRED_METRICS:
        raise DataError(f"comparison: metric {metric!r} is not one of {', '.join(PAIRED_METRICS)}")
    left, right = _join(baseline, candidate, names)
    a, b = items(left), items(right)
    _check_targets(left, right, a, b, names)
    counts = _mcnemar(a, b)
    found = _differences(a, b, seed)
    found["accuracy"] = _at_most_exact(found["accuracy"], counts)
    comparison = Comparison(
        baseline=names[0],
        candidate=names[1],
        n=len(a),
        dropped_baseline=len(baseline) - len(a),
        dropped_candidate=len(candidate) - len(b),
        groups=dense(a.group_n)[1],
        differences=found,
        mcnemar=counts,
        metric=metric,
        margin=margin,
        verdict="",
        sentence="",
    )
    verdict = judge(found[metric], margin)
    return replace(comparison, verdict=verdict, sentence=sentence(comparison, verdict))


def judge(difference: Difference, margin: float = 0.0) -> str:
    """better, worse or cannot tell: whether the 95 % interval lies beyond `margin` on one side."""
    better, worse = difference.p_beyond(margin)
    if min(better, worse) > ALPHA:
        return "cannot tell"
    return "better" if better < worse else "worse"


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjustment over several comparisons, by name."""
    if not p_values:
        return {}
    from statsmodels.stats.multitest import multipletests

    adjusted = multipletests(list(p_values.values()), alpha=ALPHA, method="holm")[1]
    return dict(zip(p_values, map(float, adjusted), strict=True))


def sentence(
    comparison: Comparison,
    verdict: str,
    metric: str | None = None,
    margin: float | None = None,
    comparisons: int = 1,
) -> str:
    """One plain sentence for `verdict`, with the difference, its interval, n and what could have been seen as one
    of so many `comparisons`."""
    name = metric or comparison.metric
    difference = comparison.differences[name]
    margin = comparison.margin if margin is None else margin
    label, who, than = LABELS[name], comparison.candidate, comparison.baseline
    rows = f"{difference.n} paired answers"
    if difference.groups < difference.n:
        rows += f" in {difference.groups} groups"
    beyond = f" by more than the margin of {margin:g}" if margin else ""
    if difference.value is None:
        return f"Cannot tell {who} from {than}: no common answer can be scored by {label}."
    size = f"{label} {difference.value:+.4f}"
    if difference.low is None or difference.high is None:
        return f"Cannot tell {who} from {than}: {size}, and {rows} are too few for an interval."
    size += f" (95 % interval {difference.low:+.4f} to {difference.high:+.4f}, {rows})"
    if verdict in ("better", "worse"):
        return f"{who} is {verdict} than {than}{beyond}: {size}."
    more = ""
    if margin and max(-difference.low, difference.high) < margin:
        more = "; any difference is smaller than the margin"
    elif (detectable := difference.detectable_of(comparisons, margin)) is not None:
        more = f"; a difference of {detectable:.4f} would have been found in 80 % of cases"
    return f"Cannot tell whether {who} differs from {than}{beyond}: {size}{more}."


def _join(
    baseline: pd.DataFrame, candidate: pd.DataFrame, names: tuple[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    frames = []
    for frame, name in zip((baseline, candidate), names, strict=True):
        check_columns(frame)
        indexed = frame.set_index(pd.MultiIndex.from_frame(frame[_KEY].astype(str)))
        if not indexed.index.is_unique:
            twice = " / ".join(indexed.index[indexed.index.duplicated()][0])
            raise DataError(f"comparison: {name} holds {twice} twice; give each item its own id")
        frames.append(indexed)
    common = frames[0].index.intersection(frames[1].index).sort_values()
    if not len(common):
        raise DataError(
            f"comparison: {names[0]} and {names[1]} have no item in common; take runs of one suite"
        )
    return frames[0].loc[common], frames[1].loc[common]


def _check_targets(
    left: pd.DataFrame, right: pd.DataFrame, a: Items, b: Items, names: tuple[str, str]
) -> None:
    keys = zip(left["keys"].tolist(), right["keys"].tolist(), strict=True)
    bad_n = np.fromiter((list(one) != list(two) for one, two in keys), dtype=bool, count=len(a))
    what = "options"
    if not bad_n.any():
        what = "labels"
        gap_n = np.abs(a.target_nk - b.target_nk).max(axis=1)
        bad_n = np.asarray(gap_n > _TARGET_TOLERANCE)
    if bad_n.any():
        where = " / ".join(left.index[int(np.argmax(bad_n))])
        raise DataError(
            f"comparison: {names[0]} and {names[1]} have different {what} for {where} "
            f"({int(bad_n.sum())} such rows); compare runs on the same data"
        )


def _differences(a: Items, b: Items, seed: int) -> dict[str, Difference]:
    def columns(x: Items) -> Floats:
        return np.stack([scores.nll(x), scores.brier(x)], axis=1)

    keep_n = a.scored_n
    right_a, right_b = (scores.correct(x)[keep_n, None] for x in (a, b))
    found = differences(columns(a), columns(b), a.group_n, ["nll", "brier"], ["lower"] * 2, seed)
    found += differences(right_a, right_b, a.group_n[keep_n], ["accuracy"], ["higher"], seed)
    return {difference.metric: difference for difference in found}


def _at_most_exact(difference: Difference, counts: Mapping[str, Any]) -> Difference:
    """The difference in accuracy with McNemar's exact p-value as its floor, and the interval that inverts that test
    (Clopper and Pearson's for the share gained of the d discordant rows, times d/n) inside its own, where few
    answers differ: resampling four gains and no loss never shows a loss.
    """
    from statsmodels.stats.proportion import proportion_confint

    gained, discordant, n = counts["gained"], counts["gained"] + counts["lost"], counts["n"]
    if not counts["exact"] or not discordant:
        return difference
    share_2 = np.array(proportion_confint(gained, discordant, alpha=ALPHA, method="beta"))
    low, high = ((2 * share_2 - 1) * discordant / n).tolist()
    return difference.at_least(low, high, counts["p_value"])


def _mcnemar(a: Items, b: Items) -> dict[str, Any]:
    """Discordant counts and McNemar's p-value; it takes rows as independent, also where groups
    repeat."""
    from statsmodels.stats.contingency_tables import mcnemar

    keep_n = a.scored_n
    right_a, right_b = (scores.correct(x)[keep_n] > 0.5 for x in (a, b))
    gained, lost = int((~right_a & right_b).sum()), int((right_a & ~right_b).sum())
    exact = gained + lost < EXACT_BELOW
    p_value = None
    if len(right_a):
        table = [[0, lost], [gained, 0]]
        p_value = 1.0 if gained == lost else min(1.0, float(mcnemar(table, exact=exact).pvalue))
    return {"gained": gained, "lost": lost, "n": len(right_a), "exact": exact, "p_value": p_value}
