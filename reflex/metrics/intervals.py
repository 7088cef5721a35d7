"""Metric entries and the intervals around means and shares.

Rows of one group (same state, same article) are not independent; every interval here treats the
group as the sampling unit as soon as two rows share one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
"""With fewer groups, as `effective_groups` counts them, an interval of a mean says little of what it should: none
is given."""


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


def effective_groups(codes_n: Ints) -> float:
    """How many groups of equal size say as much about the spread as those of these rows: (Σ_g n_g)² / Σ_g n_g², G
    at most.

    One author of half the rows is not one of twenty authors (Kish 1965; Carter, Schnepel and Steigerwald 2017).
    """
    size_g = np.bincount(codes_n)
    return float(size_g.sum() ** 2 / np.square(size_g).sum()) if len(size_g) else 0.0


def standard_error(x_n: Floats, group_n: Ints) -> tuple[float, float]:
    """Standard error of the mean of `x_n` with groups as the sampling unit, and the number of
    groups as `effective_groups` counts them.

    sqrt(G/(G-1) Σ_g (Σ_{i in g} (x_i - x̄))²) / n, the cluster-robust form (Liang and Zeger 1986);
    with one row per group it is the usual s/√n. NaN with fewer than two groups.
    """
    codes_n, groups = dense(group_n)
    effective = effective_groups(codes_n)
    if groups < 2:
        return math.nan, effective
    sums_g = np.bincount(codes_n, weights=x_n - x_n.mean(), minlength=groups)
    return float(np.sqrt(groups / (groups - 1) * np.square(sums_g).sum()) / len(x_n)), effective


def mean(x_n: Floats, group_n: Ints, **extras: Any) -> Metric:
    """Mean with a 95 % t interval, its degrees of freedom the effective groups less one; no interval with fewer
    than MIN_GROUPS of them."""
    if not len(x_n):
        return metric(None, 0, **extras)
    error, groups = standard_error(x_n, group_n)
    value = float(x_n.mean())
    if groups < MIN_GROUPS:
        return metric(value, len(x_n), **extras)
    half = float(stdtrit(groups - 1, (1 + LEVEL) / 2)) * error
    return metric(value, len(x_n), value - half, value + half, **extras)


def mean_interval(entries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """`low` and `high` of the unweighted mean of independent shares from their own 95 % intervals (MOVER: G. Zou
    and A. Donner, Construction of confidence limits about effect measures, Statistics in Medicine 2008); empty where
    one has none."""
    if any(entry.get("low") is None or entry.get("high") is None for entry in entries):
        return {}
    k = len(entries)
    middle = sum(entry["value"] for entry in entries) / k
    below = math.sqrt(sum((entry["value"] - entry["low"]) ** 2 for entry in entries)) / k
    above = math.sqrt(sum((entry["high"] - entry["value"]) ** 2 for entry in entries)) / k
    return {"low": middle - below, "high": middle + above}


def wilson(successes: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % score interval for `successes` of `n` (`n` may be an effective sample size)."""
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(successes, n, alpha=1 - LEVEL, method="wilson")
    return max(0.0, float(low)), min(1.0, float(high))


def share(hit_n: Floats, group_n: Ints, **extras: Any) -> Metric:
    """Share of ones with Wilson's interval.

    Where groups repeat, n is divided by the design effect (never below 1, Kish 1965) and by (t/z)² for the few
    effective groups it was estimated from (Korn and Graubard 1998); `n_effective` says what is left. With all hits
    or none the design effect is unknown and the number of effective groups stands in.
    """
    n = len(hit_n)
    if not n:
        return metric(None, 0, **extras)
    value = float(hit_n.mean())
    effective = float(n)
    error, groups = standard_error(hit_n, group_n)
    if groups < n:
        spread = value * (1 - value) / n
        unknown = math.isnan(error) or spread == 0
        effective = groups if unknown else n / max(1.0, error**2 / spread)
        if not math.isnan(error):
            t = stdtrit(max(1.0, groups - 1), (1 + LEVEL) / 2)
            effective *= float(ndtri((1 + LEVEL) / 2) / t) ** 2
        extras = {**extras, "n_effective": effective}
    low, high = wilson(value * effective, effective)
    return metric(value, n, low, high, **extras)
