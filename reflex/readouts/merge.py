"""Scores of several orders to one distribution, and how far the orders disagree. numpy only.

This is what is served, and the function a temperature is fitted through:
softmax(scores / T) per order → option keys → mean of probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reflex.errors import ReadoutError

Floats = NDArray[np.float64]


def softmax(scores_k: Floats, temperature: float = 1.0) -> Floats:
    """softmax(scores / T) in float64. A score of −inf gets probability 0.

    Raises ReadoutError for scores that are no numbers: they would read as an answer.
    """
    scaled = np.asarray(scores_k, dtype=np.float64) / temperature
    top = scaled.max()  # NaN where any score is
    if not math.isfinite(top):
        raise ReadoutError(
            f"the model's scores are not numbers ({top}), so there is no answer; its dtype overflows here "
            "(use device.dtype=float32 or bfloat16), or its weights are damaged"
        )
    weights = np.exp(scaled - top)
    return weights / weights.sum()


def order_distributions(
    scores: Sequence[Sequence[float]],
    order_keys: Sequence[Sequence[str]],
    keys: Sequence[str],
    temperature: float = 1.0,
    expand: Sequence[Sequence[float]] | None = None,
) -> Floats:
    """Distribution of every order over `keys`: (orders × keys).

    `expand` (labels × keys) turns label probabilities into option probabilities; without it
    `order_keys[o]` is a permutation of `keys`.
    """
    rows = []
    for row, presented in zip(scores, order_keys, strict=True):
        probabilities = softmax(np.asarray(row), temperature)
        if expand is not None:
            rows.append(probabilities @ np.asarray(expand, dtype=np.float64))
            continue
        by_key = dict(zip(presented, probabilities, strict=True))
        rows.append(np.array([by_key[key] for key in keys]))
    return np.stack(rows)


def merge(distributions_ok: Floats) -> Floats:
    """Arithmetic mean over orders, renormalised: (keys,). Bit for bit the same however the keys are ordered."""
    mean = distributions_ok.mean(axis=0)
    return mean / math.fsum(mean)  # exact: a plain sum's last bit depends on the order


def disagreement(distributions_ok: Floats) -> float:
    """Mean total-variation distance of each order to the merged distribution, in [0, 1]."""
    return float(np.abs(distributions_ok - merge(distributions_ok)).sum(axis=1).mean() / 2)


def per_wording(distributions_ok: Floats, wordings: int) -> Floats:
    """Distribution of every wording, its orders averaged: (wordings × keys).

    The orders of a wording are consecutive rows; every wording has the same number of them.
    """
    mean_wk: Floats = distributions_ok.reshape(wordings, -1, distributions_ok.shape[1]).mean(axis=1)
    return mean_wk


def wording_disagreement(distributions_ok: Floats, wordings: int) -> float:
    """Mean total-variation distance of each wording to the merged distribution."""
    return disagreement(per_wording(distributions_ok, wordings))
