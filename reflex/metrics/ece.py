"""Calibration of the top probability: plug-in ECE, what chance alone would show, a debiased
estimate, a test.

Plug-in ECE is positive even for a perfect model, and a bootstrap around it adds to that bias
instead of showing it. So the companion here is consistency resampling (Bröcker and Smith 2007):
confidences stay, outcomes are drawn from them, and the ECE of those draws is what a perfectly
calibrated model would show at this n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import ndtr

from reflex.metrics import scores
from reflex.metrics.frame import Floats, Ints, Items, items
from reflex.metrics.intervals import Metric, generator, metric, wilson

DRAWS = 1000
"""Consistency resamples; the smallest p-value is 1/1001."""

_CELLS = 2_000_000
"""Draws × rows held in memory at once."""

RELIABILITY_COLUMNS = (
    *("bin", "left", "right", "n", "confidence", "accuracy", "low", "high"),
    *("reference_low", "reference_high"),
)


def bin_index(confidence_n: Floats, bins: int) -> Ints:
    """Equal-width bins [i/bins, (i+1)/bins) on 0..1, the last one closed."""
    edges = np.arange(1, bins) / bins
    return np.searchsorted(edges, confidence_n, side="right").astype(np.int64)


class Binned:
    """Confidences and outcomes sorted into the bins that hold any row (suffix b)."""

    def __init__(self, confidence_n: Floats, outcome_n: Floats, bins: int) -> None:
        index_n = bin_index(confidence_n, bins)
        order = np.argsort(index_n, kind="stable")
        self.confidence_n = confidence_n[order]
        self.outcome_n = outcome_n[order]
        self.index_b, self.starts_b, self.count_b = np.unique(
            index_n[order], return_index=True, return_counts=True
        )
        self.hard_n = np.isin(self.outcome_n, (0.0, 1.0))
        self.bin_n = np.repeat(np.arange(len(self.index_b)), self.count_b)
        self.confidence_b = np.add.reduceat(self.confidence_n, self.starts_b)
        self.outcome_b = np.add.reduceat(self.outcome_n, self.starts_b)

    @property
    def ece(self) -> float:
        """Σ_b n_b/n |mean outcome - mean confidence|."""
        return float(np.abs(self.outcome_b - self.confidence_b).sum() / len(self.bin_n))

    def calibrated_outcomes(self, rng: np.random.Generator) -> Floats:
        """Outcome sums (DRAWS × bins) of a model that is right with exactly its stated confidence.

        The spread of rater shares, outcomes between 0 and 1, is unknown: theirs are the confidence and a residual of
        the size seen, less the mean of such residuals in the bin, with a random sign.
        """
        divided_n = ~self.hard_n
        count_b = np.add.reduceat(divided_n.astype(np.float64), self.starts_b)
        residual_n = np.where(divided_n, self.outcome_n - self.confidence_n, 0.0)
        # One share alone has no spread to be seen: its whole residual stands for it.
        several_b = count_b > 1
        mean_b = np.where(
            several_b, np.add.reduceat(residual_n, self.starts_b) / np.maximum(count_b, 1), 0
        )
        grown_b = np.where(several_b, np.sqrt(count_b / np.maximum(count_b - 1, 1)), 1)
        spread_n = (residual_n - mean_b[self.bin_n]) * grown_b[self.bin_n]
        parts = []
        for shape in self._shapes():
            outcome_rn = (rng.random(shape) < self.confidence_n).astype(np.float64)
            if divided_n.any():
                signs_rn = rng.integers(0, 2, size=shape, dtype=np.int8) * 2.0 - 1.0
                outcome_rn = np.where(
                    divided_n, self.confidence_n + signs_rn * spread_n, outcome_rn
                )
            parts.append(np.add.reduceat(outcome_rn, self.starts_b, axis=1))
        return np.concatenate(parts)

    def reference(self, rng: np.random.Generator) -> Floats:
        """ECE of DRAWS consistency resamples."""
        sums_rb = self.calibrated_outcomes(rng)
        return np.asarray(np.abs(sums_rb - self.confidence_b).sum(axis=1) / len(self.bin_n))

    def debiased(self) -> float:
        """ECE without the part that sampling noise adds.

        A bin of true gap δ and standard error s shows |N(δ, s²)| on average. The observed gaps are
        scaled by the λ in [0, 1] whose expected plug-in value is the observed one; λ = 0 when noise
        alone explains it. Simulated bias, perfectly calibrated, 15 bins: .020 at n = 200 (plug-in
        .078), .005 at 4,000 (.018); within .006 of the truth for true values of .03 and more from n
        = 1,200 on.
        """
        gap_b = np.abs(self.outcome_b - self.confidence_b) / self.count_b
        error_b = np.sqrt(self._variance())
        weight_b = self.count_b / len(self.bin_n)
        observed = float(weight_b @ gap_b)

        def expected(scale: float) -> float:
            return float(weight_b @ _folded_mean(scale * gap_b, error_b))

        if expected(0.0) >= observed:
            return 0.0
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if expected(middle) > observed else (middle, high)
        return low * observed

    def _variance(self) -> Floats:
        """Variance of each bin's mean outcome: Bernoulli with Laplace's rule of succession for
        right/wrong outcomes, so that a bin of one row is not taken as certain; residual variance
        for rater shares."""
        share_b = (self.outcome_b + 1) / (self.count_b + 2)
        bernoulli_b = share_b * (1 - share_b) / self.count_b
        if self.hard_n.all():
            return np.asarray(bernoulli_b)
        residual_n = self.outcome_n - self.confidence_n
        mean_b = np.add.reduceat(residual_n, self.starts_b) / self.count_b
        squares_b = np.add.reduceat(np.square(residual_n - mean_b[self.bin_n]), self.starts_b)
        several_b = squares_b / np.maximum(1, self.count_b - 1) / self.count_b
        return np.where(self.count_b > 1, several_b, bernoulli_b)

    def _shapes(self) -> Iterator[tuple[int, int]]:
        step = max(1, _CELLS // len(self.bin_n))
        for start in range(0, DRAWS, step):
            yield min(step, DRAWS - start), len(self.bin_n)


def _folded_mean(mean_b: Floats, error_b: Floats) -> Floats:
    """E|N(mean, error²)|, the mean of the folded normal distribution."""
    z_b = mean_b / np.maximum(error_b, 1e-300)
    bell_b = np.exp(-np.square(np.minimum(z_b, 40.0)) / 2)
    return np.asarray(error_b * math.sqrt(2 / math.pi) * bell_b + mean_b * (1 - 2 * ndtr(-z_b)))


def ece(confidence_n: Floats, outcome_n: Floats, bins: int, rng: np.random.Generator) -> Metric:
    """Plug-in ECE with `reference_mean`, `reference_high` (95th percentile of a calibrated model),
    `p_value` and `debiased`. There is no low and high on purpose: see the module's docstring."""
    n = len(confidence_n)
    if not n:
        return metric(None, 0)
    binned = Binned(confidence_n, outcome_n, bins)
    reference_r = binned.reference(rng)
    # A tolerance, so that resamples equal to the observed value up to rounding count as equal.
    at_least = int((reference_r >= binned.ece - 1e-12).sum())
    return metric(
        binned.ece,
        n,
        reference_mean=reference_r.mean(),
        reference_high=np.quantile(reference_r, 0.95),
        debiased=binned.debiased(),
        p_value=(1 + at_least) / (1 + len(reference_r)),
    )


