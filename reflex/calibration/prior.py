"""Position prior: how much a model favours a place in the list, whatever stands there, and its removal.

A score is modelled as option + place: score[o, p] = u[option at p] + b[p] + noise. With the same options read
in several orders, b is the least-squares solution of what each option gains and loses as it moves, so option
effects cancel whichever orders were drawn. The estimate is kept under the *sorted* option names, so the order
in which a caller declares options cannot reach the answer through it.

`permuted`: estimated on predictions of `fit` rows. `content_free`: on the same questions over states that say
nothing (`content_free_questions`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from reflex.calibration.scored import expansion
from reflex.calibration.temperature import CONTENT_FREE
from reflex.errors import CalibrationError

if TYPE_CHECKING:
    import pandas as pd

CONTENT_FREE_STATES = ("", "N/A", "(no text)")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PositionPrior:
    """exact: sorted option names → score of each place (mean 0); by_count: the same by number of options.

    Keys are JSON lists `[type, readout, …]`. `strength` scales what is subtracted.
    """

    estimator: str
    strength: float = 1.0
    exact: dict[str, list[float]] = field(default_factory=dict)
    by_count: dict[str, list[float]] = field(default_factory=dict)
    n: dict[str, int] = field(default_factory=dict)

    __pydantic_config__ = ConfigDict(extra="forbid")  # of a calibration file

    def places(self, kind: str, readout: str, keys: Sequence[str]) -> Floats | None:
        """Score of each place for these options, in any order; None when nothing is known."""
        found = self.exact.get(exact_key(kind, readout, keys))
        if found is None:
            found = self.by_count.get(count_key(kind, readout, len(keys)))
        return None if found is None else np.asarray(found)

    def adjust(
        self,
        kind: str,
        readout: str,
        keys: Sequence[str],
        order_keys: Sequence[Sequence[str]],
        scores: Sequence[Sequence[float]],
    ) -> Sequence[Sequence[float]]:
        """Scores minus strength × place, for every order that presents the options themselves."""
        places = self.places(kind, readout, keys)
        if places is None or any(len(row) != len(keys) for row in order_keys):
            return scores
        taken = self.strength * places
        return [(np.asarray(row, dtype=np.float64) - taken).tolist() for row in scores]


def exact_key(kind: str, readout: str, keys: Sequence[str]) -> str:
    return json.dumps([kind, readout, *sorted(keys)], ensure_ascii=False)


def count_key(kind: str, readout: str, n_options: int) -> str:
    return json.dumps([kind, readout, n_options])


class _Normal:
    """Normal equations of the place effects of one key."""

    def __init__(self, n: int) -> None:
        self.matrix = np.zeros((n, n))
        self.moment = np.zeros(n)
        self.rows = 0

    def add(self, place_ok: NDArray[np.int64], score_ok: Floats) -> None:
        """One question: place and score of each option (columns) in each order (rows)."""
        orders = len(place_ok)
        np.add.at(self.moment, place_ok, score_ok - score_ok.mean(axis=0))
        for a in range(orders):
            np.add.at(self.matrix, (place_ok[a], place_ok[a]), 1.0)
            for b in range(orders):
                np.add.at(self.matrix, (place_ok[a], place_ok[b]), -1.0 / orders)
        self.rows += 1

    def solve(self) -> list[float]:
        """Least-norm solution, centred: places no option moved between stay at their common mean."""
        places: Floats = np.linalg.pinv(self.matrix, rcond=1e-9, hermitian=True) @ self.moment
        return [float(value) for value in places - places.mean()]


def fit_prior(
    frame: pd.DataFrame, estimator: str, *, strength: float = 1.0, min_rows: int = 20
) -> PositionPrior:
    """Place effects from a Predictions frame whose questions were read in two or more orders.

    An option set gets its own estimate from `min_rows` rows on (content-free: from one), a number of options
    likewise; fewer rows fall back to the number of options, then to nothing. Raises CalibrationError when
    no question was read in several orders.
    """
    enough = 1 if estimator == CONTENT_FREE else min_rows
    exact: dict[str, _Normal] = {}
    by_count: dict[str, _Normal] = {}
    names = ("type", "readout", "keys", "order_keys", "scores")
    for kind, readout, keys, order_keys, scores in zip(*(frame[name] for name in names)):
        if len(order_keys) < 2 or len(keys) < 2 or expansion(readout) is not None:
            continue
        if len({tuple(order) for order in order_keys}) < 2:
            continue
        column = {key: i for i, key in enumerate(keys)}
        place_ok = np.empty((len(order_keys), len(keys)), dtype=np.int64)
        score_ok = np.empty(place_ok.shape)
        for order, (presented, row) in enumerate(zip(order_keys, scores, strict=True)):
            at = [column[key] for key in presented]
            place_ok[order, at] = np.arange(len(keys))
            # Centred per order: a constant added to all scores of an order means nothing.
            score_ok[order, at] = np.asarray(row, dtype=np.float64) - np.mean(row)
        for table, key in (
            (exact, exact_key(kind, readout, keys)),
            (by_count, count_key(kind, readout, len(keys))),
        ):
            table.setdefault(key, _Normal(len(keys))).add(place_ok, score_ok)
    if not by_count:
        raise CalibrationError(
            "calibration.prior: no question was read in two orders, so places and options cannot be told "
            "apart; use orders=two, cyclic or more"
        )
    tables = [
        {key: normal.solve() for key, normal in table.items() if normal.rows >= enough}
        for table in (exact, by_count)
    ]
    counts = {
        key: normal.rows for key, normal in {**exact, **by_count}.items() if normal.rows >= enough
    }
    return PositionPrior(estimator, strength, tables[0], tables[1], counts)


def content_free_questions(
    questions: Sequence[tuple[str, Any]],
) -> list[tuple[str, dict[str, Any]]]:
    """(id, question) of every distinct question, choice options sorted by name: whatever order a caller
    declared them in, the same requests are asked. Takes contract questions, gives their JSON."""
    from reflex.contract import Choice

    seen: dict[str, tuple[str, dict[str, Any]]] = {}
    for question_id, question in questions:
        raw: dict[str, Any] = question.model_dump(mode="json")
        if isinstance(question, Choice):
            raw["criteria"] = dict(sorted(raw["criteria"].items()))
        text = json.dumps(raw, sort_keys=True, ensure_ascii=False)
        seen.setdefault(text, (question_id, raw))
    return [seen[text] for text in sorted(seen)]
