"""Is the model surer where it is right? Area under the risk-coverage curve, and AUROC with its
interval."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit, ndtri

from reflex.metrics.frame import Floats, Ints
from reflex.metrics.intervals import LEVEL, MIN_GROUPS, Metric, dense, effective_groups, metric
from reflex.metrics.resampling import drawn_times

RESAMPLES = 2000


def aurc(
    confidence_n: Floats, correct_n: Floats, group_n: Ints, rng: np.random.Generator
) -> Metric:
    """Mean error rate over coverages 1/n..1 when the surest answers are kept (Geifman and El-Yaniv
    2017).

    Ties share their block's error rate, so the value does not depend on row order. Interval: percentile bootstrap
    over groups, from MIN_GROUPS effective ones on. Extras: `random`, the error rate (what an uninformative confidence
    gives), and `oracle`, the value when every wrong answer is less sure than every right one. Lower is better.
    """
    n = len(confidence_n)
    if not n:
        return metric(None, 0)
    order = np.argsort(-confidence_n, kind="stable")
    wrong_n = 1 - correct_n[order]
    block_n = np.concatenate([[0], np.cumsum(np.diff(confidence_n[order]) != 0)])
    value = _area(np.ones((1, n)), wrong_n, block_n)[0]
    oracle_n = np.sort(wrong_n)
    oracle = float(np.mean(np.cumsum(oracle_n) / np.arange(1, n + 1)))
    extras = {"random": float(wrong_n.mean()), "oracle": oracle}
    codes_n, groups = dense(group_n[order])
    if effective_groups(codes_n) < MIN_GROUPS:
        return metric(value, n, **extras)
    areas = []
    step = max(1, 2_000_000 // n)
    for start in range(0, RESAMPLES, step):
        rows = min(step, RESAMPLES - start)
        counts_rg = drawn_times(rng, rows, groups)
        areas.append(_area(counts_rg[:, codes_n].astype(np.float64), wrong_n, block_n))
    low, high = np.quantile(np.concatenate(areas), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return metric(value, n, low, high, **extras)


def _area(weight_rn: Floats, wrong_n: Floats, block_n: Ints) -> Floats:
    """Weighted area for each row of weights; rows sorted by falling confidence, ties numbered by
    block."""
    errors_rn = weight_rn * wrong_n
    if len(block_n) > block_n[-1] + 1:
        starts = np.flatnonzero(np.diff(block_n, prepend=-1))
        weight_rb = np.add.reduceat(weight_rn, starts, axis=1)
        rate_rb = np.add.reduceat(errors_rn, starts, axis=1) / np.maximum(weight_rb, 1e-300)
        errors_rn = weight_rn * rate_rb[:, block_n]
    covered_rn = np.cumsum(weight_rn, axis=1)
    risk_rn = np.cumsum(errors_rn, axis=1) / np.maximum(covered_rn, 1e-300)
    return np.asarray((weight_rn * risk_rn).sum(axis=1) / covered_rn[:, -1])


def auroc(confidence_n: Floats, correct_n: Floats, group_n: Ints) -> Metric:
    """P(confidence of a right answer > of a wrong one) + ½ P(equal), with a 95 % interval.

    DeLong, DeLong and Clarke-Pearson 1988 through midranks (Sun and Xu 2014), components summed
    within groups (Obuchowski 1997), interval on the logit scale. None when every answer is right or
    every one wrong; no interval with fewer than MIN_GROUPS effective groups, when one side has a single row or
    when the separation is perfect.
    """
    from scipy.stats import rankdata

    right_n = correct_n > 0.5
    rights, wrongs = int(right_n.sum()), int((~right_n).sum())
    if not rights or not wrongs:
        return metric(None, len(correct_n))
    rank_n = rankdata(confidence_n)
    # Share of the other class that a row beats: midrank among all less midrank in its own class.
    beats_r = (rank_n[right_n] - rankdata(confidence_n[right_n])) / wrongs
    beaten_w = 1 - (rank_n[~right_n] - rankdata(confidence_n[~right_n])) / rights
    value = float(beats_r.mean())
    if rights < 2 or wrongs < 2 or not 0 < value < 1:
        return metric(value, len(correct_n))
    part_n = np.empty(len(correct_n))
    part_n[right_n] = (beats_r - value) / np.sqrt(rights * (rights - 1))
    part_n[~right_n] = (beaten_w - value) / np.sqrt(wrongs * (wrongs - 1))
    codes_n, _ = dense(group_n)
    if effective_groups(codes_n) < MIN_GROUPS:
        return metric(value, len(correct_n))
    error = float(np.sqrt(np.square(np.bincount(codes_n, weights=part_n)).sum()))
    half = ndtri((1 + LEVEL) / 2) * error / (value * (1 - value))
    centre = logit(value)
    return metric(value, len(correct_n), expit(centre - half), expit(centre + half))
