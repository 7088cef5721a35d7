"""Fit temperatures per bucket from a Predictions frame, and measure them on what they were not fitted on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from reflex.calibration.errors import ECE_BINS, adjusted, chains_of, ece_of, errors_of, refitted
from reflex.calibration.fitted import Calibration
from reflex.calibration.minimise import Bucket, Landscape
from reflex.calibration.prior import PositionPrior
from reflex.calibration.scored import pack
from reflex.calibration.temperature import CONTENT_FREE
from reflex.errors import CalibrationError

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

SPLIT = "fit"
MIN_FAMILIES = 3
AT_THE_LIMIT = "is at the edge of what is tried"


def check_split(frame: pd.DataFrame) -> None:
    """Raise CalibrationError for a frame without rows, or naming the first row that is not of split `fit`."""
    if not len(frame):
        raise CalibrationError(f"no rows of split {SPLIT!r} to fit on; load them (benchmark.split)")
    other = frame[frame["split"] != SPLIT]
    if len(other):
        row = other.iloc[0]
        raise CalibrationError(
            f"row {row['item_id']} ({row['source']}) is of split {row['split']!r}: a calibration is fitted "
            f"on rows of split {SPLIT!r} only ({len(other)} other rows given)"
        )


def fit(
    frame: pd.DataFrame,
    *,
    rule: str,
    weighting: str = "rows",
    min_rows: int = 50,
    name: str = "",
    prior: PositionPrior | None = None,
    fitted_on: Mapping[str, Any] | None = None,
) -> Calibration:
    """Temperatures for every bucket of `rule` with at least `min_rows` rows.

    weighting: `rows`; `families` (each family counts the same); `transfer` picks per bucket whichever of the
    two has the lower leave-one-family-out NLL, from three families on. Scores are corrected by `prior` first.
    Raises CalibrationError for rows of another split than `fit`.
    """
    check_split(frame)
    scores = None if prior is None else adjusted(frame, prior)
    raw = pack(frame)
    scored = raw if scores is None else pack(frame, scores)
    found, fallbacks = _buckets(frame, rule, min_rows, scores)
    chosen: dict[str, str] = {}
    details: dict[str, dict[str, Any]] = {}
    for bucket in found:
        everything = np.ones(len(bucket.rows_b), dtype=bool)
        detail: dict[str, Any] = {}
        chosen[bucket.key] = weighting
        if weighting == "transfer":
            detail["transfer"] = compared = compare_weightings(bucket)
            chosen[bucket.key] = compared["chosen"]
        best = bucket.landscape.best(bucket.weights(chosen[bucket.key], everything))
        names, counts = np.unique(bucket.family_b.astype(str), return_counts=True)
        details[bucket.key] = {
            "temperature": best.temperature,
            "n": len(bucket.rows_b),
            "families": dict(zip(names.tolist(), counts.tolist(), strict=True)),
            "weighting": chosen[bucket.key],
            "nll_raw": best.nll_raw,
            "nll": best.nll,
            "at_bound": best.at_bound,
            **detail,
        }
    temperatures = {key: detail["temperature"] for key, detail in details.items()}
    held_out = bool(temperatures) and (prior is None or prior.estimator == CONTENT_FREE)
    refit = partial(refitted, found, chosen, min_rows) if held_out else None
    errors, warnings = errors_of(frame, rule, raw, scored, temperatures, refit)
    warnings += [
        f"bucket {key}: the temperature ({detail['temperature']:.3g}) {AT_THE_LIMIT}"
        for key, detail in details.items()
        if detail["at_bound"]
    ]
    if not temperatures and rule != "none":
        warnings.insert(
            0, f"{len(frame)} rows are fewer than {min_rows}: nothing was fitted, T = 1"
        )
    for warning in warnings:
        log.warning("calibration: %s", warning)
    for key, fallback in fallbacks.items():
        log.info("calibration: bucket %s uses %s (%s)", key, fallback["to"], fallback["why"])
    return Calibration(
        name=name or rule,
        rule=rule,
        weighting=weighting,
        temperatures=temperatures,
        details=details,
        fallbacks=fallbacks,
        errors=errors,
        warnings=warnings,
        fitted_on={**(fitted_on or {}), **_facts(frame)},
        prior=prior,
    )


def compare_weightings(bucket: Bucket) -> dict[str, Any]:
    """Leave-one-family-out NLL and ECE of the row- and the family-weighted fit, and which one is chosen.

    A family counts once in the NLL, however many rows it has: the question is how a family never seen fares.
    """
    families = sorted(set(bucket.family_b.tolist()))
    if len(families) < MIN_FAMILIES:
        why = f"{len(families)} families, {MIN_FAMILIES} are needed to leave one out"
        return {"chosen": "rows", "why": why}
    found: dict[str, Any] = {}
    scored = bucket.landscape.scored
    for weighting in ("rows", "families"):
        temperature_b = np.ones(len(bucket.rows_b))
        fitted: dict[str, float] = {}
        for family in families:
            out_b = bucket.family_b == family
            fitted[family] = bucket.landscape.best(bucket.weights(weighting, ~out_b)).temperature
            temperature_b[out_b] = fitted[family]
        nll_b = scored.nll(temperature_b)
        by_family = {family: float(nll_b[bucket.family_b == family].mean()) for family in families}
        found[weighting] = {
            "nll": float(np.mean(list(by_family.values()))),
            f"ece_{ECE_BINS}": ece_of(scored, temperature_b),
            "temperatures": fitted,
        }
    better = "families" if found["families"]["nll"] < found["rows"]["nll"] else "rows"
    return {**found, "chosen": better, "why": "lower leave-one-family-out NLL"}


def _buckets(
    frame: pd.DataFrame, rule: str, min_rows: int, scores: list[Any] | None
) -> tuple[list[Bucket], dict[str, dict[str, Any]]]:
    """Buckets with enough rows, coarse to fine, and what the others fall back to."""
    rows: dict[str, list[int]] = {}
    parents: dict[str, str | None] = {}
    depth: dict[str, int] = {}
    for index, chain in enumerate(chains_of(frame, rule)):
        for level, key in enumerate(reversed(chain)):
            rows.setdefault(key, []).append(index)
            parents[key] = chain[len(chain) - level] if level else None
            depth[key] = level
    family_n = frame["family"].to_numpy(dtype=object)
    found: dict[str, Bucket] = {}
    fallbacks: dict[str, dict[str, Any]] = {}
    for key in sorted(rows, key=lambda key: (depth[key], key)):
        indices = np.array(rows[key])
        if len(indices) < min_rows:
            parent = parents[key]
            while parent is not None and parent not in found:
                parent = parents[parent]
            why = f"{len(indices)} rows, {min_rows} are needed"
            fallbacks[key] = {"to": parent or "temperature 1", "n": len(indices), "why": why}
            continue
        own = None if scores is None else [scores[i] for i in rows[key]]
        landscape = Landscape(pack(frame.iloc[indices], own))
        found[key] = Bucket(key, indices, family_n[indices], landscape)
    return list(found.values()), fallbacks


def _facts(frame: pd.DataFrame) -> dict[str, Any]:
    def names(column: str) -> list[str]:
        return sorted(set(frame[column].astype(str)))

    return {
        "n": len(frame),
        "splits": names("split"),
        "sources": names("source"),
        "families": names("family"),
    }
