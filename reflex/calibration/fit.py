"""Fit temperatures per bucket from a Predictions frame, and measure them on what they were not fitted on."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reflex.calibration import buckets
from reflex.calibration.fitted import Calibration
from reflex.calibration.minimise import Landscape, family_weights
from reflex.calibration.prior import PositionPrior
from reflex.calibration.scored import Floats, Scored, pack
from reflex.errors import CalibrationError
from reflex.metrics.ece import Binned

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

SPLIT = "fit"
WEIGHTINGS = ("rows", "families", "transfer")
MIN_FAMILIES = 3
FOLDS = 5
ECE_BINS = 15

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Bucket:
    """Rows that share a temperature: their indices in the frame, and their landscape."""

    key: str
    parent: str | None
    rows_b: NDArray[np.int64]
    family_b: NDArray[np.object_]
    landscape: Landscape

    def weights(self, weighting: str, keep_b: Bools) -> Floats:
        if weighting == "families":
            return family_weights(self.family_b, keep_b)
        return keep_b.astype(np.float64)


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
    scores = None if prior is None else _adjusted(frame, prior)
    scored = pack(frame, scores)
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
    errors, warnings = _errors(frame, rule, scored, found, chosen, temperatures, min_rows)
    warnings += [
        f"bucket {key}: the temperature ({detail['temperature']:.3g}) is at the edge of what is tried"
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


def report_error(frame: pd.DataFrame, found: Calibration) -> dict[str, Any]:
    """NLL and ECE of rows it was not fitted on: `raw` and `fitted`."""
    adjusted = None if found.prior is None else _adjusted(frame, found.prior)
    names = zip(frame["type"], frame["readout"], frame["keys"])
    temperature_n = np.array([found.temperature(t, r, len(keys))[0] for t, r, keys in names])
    return {
        "raw": _error(pack(frame), np.ones(len(frame))),
        "fitted": _error(pack(frame, adjusted), temperature_n),
    }


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
            f"ece_{ECE_BINS}": _ece(scored, temperature_b),
            "temperatures": fitted,
        }
    better = "families" if found["families"]["nll"] < found["rows"]["nll"] else "rows"
    return {**found, "chosen": better, "why": "lower leave-one-family-out NLL"}


def _adjusted(frame: pd.DataFrame, prior: PositionPrior) -> list[Any]:
    names = ("type", "readout", "keys", "order_keys", "scores")
    return [prior.adjust(*row) for row in zip(*(frame[name] for name in names))]


def _chains(frame: pd.DataFrame, rule: str) -> list[tuple[str, ...]]:
    columns = zip(frame["type"], frame["readout"], frame["keys"])
    return [buckets.chain(rule, kind, readout, len(keys)) for kind, readout, keys in columns]


def _buckets(
    frame: pd.DataFrame, rule: str, min_rows: int, scores: list[Any] | None
) -> tuple[list[Bucket], dict[str, dict[str, Any]]]:
    """Buckets with enough rows, coarse to fine, and what the others fall back to."""
    rows: dict[str, list[int]] = {}
    parents: dict[str, str | None] = {}
    depth: dict[str, int] = {}
    for index, chain in enumerate(_chains(frame, rule)):
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
        found[key] = Bucket(key, parents[key], indices, family_n[indices], landscape)
    return list(found.values()), fallbacks


def _table(
    found: list[Bucket], chosen: Mapping[str, str], keep_n: Bools, min_rows: int
) -> dict[str, float]:
    """Temperatures fitted on the rows in `keep_n` only."""
    table = {}
    for bucket in found:
        keep_b = keep_n[bucket.rows_b]
        if keep_b.sum() >= min_rows:
            weight_b = bucket.weights(chosen[bucket.key], keep_b)
            table[bucket.key] = bucket.landscape.best(weight_b).temperature
    return table


def _errors(
    frame: pd.DataFrame,
    rule: str,
    scored: Scored,
    found: list[Bucket],
    chosen: Mapping[str, str],
    temperatures: Mapping[str, float],
    min_rows: int,
) -> tuple[dict[str, Any], list[str]]:
    """NLL and ECE of the fit rows: raw, fitted on themselves, in-family (other groups of the same families,
    five folds) and left out (fitted on the other families); warnings where left-out families get worse."""
    chains = _chains(frame, rule)
    family_n = frame["family"].to_numpy(dtype=object)
    families = sorted(set(family_n.tolist()))

    def per_row(table: Mapping[str, float], rows: NDArray[np.int64]) -> list[float]:
        return [next((table[key] for key in chains[i] if key in table), 1.0) for i in rows]

    def held_out(part_n: NDArray[Any]) -> Floats:
        temperature_n = np.ones(len(frame))
        for part in sorted(set(part_n.tolist())):
            out_n = part_n == part
            # A fit on part of the rows keeps the buckets of the whole: min_rows shrinks with it.
            least = max(1, int(min_rows * (1 - out_n.mean())))
            table = _table(found, chosen, ~out_n, least)
            temperature_n[out_n] = per_row(table, np.flatnonzero(out_n))
        return temperature_n

    raw_n = np.ones(len(frame))
    fitted_n = np.array(per_row(temperatures, np.arange(len(frame))))
    errors = {"raw": _error(scored, raw_n), "fitted": _error(scored, fitted_n)}
    fold_n = np.array([_fold(group) for group in frame["group"]])
    if len(set(fold_n.tolist())) > 1:
        errors["in_family"] = _error(scored, held_out(fold_n))
    if len(families) < 2:
        return errors, []
    left_n = held_out(family_n)
    errors["left_out"] = _error(scored, left_n)
    raw_nll_n, left_nll_n = scored.nll(raw_n), scored.nll(left_n)
    by_family: dict[str, Any] = {}
    warnings = []
    for family in families:
        own_n = family_n == family
        before, after = float(raw_nll_n[own_n].mean()), float(left_nll_n[own_n].mean())
        by_family[family] = {"n": int(own_n.sum()), "nll_raw": before, "nll": after}
        if after > before:
            warnings.append(
                f"fitted without {family}, it makes {family} worse: NLL {before:.4f} to {after:.4f}"
            )
    errors["left_out"]["families"] = by_family
    return errors, warnings


def _error(scored: Scored, temperature_n: Floats) -> dict[str, Any]:
    return {
        "n": len(scored),
        "nll": float(scored.nll(temperature_n).mean()),
        f"ece_{ECE_BINS}": _ece(scored, temperature_n),
    }


def _ece(scored: Scored, temperature_n: Floats) -> float | None:
    top, right = scored.top(temperature_n)
    return float(Binned(top, right, ECE_BINS).ece) if len(top) else None


def _fold(group: str) -> int:
    digest = hashlib.blake2b(f"calibration\x1f{group}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % FOLDS


def _facts(frame: pd.DataFrame) -> dict[str, Any]:
    def names(column: str) -> list[str]:
        return sorted(set(frame[column].astype(str)))

    return {
        "n": len(frame),
        "splits": names("split"),
        "sources": names("source"),
        "families": names("family"),
    }
