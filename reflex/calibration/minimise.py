"""One temperature: the T in [0.05, 20] with the least weighted NLL of what would be served."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from reflex.calibration.scored import Floats, Scored

LOW, HIGH = math.log(0.05), math.log(20.0)
GRID = np.linspace(LOW, HIGH, 33)
"""log T at which every row's NLL is known once per bucket: the NLL of merged orders may have more than one
valley, so the bounded minimiser only refines the best grid point."""

Bools = NDArray[np.bool_]

_AT_BOUND = 1e-3
_GAIN = 1e-12


def at_bound(temperature: float) -> bool:
    """Whether it is the smallest or largest that is tried: where the best one lies is then unknown."""
    log_t = math.log(temperature)
    return min(log_t - LOW, HIGH - log_t) < _AT_BOUND


@dataclass(frozen=True)
class Optimum:
    """`nll` at `temperature` and `nll_raw` at 1, both weighted means; `at_bound`: no inner minimum."""

    temperature: float
    nll: float
    nll_raw: float
    at_bound: bool


class Landscape:
    """Rows and their NLL on the grid; every fit on a subset of them is a matter of weights."""

    def __init__(self, scored: Scored) -> None:
        self.scored = scored
        self.grid_gn: Floats = np.stack([scored.nll(math.exp(log_t)) for log_t in GRID])
        self.raw_n = scored.nll(1.0)

    def best(self, weight_n: Floats) -> Optimum:
        """The minimum for these row weights (any scale, some positive). T = 1 unless another is better."""
        weight_n = weight_n / weight_n.sum()

        def loss(log_t: float) -> float:
            return float(weight_n @ self.scored.nll(math.exp(log_t)))

        at = int(np.argmin(self.grid_gn @ weight_n))
        bounds = GRID[max(0, at - 1)], GRID[min(len(GRID) - 1, at + 1)]
        found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6})
        raw = float(weight_n @ self.raw_n)
        if not found.fun < raw - _GAIN:
            return Optimum(1.0, raw, raw, False)
        temperature = math.exp(float(found.x))
        return Optimum(temperature, float(found.fun), raw, at_bound(temperature))


def family_weights(family_n: NDArray[np.object_], keep_n: Bools) -> Floats:
    """Weights that give every family present in `keep_n` a total of 1, and other rows 0."""
    weight_n = np.zeros(len(family_n))
    for family in np.unique(family_n[keep_n].astype(str)):
        own_n = keep_n & (family_n == family)
        weight_n[own_n] = 1 / own_n.sum()
    return weight_n


@dataclass(frozen=True)
class Bucket:
    """Rows that share a temperature: their indices in the frame, and their landscape."""

    key: str
    rows_b: NDArray[np.int64]
    family_b: NDArray[np.object_]
    landscape: Landscape

    def weights(self, weighting: str, keep_b: Bools) -> Floats:
        if weighting == "families":
            return family_weights(self.family_b, keep_b)
        return keep_b.astype(np.float64)
