"""The paired bootstrap: differences of means over the same rows, resampled by group.

Intervals are percentile intervals, widened for few groups (Hesterberg 2015, "expanded percentile"), counted as
`effective_groups` does; p-values invert the same intervals, so that the two never contradict each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from reflex.metrics.frame import Floats, Ints
from reflex.metrics.intervals import (
    LEVEL,
    MIN_GROUPS,
    dense,
    effective_groups,
    plain,
    standard_error,
)

RESAMPLES = 4000
POWER = 0.80
_CELLS = 4_000_000
"""Resamples × groups held in memory at once."""


@dataclass(frozen=True)
class Difference:
    """One metric, candidate minus baseline, on the same rows. `better_when` is "lower" or
    "higher"."""

    metric: str
    better_when: str
    value: float | None
    low: float | None
    high: float | None
    p_value: float | None
    n: int
    groups: int
    baseline: float | None
    candidate: float | None
    detectable: float | None
    """Smallest true difference that would be called with 80 % power at 5 %: 2.8 of its standard errors where groups
    are many, more where they are few. `detectable_of` says it of one among several."""
    effective: float = field(default=0.0, repr=False)
    """Groups as `effective_groups` counts them."""
    resampled: Floats | None = field(default=None, repr=False, compare=False)
    exact_p: float = field(default=0.0, repr=False)
    """No p-value is below this one: of an exact test, where so few rows differ that resampling says too much."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe, without what the test needs."""
        names = ("metric", "better_when", "value", "low", "high", "p_value", "n", "groups")
        more = ("baseline", "candidate", "detectable")
        return {name: plain(getattr(self, name)) for name in (*names, *more)}

    def detectable_of(self, comparisons: int, margin: float = 0.0) -> float | None:
        """As `detectable` where Holm's correction is over `comparisons`, whose first step asks for 5 % of that, and
        what is called has to lie beyond `margin`."""
        if self.detectable is None:
            return None
        return margin + self.detectable * (
            _power(self.effective, comparisons) / _power(self.effective)
        )

    @property
    def interval(self) -> str:
        """The 95 % interval as text, a dash where there is none."""
        if self.low is None or self.high is None:
            return "–"
        return f"{self.low:+.4f} to {self.high:+.4f}"

    @property
    def p_at_most(self) -> bool:
        """Whether no resample crossed zero: then `p_value` is the smallest that so many resamples can tell."""
        if self.resampled is None or self.p_value is None:
            return False
        return self.p_value <= _two_sided(0, len(self.resampled), self.effective)

    def p_beyond(self, margin: float = 0.0) -> tuple[float, float]:
        """Two-sided p-values (better, worse): that the candidate is not better (worse) by more than
        `margin`.

        The smaller of the two is `p_value` when margin is 0. (1, 1) without resamples.
        """
        if self.resampled is None:
            return 1.0, 1.0
        gain_r = self.resampled if self.better_when == "higher" else -self.resampled
        not_better = int((gain_r <= margin).sum())
        not_worse = int((gain_r >= -margin).sum())
        count = len(gain_r)
        return (
            max(self.exact_p, _two_sided(not_better, count, self.effective)),
            max(self.exact_p, _two_sided(not_worse, count, self.effective)),
        )

    def at_least(self, low: float, high: float, exact_p: float) -> Difference:
        """This difference with an interval no narrower than low..high, and no p-value below `exact_p`."""
        if self.low is None or self.high is None:
            return self
        wider = replace(self, low=min(self.low, low), high=max(self.high, high), exact_p=exact_p)
        return replace(wider, p_value=min(wider.p_beyond()))


