"""Metric entries and the intervals around means and shares.

Rows of one group (same state, same article) are not independent; every interval here treats the
group as the sampling unit as soon as two rows share one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
from scipy.special import ndtri, stdtrit

from reflex.metrics.frame import Floats, Ints

Metric: TypeAlias = dict[str, Any]
"""{"value": float | None, "n": int, "low": float | None, "high": float | None, + extras};
JSON-safe."""

LEVEL = 0.95

MIN_GROUPS = 10
"""With fewer groups an interval of a mean says little of what it should: none is given."""


def metric(
    value: float | None, n: int, low: float | None = None, high: float | None = None, **extras: Any
) -> Metric:
    """A metric entry in plain Python numbers; whatever is not finite becomes None."""
    entry = {"value": value, "n": int(n), "low": low, "high": high, **extras}
    return {key: plain(item) for key, item in entry.items()}


def plain(value: Any) -> Any:
    """`value` as JSON can carry it: numpy scalars unwrapped, NaN and infinities to None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def generator(seed: int, name: str) -> np.random.Generator:
    """A random stream of its own per metric, so that a new metric moves no other."""
    return np.random.default_rng([seed, crc32(name.encode())])


def dense(group_n: Ints) -> tuple[Ints, int]:
    """Group codes renumbered 0..G-1 in order of value, and G."""
    values, codes_n = np.unique(group_n, return_inverse=True)
    return codes_n.astype(np.int64), len(values)


def standard_error(x_n: Floats, group_n: Ints) -> tuple[float, int]:
    """Standard error of the mean of `x_n` with groups as the sampling unit, and the number of
    groups.

    sqrt(G/(G-1) Σ_g (Σ_{i in g} (x_i - x̄))²) / n, the cluster-robust form (Liang and Zeger 1986);
    with one row per group it is the usual s/√n. NaN with fewer than two groups.
    """
    codes_n, groups = dense(group_n)
    if groups < 2:
        return math.nan, groups
    sums_g = np.bincount(codes_n, weights=x_n - x_n.mean(), minlength=groups)
    return float(np.sqrt(groups / (groups - 1) * np.square(sums_g).sum()) / len(x_n)), groups


def mean(x_n: Floats, group_n: Ints, **extras: Any) -> Metric:
    """Mean with a 95 % t interval on G-1 degrees of freedom; no interval with fewer than MIN_GROUPS groups."""
    if not len(x_n):
        return metric(None, 0, **extras)
    error, groups = standard_error(x_n, group_n)
    value = float(x_n.mean())
    if groups < MIN_GROUPS:
        return metric(value, len(x_n), **extras)
    half = float(stdtrit(groups - 1, (1 + LEVEL) / 2)) * error
    return metric(value, len(x_n), value - half, value + half, **extras)


def wilson(successes: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % score interval for `successes` of `n` (`n` may be an effective sample size)."""
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(successes, n, alpha=1 - LEVEL, method="wilson")
    return max(0.0, float(low)), min(1.0, float(high))


def share(hit_n: Floats, group_n: Ints, **extras: Any) -> Metric:
    """Share of ones with Wilson's interval.

    Where groups repeat, n is divided by the design effect (never below 1, Kish 1965) and by (t/z)² for the few
    groups it was estimated from (Korn and Graubard 1998); `n_effective` says what is left. With all hits or
    none the design effect is unknown and the number of groups stands in.
    """
    n = len(hit_n)
    if not n:
        return metric(None, 0, **extras)
    value = float(hit_n.mean())
    effective = float(n)
    error, groups = standard_error(hit_n, group_n)
    if groups < n:
        spread = value * (1 - value) / n
        unknown = groups < 2 or spread == 0
        effective = float(groups) if unknown else n / max(1.0, error**2 / spread)
        if groups > 1:
            effective *= float(ndtri((1 + LEVEL) / 2) / stdtrit(groups - 1, (1 + LEVEL) / 2)) ** 2
        extras = {**extras, "n_effective": effective}
    low, high = wilson(value * effective, effective)
    return metric(value, n, low, high, **extras)
