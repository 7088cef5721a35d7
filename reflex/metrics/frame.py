"""A Predictions frame as padded arrays: the only place of this room that reads DataFrame columns.

Suffixes of array names: n rows (item × question), k options (padded to the widest question), m row
× order. Padding is zero in probabilities and targets, so sums over k need no mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from reflex.errors import DataError

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

REQUIRED = ("item_id", "question_id", "type", "keys", "target", "gold", "probabilities")
"""The other columns of a Predictions frame are read where present."""

SUM_TOLERANCE = 1e-4
"""How far a distribution's sum may be from 1: float32 softmaxes over 255 options stay well
inside."""


@dataclass(frozen=True)
class Items:
    """What the metrics need of a frame, checked. `gold_n` is -1 where the target has no unique
    top."""

    type_n: npt.NDArray[np.object_]
    group_n: Ints
    options_n: Ints
    p_nk: Floats
    target_nk: Floats
    gold_n: Ints
    described_n: Bools
    gold_position_n: Ints
    """Position of the gold option in the first presented order; -1 where there is none."""
    order_row_m: Ints
    order_p_mk: Floats

    def __len__(self) -> int:
        return len(self.gold_n)

    @property
    def top_n(self) -> Ints:
        """Index of the served answer: the first of the most probable options."""
        return np.argmax(self.p_nk, axis=1)

    @property
    def scored_n(self) -> Bools:
        """Rows that accuracy-like metrics count: those with a unique gold answer."""
        return self.gold_n >= 0

    def take(self, keep_n: Bools) -> Items:
        """The rows where `keep_n` is true, with their orders."""
        renumbered_n = np.cumsum(keep_n) - 1
        keep_m = keep_n[self.order_row_m]
        return Items(
            type_n=self.type_n[keep_n],
            group_n=self.group_n[keep_n],
            options_n=self.options_n[keep_n],
            p_nk=self.p_nk[keep_n],
            target_nk=self.target_nk[keep_n],
            gold_n=self.gold_n[keep_n],
            described_n=self.described_n[keep_n],
            gold_position_n=self.gold_position_n[keep_n],
            order_row_m=renumbered_n[self.order_row_m[keep_m]],
            order_p_mk=self.order_p_mk[keep_m],
        )


def items(df: pd.DataFrame) -> Items:
    """Read and check a Predictions frame.

    Raises DataError (one line, naming the item) for an empty frame, a missing column, lists of
    unequal length, a number that is not a probability, a distribution that does not sum to 1, or a
    gold index outside the options.
    """
    check_columns(df)
    names = (df["item_id"].astype(str) + " / " + df["question_id"].astype(str)).to_numpy()
    options_n = _lengths(df["keys"].tolist(), "keys", names)
    if not options_n.all():
        raise DataError(f"predictions of {names[int(np.argmin(options_n))]}: no options in 'keys'")
    width = int(options_n.max())
    p_nk = _distributions(df["probabilities"].tolist(), "probabilities", options_n, width, names)
    target_nk = _distributions(df["target"].tolist(), "target", options_n, width, names)
    gold_n = df["gold"].to_numpy(dtype=np.int64)
    outside_n = (gold_n < -1) | (gold_n >= options_n)
    if outside_n.any():
        bad = int(np.argmax(outside_n))
        raise DataError(f"predictions of {names[bad]}: gold {gold_n[bad]} is not an option index")
    order_row_m, order_p_mk = _orders(df, options_n, width, names)
    groups = df["group"] if "group" in df else df["item_id"]
    if "described" in df:
        described_n = df["described"].fillna(False).to_numpy(dtype=bool)
    else:
        described_n = np.zeros(len(df), dtype=bool)
    return Items(
        type_n=df["type"].to_numpy(dtype=object),
        group_n=group_codes(groups),
        options_n=options_n,
        p_nk=p_nk,
        target_nk=target_nk,
        gold_n=gold_n,
        described_n=described_n,
        gold_position_n=_gold_positions(df, gold_n),
        order_row_m=order_row_m,
        order_p_mk=order_p_mk,
    )


def group_codes(groups: pd.Series) -> Ints:
    """A number for each row, the same for rows of one group."""
    return np.asarray(pd.factorize(groups.astype(str))[0], dtype=np.int64)


def check_columns(df: pd.DataFrame) -> None:
    """Raises DataError for a frame without rows or without one of the required columns."""
    missing = [name for name in REQUIRED if name not in df.columns]
    if missing:
        raise DataError(f"predictions: column {', '.join(map(repr, missing))} is missing")
    if not len(df):
        raise DataError(
            "predictions: no rows, so there is nothing to measure (is the suite empty?)"
        )


def _lengths(lists: Sequence[Any], column: str, names: npt.NDArray[Any]) -> Ints:
    try:
        return np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    except TypeError:
        bad = next(index for index, value in enumerate(lists) if not hasattr(value, "__len__"))
        raise DataError(f"predictions of {names[bad]}: '{column}' is not a list") from None


def _distributions(
    lists: Sequence[Any], column: str, options_n: Ints, width: int, names: npt.NDArray[Any]
) -> Floats:
    lengths_n = _lengths(lists, column, names)
    if (lengths_n != options_n).any():
        bad = int(np.argmax(lengths_n != options_n))
        raise DataError(
            f"predictions of {names[bad]}: '{column}' has {lengths_n[bad]} entries "
            f"for {options_n[bad]} options"
        )
    padded_nk = np.zeros((len(lists), width))
    filled_nk = np.arange(width) < options_n[:, None]
    if len(lists):
        padded_nk[filled_nk] = np.concatenate([np.asarray(row, dtype=np.float64) for row in lists])
    with np.errstate(invalid="ignore"):
        sums_n = padded_nk.sum(axis=1)
        bad_n = ~(np.abs(sums_n - 1) <= SUM_TOLERANCE) | (padded_nk < 0).any(axis=1)
    if bad_n.any():
        bad = int(np.argmax(bad_n))
        raise DataError(
            f"predictions of {names[bad]}: '{column}' is not a distribution "
            f"(sum {sums_n[bad]:.6g}, smallest {padded_nk[bad, : options_n[bad]].min():.6g})"
        )
    return padded_nk


def _orders(
    df: pd.DataFrame, options_n: Ints, width: int, names: npt.NDArray[Any]
) -> tuple[Ints, Floats]:
    if "order_probabilities" not in df:
        return np.zeros(0, dtype=np.int64), np.zeros((0, width))
    per_row = [() if row is None else row for row in df["order_probabilities"].tolist()]
    counts_n = _lengths(per_row, "order_probabilities", names)
    row_m = np.repeat(np.arange(len(df)), counts_n)
    flat = list(chain.from_iterable(per_row))
    return row_m, _distributions(flat, "order_probabilities", options_n[row_m], width, names[row_m])


def _gold_positions(df: pd.DataFrame, gold_n: Ints) -> Ints:
    position_n = np.full(len(df), -1, dtype=np.int64)
    if "order_keys" not in df:
        return position_n
    columns = zip(df["keys"].tolist(), df["order_keys"].tolist(), gold_n.tolist(), strict=True)
    for row, (keys, orders, gold) in enumerate(columns):
        if gold < 0 or orders is None or len(orders) == 0:
            continue
        # The rating readout presents levels "0".."8", not the options: it has no gold position.
        first = list(orders[0])
        if keys[gold] in first:
            position_n[row] = first.index(keys[gold])
    return position_n