def bootstrap_means(sum_gm: Floats, count_gm: Floats, seed: int = 0) -> Floats:
    """Ratio-of-sums means (RESAMPLES × M) of M columns when groups are drawn with replacement.

    `sum_gm`, `count_gm`: per group and column, the sum of the values and the number of rows. A
    resample that drew no row of a column repeats that column's full mean.
    """
    groups = len(sum_gm)
    rng = np.random.default_rng(seed)
    full_m = sum_gm.sum(axis=0) / np.maximum(count_gm.sum(axis=0), 1)
    step = max(1, _CELLS // groups)
    parts = []
    for start in range(0, RESAMPLES, step):
        weight_rg = drawn_times(rng, min(step, RESAMPLES - start), groups).astype(np.float64)
        count_rm = weight_rg @ count_gm
        parts.append(np.where(count_rm > 0, weight_rg @ sum_gm / np.maximum(count_rm, 1), full_m))
    return np.concatenate(parts)


def drawn_times(rng: np.random.Generator, resamples: int, groups: int) -> Ints:
    """How often each group is drawn in each resample (resamples × groups), drawing with replacement."""
    drawn_rg = rng.integers(groups, size=(resamples, groups))
    own_rg = drawn_rg + np.arange(resamples)[:, None] * groups
    return np.bincount(own_rg.ravel(), minlength=own_rg.size).reshape(own_rg.shape)


def differences(
    baseline_nm: Floats,
    candidate_nm: Floats,
    group_n: Ints,
    names: list[str],
    better_when: list[str],
    seed: int = 0,
) -> list[Difference]:
    """Paired differences of M columns of per-row values over the same n rows, sharing their
    resamples."""
    rows = len(baseline_nm)
    delta_nm = candidate_nm - baseline_nm
    codes_n, groups = dense(group_n)
    resampled_rm = None
    effective = effective_groups(codes_n)
    if effective >= MIN_GROUPS:
        order = np.argsort(codes_n, kind="stable")
        starts_g = np.searchsorted(codes_n[order], np.arange(groups))
        sum_gm = np.add.reduceat(delta_nm[order], starts_g, axis=0)
        count_gm = np.bincount(codes_n, minlength=groups)[:, None].astype(np.float64)
        resampled_rm = bootstrap_means(sum_gm, count_gm, seed)
    found = []
    for column, (name, direction) in enumerate(zip(names, better_when, strict=True)):
        delta_n = delta_nm[:, column]
        resampled_r = None if resampled_rm is None else resampled_rm[:, column]
        low, high = (None, None) if resampled_r is None else _interval(resampled_r, effective)
        error = standard_error(delta_n, group_n)[0] if rows else math.nan
        ready = Difference(
            metric=name,
            better_when=direction,
            value=float(delta_n.mean()) if rows else None,
            low=low,
            high=high,
            p_value=None,
            n=rows,
            groups=groups,
            baseline=float(baseline_nm[:, column].mean()) if rows else None,
            candidate=float(candidate_nm[:, column].mean()) if rows else None,
            detectable=plain(_power(effective) * error) if error > 0 else None,
            effective=effective,
            resampled=resampled_r,
        )
        p_value = None if resampled_r is None else min(ready.p_beyond())
        found.append(replace(ready, p_value=p_value))
    return found


def detectable_accuracy(discordance: float, n: float) -> float | None:
    """Smallest accuracy difference that McNemar's test at 5 % finds with 80 % power on n paired
    rows of which a share `discordance` is right in exactly one of the two.

    Solves n = (z_α √ψ + z_β √(ψ - δ²))² / δ² for δ (Connor 1987). None when even δ = ψ, every
    discordant row on one side, would be missed.
    """
    if not 0 < discordance <= 1 or n <= 0:
        return None
    alpha, beta = float(ndtri((1 + LEVEL) / 2)), float(ndtri(POWER))

    def short_of(delta: float) -> float:
        reach = alpha * math.sqrt(discordance) + beta * math.sqrt(discordance - delta**2)
        return reach - delta * math.sqrt(n)

    if short_of(discordance) > 0:
        return None
    return float(brentq(short_of, 0, discordance))


def _power(groups: float, comparisons: int = 1) -> float:
    """Standard errors that a true difference needs to be called with 80 % power, as one of so many."""
    needed, power = stdtrit(groups - 1, [1 - (1 - LEVEL) / 2 / comparisons, POWER])
    return float(needed + power)


def _stretch(groups: float) -> float:
    return math.sqrt(groups / (groups - 1))


def _interval(resampled_r: Floats, groups: float) -> tuple[float, float]:
    t = float(stdtrit(groups - 1, (1 + LEVEL) / 2))
    tail = float(ndtr(-t * _stretch(groups)))
    low, high = np.quantile(resampled_r, [tail, 1 - tail])
    return float(low), float(high)


def _two_sided(beyond: int, count: int, groups: float) -> float:
    tail = (1 + beyond) / (1 + count)
    if tail >= 0.5:
        return 1.0
    return min(1.0, 2 * float(stdtr(groups - 1, float(ndtri(tail)) / _stretch(groups))))
