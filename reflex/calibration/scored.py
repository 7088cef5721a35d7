"""Raw scores of a Predictions frame as flat arrays, so that an NLL at any temperature is a few array passes.

Suffixes: s every stored score, m row × order, t row × option key, n rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reflex.errors import CalibrationError

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def expansion(readout: str) -> Mapping[str, Mapping[str, float]] | None:
    """label → option key → weight, for readouts whose labels are not the options (rating); else None."""
    found: Mapping[str, Mapping[str, float]] | None
    found = getattr(import_module(f"reflex.readouts.{readout}"), "EXPAND", None)
    return found


@dataclass(frozen=True)
class Scored:
    """What `pack` made of a frame. `merge_ts`: (row × option keys) × scores, the mean over orders."""

    score_s: Floats
    order_starts_m: Ints
    order_sizes_m: Ints
    order_row_m: Ints
    merge_ts: Any
    target_t: Floats
    row_starts_n: Ints
    gold_n: Ints

    def __len__(self) -> int:
        return len(self.row_starts_n)

    def probabilities(self, temperature: float | Floats) -> Floats:
        """Merged probabilities over all row × option keys (t,); `temperature` is one or one per row."""
        per_row = np.broadcast_to(np.asarray(temperature, dtype=np.float64), (len(self),))
        scaled_s = self.score_s / np.repeat(per_row[self.order_row_m], self.order_sizes_m)
        top_m = np.maximum.reduceat(scaled_s, self.order_starts_m)
        weight_s = np.exp(scaled_s - np.repeat(top_m, self.order_sizes_m))
        sum_m = np.add.reduceat(weight_s, self.order_starts_m)
        return np.asarray(self.merge_ts @ (weight_s / np.repeat(sum_m, self.order_sizes_m)))

    def nll(self, temperature: float | Floats) -> Floats:
        """Cross-entropy of every row (n,) in nats."""
        # A server with a calibration imports this file, and has no need of the metrics and their pandas.
        from reflex.metrics.scores import NLL_CLIP

        logs_t = np.log(np.maximum(self.probabilities(temperature), NLL_CLIP))
        return np.asarray(-np.add.reduceat(self.target_t * logs_t, self.row_starts_n))

    def top(self, temperature: float | Floats) -> tuple[Floats, Floats]:
        """(top probability, 1.0 where it is the gold option) of the rows that have a unique gold."""
        p_t = self.probabilities(temperature)
        top_n = np.maximum.reduceat(p_t, self.row_starts_n)
        keep_n = self.gold_n >= 0
        # The gold option is served when it reaches the top; a tie goes to the first of the options.
        sizes_n = np.diff(self.row_starts_n, append=len(p_t))
        place_t = np.arange(len(p_t)) - np.repeat(self.row_starts_n, sizes_n)
        first_t = np.where(p_t >= np.repeat(top_n, sizes_n), place_t, len(p_t))
        served_n = np.minimum.reduceat(first_t, self.row_starts_n)
        return top_n[keep_n], (served_n == self.gold_n)[keep_n].astype(np.float64)


def pack(frame: pd.DataFrame, scores: Sequence[Any] | None = None) -> Scored:
    """Flatten a Predictions frame; `scores` replaces its scores (after a position prior).

    Raises CalibrationError for an empty frame or, naming the item, a score that is not finite.
    """
    from scipy.sparse import csr_matrix

    if not len(frame):
        raise CalibrationError("no rows to calibrate on")
    flat: list[float] = []
    sizes: list[int] = []
    order_row: list[int] = []
    targets: list[float] = []
    row_starts: list[int] = []
    entries: list[tuple[int, int, float]] = []
    expansions = {name: expansion(name) for name in frame["readout"].unique()}
    given = frame["scores"].tolist() if scores is None else scores
    columns = (frame[name] for name in ("order_keys", "keys", "target", "readout"))
    for row, (per_order, order_keys, keys, target, readout) in enumerate(zip(given, *columns)):
        first, share = len(targets), 1 / len(order_keys)
        place = {key: first + i for i, key in enumerate(keys)}
        row_starts.append(first)
        targets += target
        expand = expansions[readout]
        for values, presented in zip(per_order, order_keys, strict=True):
            order_row.append(row)
            sizes.append(len(presented))
            if expand is None:
                entries += [(place[key], at, share) for at, key in enumerate(presented, len(flat))]
            else:
                entries += [
                    (place[key], at, share * weight)
                    for at, label in enumerate(presented, len(flat))
                    for key, weight in expand[label].items()
                ]
            flat += values
    score_s = np.array(flat, dtype=np.float64)
    sizes_m = np.array(sizes)
    if not np.isfinite(score_s).all():
        bad = order_row[int(np.repeat(np.arange(len(sizes)), sizes_m)[~np.isfinite(score_s)][0])]
        item = frame["item_id"].iloc[bad]
        raise CalibrationError(f"item {item}: a score is not a finite number; run the cell again")
    to, at, weight = zip(*entries, strict=True)
    return Scored(
        score_s=score_s,
        order_starts_m=np.concatenate([[0], np.cumsum(sizes_m)[:-1]]),
        order_sizes_m=sizes_m,
        order_row_m=np.array(order_row),
        merge_ts=csr_matrix((weight, (to, at)), shape=(len(targets), len(flat))),
        target_t=np.array(targets, dtype=np.float64),
        row_starts_n=np.array(row_starts),
        gold_n=frame["gold"].to_numpy(dtype=np.int64),
    )