def scored(x: Items) -> tuple[Floats, Floats]:
    """Top probability and correctness of the rows that have a unique gold answer."""
    keep_n = x.scored_n
    return scores.top_probability(x)[keep_n], scores.correct(x)[keep_n]


def calibrated_test(df: pd.DataFrame, bins: int = 15, seed: int = 0) -> Metric:
    """Test of "right as often as it says": `p_value` is the share of consistency resamples whose
    ECE is at least the observed one. A perfectly calibrated model gets below 0.05 in one case of
    twenty.

    Rows are taken as independent. Raises DataError for a frame that cannot be read; `p_value` is
    None when no row has a unique gold answer.
    """
    entry = ece(*scored(items(df)), bins, generator(seed, f"ece_{bins}"))
    return entry if "p_value" in entry else {**entry, "p_value": None}


def reliability(df: pd.DataFrame, bins: int = 15, seed: int = 0) -> pd.DataFrame:
    """The table behind a reliability diagram: one row per bin that holds any answer.

    `low`/`high`: Wilson interval of the accuracy. `reference_low`/`reference_high`: where 95 % of a
    perfectly calibrated model's accuracies would fall (consistency bars). Empty when no row has a
    unique gold answer.
    """
    confidence_n, correct_n = scored(items(df))
    if not len(confidence_n):
        return pd.DataFrame(columns=list(RELIABILITY_COLUMNS))
    binned = Binned(confidence_n, correct_n, bins)
    rates_rb = binned.calibrated_outcomes(generator(seed, "reliability")) / binned.count_b
    band_2b = np.quantile(rates_rb, [0.025, 0.975], axis=0)
    rows = []
    for position, index in enumerate(binned.index_b.tolist()):
        count, hits = int(binned.count_b[position]), float(binned.outcome_b[position])
        stated = float(binned.confidence_b[position]) / count
        edges = (index, index / bins, (index + 1) / bins)
        rows.append(
            (*edges, count, stated, hits / count, *wilson(hits, count), *band_2b[:, position])
        )
    return pd.DataFrame(rows, columns=list(RELIABILITY_COLUMNS))
