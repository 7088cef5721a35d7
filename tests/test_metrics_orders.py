"""Position, flips and disagreement between orders, on planted effects."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from reflex.metrics import compute
from tests.test_metrics_frame import changed, predictions, softmax


def ordered(
    orders: list[list[list[float]]], gold: list[int], keys: list[list[list[str]]] | None = None
) -> pd.DataFrame:
    frame = predictions([np.mean(row, axis=0) for row in orders], gold=gold)
    presented = [[names] * len(row) for names, row in zip(frame["keys"], orders, strict=True)]
    return changed(frame, order_probabilities=orders, order_keys=keys or presented, described=False)


def test_flip_rate_and_disagreement_by_hand() -> None:
    same, swapped = [[0.7, 0.3], [0.7, 0.3]], [[0.8, 0.2], [0.4, 0.6]]
    found = compute(ordered([same, same, same, swapped], gold=[0] * 4))
    assert found["flip_rate"]["value"] == 0.25
    assert found["flip_rate"]["n"] == 4
    assert found["disagreement"]["value"] == pytest.approx(0.2 / 4)


def test_rows_with_one_order_do_not_count() -> None:
    found = compute(ordered([[[0.7, 0.3]], [[0.8, 0.2], [0.4, 0.6]]], gold=[0, 0]))
    assert (found["flip_rate"]["value"], found["flip_rate"]["n"]) == (1.0, 1)
    assert "flip_rate" not in compute(ordered([[[0.7, 0.3]]], gold=[0]))


def test_an_order_invariant_readout_flips_exactly_never() -> None:
    rows = softmax(np.random.default_rng(0).normal(0, 1, (50, 4))).tolist()
    found = compute(ordered([[row] * 4 for row in rows], gold=[0] * 50))
    assert found["flip_rate"]["value"] == 0.0
    assert found["disagreement"]["value"] == pytest.approx(0.0, abs=1e-15)


def test_descriptions_split_choice_questions_where_both_kinds_exist() -> None:
    same, swapped = [[0.7, 0.3], [0.7, 0.3]], [[0.8, 0.2], [0.4, 0.6]]
    frame = ordered([same, swapped, same, swapped], gold=[0] * 4)
    assert "flip_rate_described" not in compute(frame)
    frame["described"] = [True, True, False, True]
    found = compute(frame)
    assert found["flip_rate_described"]["value"] == pytest.approx(2 / 3)
    assert found["flip_rate_undescribed"]["value"] == 0.0
    assert found["disagreement_described"]["value"] == pytest.approx(0.4 / 3)


def test_a_model_that_says_the_first_option_shows_a_gap_of_one() -> None:
    """Gold options spread over the presented positions, the answer always on the first."""
    orders, gold, keys = [], [], []
    for index in range(80):
        names = ["option 0", "option 1", "option 2", "option 3"]
        shown = names[index % 4 :] + names[: index % 4]
        row = np.full(4, 0.1)
        row[names.index(shown[0])] = 0.7
        orders.append([row.tolist()])
        gold.append((index // 4) % 4)
        keys.append([shown])
    entry = compute(ordered(orders, gold, keys))["accuracy_by_position"]
    assert entry["value"] == 1.0
    assert [entry["by"][str(place)]["value"] for place in range(4)] == [1.0, 0.0, 0.0, 0.0]
    assert entry["by"]["0"]["n"] == 20
    assert entry["value"] > entry["reference_high"]


def test_a_model_blind_to_position_stays_under_the_reference() -> None:
    above = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        gold = rng.integers(0, 4, 200)
        right = rng.random(200) < 0.6
        answer = np.where(right, gold, (gold + 1) % 4)
        entry = compute(
            ordered([[row] for row in (np.eye(4)[answer] * 0.6 + 0.1).tolist()], gold.tolist())
        )["accuracy_by_position"]
        above += entry["value"] > entry["reference_high"]
    assert above <= 6


def test_the_rating_readout_has_no_gold_position() -> None:
    levels = [[str(level) for level in range(9)]]
    frame = ordered([[[0.7, 0.3]]] * 3, gold=[0] * 3, keys=[levels] * 3)
    assert "accuracy_by_position" not in compute(frame)
