"""How a fit fares: on its own rows, on other rows of the same families, and on families left out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reflex.calibration import buckets
from reflex.calibration.fitted import Calibration
from reflex.calibration.minimise import Bools, Bucket
from reflex.calibration.prior import PositionPrior
from reflex.calibration.scored import Floats, Scored, pack
from reflex.metrics.ece import Binned
from reflex.metrics.intervals import mean

if TYPE_CHECKING:
    import pandas as pd

FOLDS = 5
LEFT_OUT = "fitted without"
"""How a warning of one left-out family begins."""
ECE_BINS = 15


def errors_of(
    frame: pd.DataFrame,
    rule: str,
    raw: Scored,
    scored: Scored,
    found: list[Bucket],
    chosen: Mapping[str, str],
    temperatures: Mapping[str, float],
    min_rows: int,
    held: bool = True,
) -> tuple[dict[str, Any], list[str]]:
    """NLL and ECE of the fit rows: raw, fitted on themselves, in-family (other groups of the same families,
    five folds) and left out (fitted on the other families); warnings where left-out families get worse.

    raw, scored: the rows as they were read, and with the position prior taken out; without one the same. Where
    nothing can be left out of the fit there is no held-out error: no temperature was fitted, or `held` is False
    (a prior estimated on these very rows is in the scores of every fold).
    """
    chains = chains_of(frame, rule)
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

    ones_n = np.ones(len(frame))
    fitted_n = np.array(per_row(temperatures, np.arange(len(frame))))
    errors = {"raw": _error(raw, ones_n), "fitted": _error(scored, fitted_n)}
    if not held or not temperatures:
        return errors, []
    fold_n = np.array([_fold(group) for group in frame["group"]])
    if len(set(fold_n.tolist())) > 1:
        errors["in_family"] = _error(scored, held_out(fold_n))
    if len(families) < 2:
        return errors, []
    left_n = held_out(family_n)
    errors["left_out"] = _error(scored, left_n)
    raw_nll_n, left_nll_n = raw.nll(ones_n), scored.nll(left_n)
    by_family: dict[str, Any] = {}
    warnings = []
    group_n = np.unique(frame["group"].astype(str), return_inverse=True)[1]
    for family in families:
        own_n = family_n == family
        before, after = float(raw_nll_n[own_n].mean()), float(left_nll_n[own_n].mean())
        change = mean((left_nll_n - raw_nll_n)[own_n], group_n[own_n])
        by_family[family] = {
            "n": int(own_n.sum()),
            "nll_raw": before,
            "nll": after,
            "low": change["low"],
            "high": change["high"],
        }
        if after > before:
            interval = "too few rows for an interval"
            if change["low"] is not None:
                interval = (
                    f"95 % interval of the change {change['low']:+.4f} to {change['high']:+.4f}"
                )
            warnings.append(
                f"{LEFT_OUT} {family}, it makes {family} worse: NLL {before:.4f} to {after:.4f} "
                f"(n {int(own_n.sum())}, {interval})"
            )
    errors["left_out"]["families"] = by_family
    return errors, warnings


def report_error(frame: pd.DataFrame, found: Calibration) -> dict[str, Any]:
    """NLL and ECE of rows it was not fitted on: `raw` (prior and temperature left out) and `fitted`."""
    scores = None if found.prior is None else adjusted(frame, found.prior)
    names = zip(frame["type"], frame["readout"], frame["keys"])
    temperature_n = np.array([found.temperature(t, r, len(keys))[0] for t, r, keys in names])
    return {
        "raw": _error(pack(frame), np.ones(len(frame))),
        "fitted": _error(pack(frame, scores), temperature_n),
    }


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


def _error(scored: Scored, temperature_n: Floats) -> dict[str, Any]:
    return {
        "n": len(scored),
        "nll": float(scored.nll(temperature_n).mean()),
        f"ece_{ECE_BINS}": ece_of(scored, temperature_n),
    }


def ece_of(scored: Scored, temperature_n: Floats) -> float | None:
    top, right = scored.top(temperature_n)
    return float(Binned(top, right, ECE_BINS).ece) if len(top) else None


def _fold(group: str) -> int:
    digest = hashlib.blake2b(f"calibration\x1f{group}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % FOLDS


def adjusted(frame: pd.DataFrame, prior: PositionPrior) -> list[Any]:
    names = ("type", "readout", "keys", "order_keys", "scores")
    return [prior.adjust(*row) for row in zip(*(frame[name] for name in names))]


def chains_of(frame: pd.DataFrame, rule: str) -> list[tuple[str, ...]]:
    columns = zip(frame["type"], frame["readout"], frame["keys"])
    return [buckets.chain(rule, kind, readout, len(keys)) for kind, readout, keys in columns]
