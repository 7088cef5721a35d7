"""Reading a Predictions frame: what is refused, and in which words. Also the frame maker of its siblings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from reflex.errors import DataError, ReflexError
from reflex.metrics import compute, compute_by
from reflex.metrics.frame import items


def keys_of(kind: str, options: int) -> list[str]:
    if kind == "noul":
        return ["true", "false"]
    return [str(level) if kind == "score" else f"option {level}" for level in range(options)]


def predictions(
    probabilities: Iterable[Any],
    targets: Iterable[Any] | None = None,
    *,
    gold: Sequence[int] | None = None,
    kind: str = "choice",
    **columns: Any,
) -> pd.DataFrame:
    """A frame of one question per item; `gold` gives one-hot targets, else the targets' unique argmax."""
    rows = [np.asarray(row, dtype=float) for row in probabilities]
    if targets is None:
        assert gold is not None
        targets = [np.eye(len(row))[index] for row, index in zip(rows, gold, strict=True)]
    truths = [np.asarray(row, dtype=float) for row in targets]
    unique = [int(t.argmax()) if (t == t.max()).sum() == 1 else -1 for t in truths]
    return pd.DataFrame(
        {
            "item_id": [f"item{index:05d}" for index in range(len(rows))],
            "question_id": "q",
            "type": kind,
            "family": "f",
            "group": [f"item{index:05d}" for index in range(len(rows))],
            "keys": [keys_of(kind, len(row)) for row in rows],
            "target": [truth.tolist() for truth in truths],
            "gold": unique,
            "probabilities": [row.tolist() for row in rows],
            **columns,
        }
    )


def changed(frame: pd.DataFrame, **columns: Any) -> pd.DataFrame:
    """`frame.assign`, for columns of lists (which its type stub does not know)."""
    return frame.assign(**columns)


def softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def simulated(
    n: int,
    options: int = 4,
    seed: int = 0,
    sharpness: float = 1.0,
    kind: str = "choice",
    **columns: Any,
) -> pd.DataFrame:
    """Labels drawn from the softmax of random scores; predictions sharpened by `sharpness` (1: calibrated)."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 1.5, (n, options))
    truth = softmax(scores)
    gold = (rng.random((n, 1)) > np.cumsum(truth, axis=1)).sum(axis=1).clip(max=options - 1)
    return predictions(softmax(scores * sharpness), gold=gold.tolist(), kind=kind, **columns)


def test_rows_of_different_width_are_padded_with_zeros() -> None:
    x = items(predictions([[0.25, 0.75], [0.2, 0.3, 0.5]], gold=[0, 2]))
    assert x.p_nk.tolist() == [[0.25, 0.75, 0.0], [0.2, 0.3, 0.5]]
    assert x.options_n.tolist() == [2, 3]
    assert x.top_n.tolist() == [1, 2]


def test_lists_may_be_arrays_as_parquet_gives_them() -> None:
    plain = simulated(30)
    arrays = changed(
        plain,
        probabilities=[np.array(row) for row in plain["probabilities"]],
        keys=[np.array(row, dtype=object) for row in plain["keys"]],
    )
    assert compute(plain) == compute(arrays)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"probabilities": [[0.5, 0.4]]},
            r"item00000 / q: 'probabilities' is not a distribution \(sum 0.9",
        ),
        ({"probabilities": [[1.5, -0.5]]}, "smallest -0.5"),
        ({"probabilities": [[float("nan"), 1.0]]}, "not a distribution"),
        ({"probabilities": [[1.0]]}, "'probabilities' has 1 entries for 2 options"),
        ({"target": [[0.5, 0.6]]}, "'target' is not a distribution"),
        ({"target": [None]}, "'target' is not a list"),
        ({"gold": [2]}, "gold 2 is not an option index"),
        ({"keys": [[]]}, "no options"),
    ],
)
def test_malformed_rows_are_named(change: dict[str, Any], says: str) -> None:
    frame = predictions([[0.5, 0.5]], gold=[0]).assign(**change)
    with pytest.raises(DataError, match=says):
        compute(frame)


def test_empty_frame_and_missing_columns_are_one_clear_error() -> None:
    frame = simulated(3)
    with pytest.raises(ReflexError, match="no rows"):
        compute(frame.iloc[:0])
    with pytest.raises(DataError, match="column 'gold' is missing"):
        compute(frame.drop(columns="gold"))
    with pytest.raises(DataError, match="no column 'subject'"):
        compute_by(frame, "subject")


def test_splitting_by_a_column_equals_computing_on_the_part() -> None:
    frame = simulated(60, family=["a", "b", "b"] * 20)
    parts = compute_by(frame, "family")
    assert list(parts) == ["a", "b"]
    assert parts["b"] == compute(frame[frame["family"] == "b"])
