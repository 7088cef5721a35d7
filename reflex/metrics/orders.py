"""What the order of the options does: position effects, flips, and disagreement between orders."""

from __future__ import annotations

import numpy as np

from reflex.metrics import scores
from reflex.metrics.frame import Bools, Floats, Ints, Items
from reflex.metrics.intervals import Metric, mean, metric, share, wilson

MIN_POSITION_ROWS = 10
"""Positions with fewer gold answers are listed, but left out of the gap."""

PERMUTATIONS = 200


def accuracy_by_position(x: Items, rng: np.random.Generator) -> Metric:
    """Largest minus smallest accuracy over the gold option's position in the first presented order.

    `by`: accuracy with n and Wilson interval per position (0 = first). A gap of maxima is positive
    by chance, so `reference_mean` and `reference_high` (95th percentile) say what it would be if
    position did not matter: positions permuted among rows of the same type and option count. Value
    None with fewer than two positions.
    """
    keep_n = x.gold_position_n >= 0
    position_n, correct_n = x.gold_position_n[keep_n], scores.correct(x)[keep_n]
    if not len(position_n):
        return metric(None, 0, by={})
    count_k = np.bincount(position_n)
    hits_k = np.bincount(position_n, weights=correct_n)
    by: dict[str, Metric] = {}
    for position in np.flatnonzero(count_k).tolist():
        n, hits = int(count_k[position]), float(hits_k[position])
        by[str(position)] = metric(hits / n, n, *wilson(hits, n))
    used_k = count_k >= MIN_POSITION_ROWS
    if used_k.sum() < 2:
        return metric(None, len(position_n), by=by)
    rates_k = hits_k[used_k] / count_k[used_k]
    gap = float(rates_k.max() - rates_k.min())
    strata_n = _strata(x.type_n[keep_n].astype(str), x.options_n[keep_n])
    reference_r = _permuted_gaps(position_n, correct_n, strata_n, count_k, used_k, rng)
    return metric(
        gap,
        len(position_n),
        by=by,
        reference_mean=reference_r.mean(),
        reference_high=np.quantile(reference_r, 0.95),
    )


def _strata(type_n: np.typing.NDArray[np.str_], options_n: Ints) -> Ints:
    codes_n = np.unique(type_n, return_inverse=True)[1]
    return np.asarray(codes_n * (options_n.max() + 1) + options_n, dtype=np.int64)


def _permuted_gaps(
    position_n: Ints,
    correct_n: Floats,
    strata_n: Ints,
    count_k: Ints,
    used_k: Bools,
    rng: np.random.Generator,
) -> Floats:
    order = np.argsort(strata_n, kind="stable")
    position_n = position_n[order]
    starts = np.flatnonzero(np.diff(strata_n[order], prepend=-1))
    shuffled_rn = np.empty((PERMUTATIONS, len(order)))
    for block in np.split(np.arange(len(order)), starts[1:]):
        rows_rb = np.tile(correct_n[order[block]], (PERMUTATIONS, 1))
        shuffled_rn[:, block] = rng.permuted(rows_rb, axis=1)
    cells_rn = position_n + np.arange(PERMUTATIONS)[:, None] * len(count_k)
    hits_rk = np.bincount(
        cells_rn.ravel(), weights=shuffled_rn.ravel(), minlength=PERMUTATIONS * len(count_k)
    ).reshape(PERMUTATIONS, len(count_k))
    rates_rk = hits_rk[:, used_k] / count_k[used_k]
    return np.asarray(rates_rk.max(axis=1) - rates_rk.min(axis=1))


def order_effects(x: Items) -> tuple[Bools, Floats, Floats]:
    """(rows asked in two or more orders, flipped 0/1 per row, disagreement per row).

    Flipped: the per-order answers are not all the same option (a tie inside an order goes to the
    first option in the caller's order). Disagreement: mean total variation of each order to the
    mean over orders.
    """
    rows = len(x)
    count_n = np.bincount(x.order_row_m, minlength=rows)
    divisor_n = np.maximum(1, count_n)
    flipped_n, distance_n = np.zeros(rows), np.zeros(rows)
    if not len(x.order_row_m):
        return count_n >= 2, flipped_n, distance_n
    # Orders of one row are adjacent, so a segment sum is a reduceat.
    present = np.flatnonzero(count_n)
    starts = np.flatnonzero(np.diff(x.order_row_m, prepend=-1))
    merged_nk = np.zeros_like(x.p_nk)
    merged_nk[present] = np.add.reduceat(x.order_p_mk, starts, axis=0)
    merged_nk /= divisor_n[:, None]
    distance_m = np.abs(x.order_p_mk - merged_nk[x.order_row_m]).sum(axis=1) / 2
    distance_n = np.bincount(x.order_row_m, weights=distance_m, minlength=rows) / divisor_n
    top_m = np.argmax(x.order_p_mk, axis=1)
    first_n = np.zeros(rows, dtype=np.int64)
    first_n[present] = top_m[starts]
    differs_m = top_m != first_n[x.order_row_m]
    flips_n = np.bincount(x.order_row_m, weights=differs_m, minlength=rows)
    return count_n >= 2, np.minimum(flips_n, 1.0), distance_n


def order_metrics(x: Items) -> dict[str, Metric]:
    """`flip_rate` and `disagreement` over orders and wordings; for choice questions also split by described
    options where both kinds exist. Empty when no row was asked in two or more of them."""
    several_n, flipped_n, distance_n = order_effects(x)
    if not several_n.any():
        return {}
    splits: dict[str, Bools] = {"": several_n}
    choice_n = several_n & (x.type_n == "choice")
    described_n, bare_n = choice_n & x.described_n, choice_n & ~x.described_n
    if described_n.any() and bare_n.any():
        splits |= {"_described": described_n, "_undescribed": bare_n}
    found: dict[str, Metric] = {}
    for suffix, keep_n in splits.items():
        found[f"flip_rate{suffix}"] = share(flipped_n[keep_n], x.group_n[keep_n])
        found[f"disagreement{suffix}"] = mean(distance_n[keep_n], x.group_n[keep_n])
    return found
