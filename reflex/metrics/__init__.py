"""Measures of a Predictions frame, each with n and interval; paired comparisons and verdicts.
Imports no torch."""

from reflex.metrics.core import DEFINITIONS, compute, compute_by
from reflex.metrics.ece import calibrated_test, reliability
from reflex.metrics.intervals import Metric
from reflex.metrics.paired import PAIRED_METRICS, Comparison, compare, holm
from reflex.metrics.resampling import Difference, detectable_accuracy
from reflex.metrics.verdict import check_block, verdict

__all__ = [
    "DEFINITIONS",
    "PAIRED_METRICS",
    "Comparison",
    "Difference",
    "Metric",
    "calibrated_test",
    "check_block",
    "compare",
    "compute",
    "compute_by",
    "detectable_accuracy",
    "holm",
    "reliability",
    "verdict",
]
