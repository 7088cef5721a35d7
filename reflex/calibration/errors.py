"""How a fit fares: on its own rows, on other rows of the same families, and on families left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reflex.calibration import buckets
from reflex.calibration.fitted import Calibration
from reflex.calibration.minimise import Bools, Bucket
from reflex.calibration.prior import PositionPrior
from reflex.calibration.scored import Floats, Scored, pack
from reflex.hashing import stable_hash
from reflex.metrics.ece import Binned, ece
from reflex.metrics.intervals import generator, mean

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
    temperatures: Mapping[str, float],
    refit: Callable[[Bools], Mapping[str, float]] | None,
) -> tuple[dict[str, Any], list[str]]:
    """NLL and ECE of the fit rows: raw, fitted on themselves, in-family (other groups of the same families,
    five folds) and left out (fitted on the other families); warnings where left-out families get worse.

    raw, scored: the rows as they were read, and with the position prior taken out; without one the same.
    refit: temperatures of a fit on the rows of a mask alone. None where nothing can be left out of the fit, and
    there is no held-out error: no temperature was fitted, or a prior estimated on these very rows is in the
    scores of every fold.
    """
    chains = chains_of(frame, rule)
    ones_n = np.ones(len(frame))
    fitted_n = np.array([_temperature(temperatures, chain) for chain in chains])
    errors = {"raw": _error(raw, ones_n), "fitted": _error(scored, fitted_n)}
    if refit is None:
        return errors, []
    fold_n = np.array([stable_hash(group, "calibration") % FOLDS for group in frame["group"]])
    if len(set(fold_n.tolist())) > 1:
        errors["in_family"] = _error(scored, _held_out(fold_n, chains, refit))
    family_n = frame["family"].to_numpy(dtype=object)
    if len(set(family_n.tolist())) < 2:
        return errors, []
    left_n = _held_out(family_n, chains, refit)
    families, warnings = _by_family(frame, raw.nll(ones_n), scored.nll(left_n))
    errors["left_out"] = {**_error(scored, left_n), "families": families}
    return errors, warnings


def refitted(
    found: list[Bucket], chosen: Mapping[str, str], min_rows: int, keep_n: Bools
) -> dict[str, float]:
    """Temperatures fitted on the rows in `keep_n` only, with the weighting chosen for each bucket."""
    # A fit on part of the rows keeps the buckets of the whole: min_rows shrinks with it.
    least = max(1, int(min_rows * (1 - (~keep_n).mean())))
    table = {}
    for bucket in found:
        keep_b = keep_n[bucket.rows_b]
        if keep_b.sum() >= least:
            weight_b = bucket.weights(chosen[bucket.key], keep_b)
            table[bucket.key] = bucket.landscape.best(weight_b).temperature
    return table


def _held_out(
    part_n: NDArray[Any],
    chains: Sequence[Sequence[str]],
    refit: Callable[[Bools], Mapping[str, float]],
) -> Floats:
    """The temperature of every row from a fit without the rows of its part."""
    temperature_n = np.ones(len(part_n))
    for part in sorted(set(part_n.tolist())):
        out_n = part_n == part
        table = refit(~out_n)
        temperature_n[out_n] = [
            _temperature(table, chains[i]) for i in np.flatnonzero(out_n).tolist()
        ]
    return temperature_n


def _temperature(table: Mapping[str, float], chain: Sequence[str]) -> float:
    return next((table[key] for key in chain if key in table), 1.0)


def _by_family(
    frame: pd.DataFrame, raw_nll_n: Floats, left_nll_n: Floats
) -> tuple[dict[str, Any], list[str]]:
    """Per family its NLL raw and left out with the interval of the change; a warning for each that got worse."""
    family_n = frame["family"].to_numpy(dtype=object)
    group_n = np.unique(frame["group"].astype(str), return_inverse=True)[1]
    found: dict[str, Any] = {}
    warnings = []
    for family in sorted(set(family_n.tolist())):
        own_n = family_n == family
        n = int(own_n.sum())
        before, after = float(raw_nll_n[own_n].mean()), float(left_nll_n[own_n].mean())
        change = mean((left_nll_n - raw_nll_n)[own_n], group_n[own_n])
        low, high = change["low"], change["high"]
        found[family] = {"n": n, "nll_raw": before, "nll": after, "low": low, "high": high}
        if after > before:
            interval = "too few rows for an interval"
            if low is not None:
                interval = f"95 % interval of the change {low:+.4f} to {high:+.4f}"
            warnings.append(
                f"{LEFT_OUT} {family}, it makes {family} worse: NLL {before:.4f} to {after:.4f} "
                f"(n {n}, {interval})"
            )
    return found, warnings


def report_error(frame: pd.DataFrame, found: Calibration) -> dict[str, Any]:
    """NLL and ECE of rows it was not fitted on: `raw` (prior and temperature left out) and `fitted`."""
    scores = None if found.prior is None else adjusted(frame, found.prior)
    names = zip(frame["type"], frame["readout"], frame["keys"])
    temperature_n = np.array([found.temperature(t, r, len(keys))[0] for t, r, keys in names])
    return {
        "raw": _error(pack(frame), np.ones(len(frame))),
        "fitted": _error(pack(frame, scores), temperature_n),
    }


def _error(scored: Scored, temperature_n: Floats) -> dict[str, Any]:
    """NLL of all n rows; ECE of those with one gold answer, and beside it their number and what a calibrated model
    would show there."""
    name = f"ece_{ECE_BINS}"
    found = ece(*scored.top(temperature_n), ECE_BINS, generator(0, name))
    beside = ("n", "reference_mean", "reference_high")
    return {
        "n": len(scored),
        "nll": float(scored.nll(temperature_n).mean()),
        name: found["value"],
        f"{name}_of": {key: found[key] for key in beside if key in found},
    }


def ece_of(scored: Scored, temperature_n: Floats) -> float | None:
    top, right = scored.top(temperature_n)
    return float(Binned(top, right, ECE_BINS).ece) if len(top) else None


def adjusted(frame: pd.DataFrame, prior: PositionPrior) -> list[Any]:
    names = ("type", "readout", "keys", "order_keys", "scores")
    return [prior.adjust(*row) for row in zip(*(frame[name] for name in names))]


def chains_of(frame: pd.DataFrame, rule: str) -> list[tuple[str, ...]]:
    columns = zip(frame["type"], frame["readout"], frame["keys"])
    return [buckets.chain(rule, kind, readout, len(keys)) for kind, readout, keys in columns]
