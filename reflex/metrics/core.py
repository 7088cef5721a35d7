"""Every metric of a Predictions frame, each with n and an interval where one is honest."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reflex.errors import DataError
from reflex.metrics import scores
from reflex.metrics.ece import ece
from reflex.metrics.frame import Items, items
from reflex.metrics.intervals import Metric, generator, mean, share
from reflex.metrics.orders import accuracy_by_position, order_metrics
from reflex.metrics.selective import aurc, auroc

ECE_BINS = (10, 15)

_ECE = (
    "expected calibration error of the top probability (noul: max(p, 1-p)), {bins} equal-width "
    "bins, last one closed, against {truth}; reference_mean and reference_high: mean and 95th "
    "percentile of a perfectly calibrated model with the same confidences at this n; debiased: "
    "sampling noise taken out"
)
_GOLD = "whether the top answer is the gold one"
_SOFT = "the label's probability of the top answer (soft labels, their spread as seen in each bin)"
_AUROC = "AUROC of {what} for right against wrong answers; DeLong interval"

DEFINITIONS: dict[str, str] = {
    "accuracy": "share of rows whose top option is the gold one; tied labels left out; Wilson",
    "nll": "cross-entropy to the label distribution, nats, p >= 1e-15; floor: target_entropy",
    "brier": "squared difference to the label distribution summed over options, 0..2",
    "total_variation": "half the summed absolute difference to the label distribution, 0..1",
    "confidence_gap": "mean top probability minus accuracy: positive is overconfident",
    "ece_10": _ECE.format(bins=10, truth=_GOLD),
    "ece_15": _ECE.format(bins=15, truth=_GOLD),
    "ece_10_soft": _ECE.format(bins=10, truth=_SOFT),
    "ece_15_soft": _ECE.format(bins=15, truth=_SOFT),
    "aurc": "area under the risk-coverage curve of the wire confidence; random: the error rate",
    "auroc_wire": _AUROC.format(what="the wire confidence (noul: choice formula on two options)"),
    "auroc_entropy": _AUROC.format(what="1 - normalised entropy"),
    "auroc_gini": _AUROC.format(what="the normalised Gini concentration"),
    "auroc_max": _AUROC.format(what="the top probability"),
    "auroc_margin": _AUROC.format(what="the margin between the two most probable options"),
    "accuracy_by_position": "max - min accuracy over the gold option's place in the first order",
    "flip_rate": "share of questions asked in several orders or wordings whose top option changes with it",
    "flip_rate_described": "flip_rate of choice questions with a described option",
    "flip_rate_undescribed": "flip_rate of choice questions with bare option names",
    "disagreement": "mean total variation of each order and wording to the mean over them, 0..1",
    "disagreement_described": "disagreement of choice questions with a described option",
    "disagreement_undescribed": "disagreement of choice questions with bare option names",
    "mae_level": "score questions: |expected level - expected level of the label|, in levels",
    "rps": "score questions: ranked probability score divided by levels - 1, 0..1",
}
"""One line per metric that `compute` may return. Means carry a t interval, clustered by `group`."""


def compute(df: pd.DataFrame, seed: int = 0) -> dict[str, Metric]:
    """All metrics that apply to `df`: {name of DEFINITIONS: {"value", "n", "low", "high", extras}}.

    A metric that applies but is undefined here (an AUROC with every answer right) has value None;
    one that cannot apply (flip rate with one order, levels without score questions) is absent.
    Values are finite. Deterministic in (df, seed). Raises DataError in one line for an empty or
    malformed frame.
    """
    return _compute(items(df), seed)


def compute_by(df: pd.DataFrame, column: str, seed: int = 0) -> dict[str, dict[str, Metric]]:
    """`compute` for every value of `column` (as text, sorted). Raises DataError for an unknown
    column."""
    if column not in df.columns:
        raise DataError(f"predictions: no column {column!r} to split the metrics by")
    everything = items(df)
    labels_n = df[column].astype(str).to_numpy(dtype=object)
    return {
        str(label): _compute(everything.take(labels_n == label), seed)
        for label in sorted(set(labels_n.tolist()))
    }


def _compute(x: Items, seed: int) -> dict[str, Metric]:
    keep_n = x.scored_n
    group_n, scored_group_n = x.group_n, x.group_n[keep_n]
    correct_n, top_n = scores.correct(x)[keep_n], scores.top_probability(x)
    floor = float(scores.target_entropy(x).mean())
    found: dict[str, Metric] = {
        "accuracy": share(correct_n, scored_group_n),
        "nll": mean(scores.nll(x), group_n, target_entropy=floor),
        "brier": mean(scores.brier(x), group_n),
        "total_variation": mean(scores.total_variation(x), group_n),
        "confidence_gap": mean(top_n[keep_n] - correct_n, scored_group_n),
    }
    soft = bool((x.target_nk.max(axis=1) < 1 - 1e-9).any())
    for bins in ECE_BINS:
        name = f"ece_{bins}"
        found[name] = ece(top_n[keep_n], correct_n, bins, generator(seed, name))
        if soft:
            rated_n = np.clip(x.target_nk[np.arange(len(x)), x.top_n], 0.0, 1.0)
            name = f"ece_{bins}_soft"
            found[name] = ece(top_n, rated_n, bins, generator(seed, name))
    for name, statistic in scores.CONFIDENCES.items():
        # Rounded, so that values equal but for the last bits rank as ties.
        sure_n = np.round(statistic(x)[keep_n], 12)
        if name == "wire":
            found["aurc"] = aurc(sure_n, correct_n, scored_group_n, generator(seed, "aurc"))
        found[f"auroc_{name}"] = auroc(sure_n, correct_n, scored_group_n)
    if (x.gold_position_n >= 0).any():
        found["accuracy_by_position"] = accuracy_by_position(x, generator(seed, "position"))
    found |= order_metrics(x)
    score_n = x.type_n == "score"
    if score_n.any():
        found["mae_level"] = mean(scores.level_error(x)[score_n], group_n[score_n])
        found["rps"] = mean(scores.ranked_probability(x)[score_n], group_n[score_n])
    return found
