"""What one row scores: proper scores, distances to the label, and confidence statistics. All per
row, vectorised."""

from __future__ import annotations

import numpy as np

from reflex.metrics.frame import Floats, Items

NLL_CLIP = 1e-15
"""Probabilities are raised to this before the logarithm: a certain and wrong answer costs 34.5
nats."""

ENTROPY_CLIP = 1e-12


def nll(x: Items) -> Floats:
    """Cross-entropy to the label distribution in nats, -Σ t log max(p, 1e-15)."""
    return -(x.target_nk * np.log(np.maximum(x.p_nk, NLL_CLIP))).sum(axis=1)


def target_entropy(x: Items) -> Floats:
    """Entropy of the label distribution in nats: the NLL no model can go below."""
    return -(x.target_nk * np.log(np.where(x.target_nk > 0, x.target_nk, 1.0))).sum(axis=1)


def brier(x: Items) -> Floats:
    """Sum of squared differences over options, 0..2."""
    return np.square(x.p_nk - x.target_nk).sum(axis=1)


def total_variation(x: Items) -> Floats:
    """Half the sum of absolute differences to the label distribution, 0..1."""
    return np.abs(x.p_nk - x.target_nk).sum(axis=1) / 2


def correct(x: Items) -> Floats:
    """1.0 where the served answer is the gold one; meaningless where there is no unique gold."""
    return (x.top_n == x.gold_n).astype(np.float64)


def level_error(x: Items) -> Floats:
    """|expected level of the answer - expected level of the label|, in levels; for score
    questions."""
    levels_k = np.arange(x.p_nk.shape[1], dtype=np.float64)
    return np.abs((x.p_nk - x.target_nk) @ levels_k)


def ranked_probability(x: Items) -> Floats:
    """Ranked probability score, Σ_k (F_p(k) - F_t(k))² / (n - 1), 0..1 (Epstein 1969, normalised).

    Beyond a row's last level both distribution functions are 1, so padding adds nothing.
    """
    gap_nk = np.cumsum(x.p_nk - x.target_nk, axis=1)
    inside_nk = np.arange(x.p_nk.shape[1]) < (x.options_n - 1)[:, None]
    return np.where(inside_nk, np.square(gap_nk), 0.0).sum(axis=1) / np.maximum(1, x.options_n - 1)


def wire_confidence(x: Items) -> Floats:
    """The confidence the server sends, as `reflex.contract.choice_confidence` and
    `score_confidence`.

    A noul answer has none on the wire; the choice formula on its two-way distribution stands in.
    """
    n = x.options_n.astype(np.float64)
    several = x.options_n > 1
    chance_n = 1 / n
    choice_n = (x.p_nk.max(axis=1) - chance_n) / np.where(several, 1 - chance_n, 1.0)
    levels_k = np.arange(x.p_nk.shape[1])
    spread_n = (x.p_nk * np.abs(levels_k - x.top_n[:, None])).sum(axis=1)
    # Σ |i - (n-1)/2| / n in closed form: n/4 for even n, (n² - 1)/4n for odd.
    scale_n = np.where(x.options_n % 2 == 0, n / 4, (n * n - 1) / (4 * n))
    score_n = 1 - spread_n / np.where(several, scale_n, 1.0)
    value_n = np.where(x.type_n == "score", score_n, choice_n)
    return np.where(several, np.clip(value_n, 0.0, 1.0), 1.0)


def entropy_confidence(x: Items) -> Floats:
    """1 - H(p)/log n, p raised to 1e-12 first, clipped to [0, 1]; 1 for a single option."""
    p_nk = np.where(x.p_nk > 0, np.maximum(x.p_nk, ENTROPY_CLIP), 1.0)
    entropy_n = -(p_nk * np.log(p_nk)).sum(axis=1)
    several = x.options_n > 1
    scale_n = np.log(np.where(several, x.options_n, 2))
    return np.where(several, np.clip(1 - entropy_n / scale_n, 0.0, 1.0), 1.0)


def gini_confidence(x: Items) -> Floats:
    """(n Σp² - 1)/(n - 1), clipped to [0, 1]; 1 for a single option."""
    n = x.options_n.astype(np.float64)
    value_n = (n * np.square(x.p_nk).sum(axis=1) - 1) / np.maximum(1.0, n - 1)
    return np.where(x.options_n > 1, np.clip(value_n, 0.0, 1.0), 1.0)


def top_probability(x: Items) -> Floats:
    """Largest probability; for noul this is max(p, 1 - p)."""
    return x.p_nk.max(axis=1)


def margin(x: Items) -> Floats:
    """Largest minus second largest probability; 1 for a single option."""
    if x.p_nk.shape[1] == 1:
        return np.ones(len(x))
    top_n2 = -np.partition(-x.p_nk, 1, axis=1)[:, :2]
    return np.where(x.options_n > 1, top_n2[:, 0] - top_n2[:, 1], 1.0)


CONFIDENCES = {
    "wire": wire_confidence,
    "entropy": entropy_confidence,
    "gini": gini_confidence,
    "max": top_probability,
    "margin": margin,
}
