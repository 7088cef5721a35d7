"""Metrics against a library or a closed form, on random and on degenerate input."""

from __future__ import annotations

import json
import time

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score
from statsmodels.stats.proportion import proportion_confint
from torchmetrics.classification import MulticlassCalibrationError

from reflex.contract import choice_confidence, score_confidence
from reflex.metrics import DEFINITIONS, compute, compute_by, scores
from reflex.metrics.frame import items
from reflex.metrics.intervals import effective_groups, mean, share
from reflex.metrics.selective import auroc
from tests.test_metrics_frame import changed, predictions, simulated, softmax


def arrays(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    return np.array(frame["probabilities"].tolist()), frame["gold"].to_numpy()


def test_hard_label_scores_equal_scikit_learn() -> None:
    frame = simulated(500, options=5, seed=1)
    p, gold = arrays(frame)
    found = compute(frame)
    assert found["nll"]["value"] == pytest.approx(log_loss(gold, p), rel=1e-12)
    brier = brier_score_loss(gold, p, scale_by_half=False, labels=list(range(5)))
    assert found["brier"]["value"] == pytest.approx(brier, rel=1e-12)
    right = p.argmax(axis=1) == gold
    assert found["accuracy"]["value"] == right.mean()
    low, high = proportion_confint(right.sum(), 500, method="wilson")
    assert (found["accuracy"]["low"], found["accuracy"]["high"]) == pytest.approx((low, high))


def test_soft_label_scores_by_hand() -> None:
    found = compute(predictions([[0.5, 0.25, 0.25]], [[0.5, 0.5, 0.0]]))
    assert found["nll"]["value"] == pytest.approx(1.5 * np.log(2))
    assert found["nll"]["target_entropy"] == pytest.approx(np.log(2))
    assert found["brier"]["value"] == pytest.approx(0.125)
    assert found["total_variation"]["value"] == pytest.approx(0.25)
    # The label has two tops: accuracy leaves the row out and says n = 0.
    assert found["accuracy"] == {"value": None, "n": 0, "low": None, "high": None}


def test_a_certain_wrong_answer_costs_the_clip() -> None:
    found = compute(predictions([[1.0, 0.0]], gold=[1]))
    assert found["nll"]["value"] == pytest.approx(-np.log(1e-15))


def test_level_scores_by_hand() -> None:
    found = compute(predictions([[0.5, 0.5, 0.0]], gold=[2], kind="score"))
    assert found["mae_level"]["value"] == pytest.approx(1.5)
    assert found["rps"]["value"] == pytest.approx((0.25 + 1.0) / 2)


def test_ranked_probability_of_two_levels_is_half_the_brier_score() -> None:
    found = compute(simulated(80, options=2, kind="score"))
    assert found["rps"]["value"] == pytest.approx(found["brier"]["value"] / 2)


def test_padding_changes_no_score() -> None:
    narrow = simulated(40, options=3, kind="score")
    wide = pd.concat([narrow, simulated(40, options=9, kind="score")])
    for name in (scores.nll, scores.brier, scores.ranked_probability, *scores.CONFIDENCES.values()):
        np.testing.assert_allclose(name(items(narrow)), name(items(wide))[:40], atol=1e-14)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(lambda row: sum(row) > 1e-3))
def test_wire_confidence_is_the_contracts(raw: list[float]) -> None:
    p = (np.array(raw) / sum(raw)).tolist()
    for kind, formula in (("choice", choice_confidence), ("score", score_confidence)):
        x = items(predictions([p], gold=[0], kind=kind))
        assert scores.wire_confidence(x)[0] == pytest.approx(formula(p), abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 30))
def test_confidence_statistics_span_zero_to_one(options: int) -> None:
    x = items(predictions([np.full(options, 1 / options), np.eye(options)[0]], gold=[0, 0]))
    for name, statistic in scores.CONFIDENCES.items():
        low = 1 / options if name == "max" else 0.0
        np.testing.assert_allclose(statistic(x), [low, 1.0], atol=1e-9)


def test_auroc_equals_scikit_learn_and_its_interval_is_delongs() -> None:
    rng = np.random.default_rng(3)
    right = rng.random(300) < 0.7
    sure = np.round(rng.normal(right * 0.8, 1), 1)  # with ties
    found = auroc(sure, right.astype(float), np.arange(300))
    assert found["value"] == pytest.approx(roc_auc_score(right, sure))
    beats = (sure[right][:, None] > sure[~right]) + 0.5 * (sure[right][:, None] == sure[~right])
    variance = beats.mean(axis=1).var(ddof=1) / right.sum()
    variance += beats.mean(axis=0).var(ddof=1) / (~right).sum()
    value = found["value"]
    logits = np.log(value / (1 - value)) + np.array([-1, 1]) * 1.959964 * np.sqrt(variance) / (
        value * (1 - value)
    )
    np.testing.assert_allclose([found["low"], found["high"]], 1 / (1 + np.exp(-logits)), rtol=1e-6)


def test_noul_confidence_statistics_rank_alike() -> None:
    found = compute(simulated(200, options=2, kind="noul"))
    areas = {round(found[f"auroc_{name}"]["value"], 12) for name in scores.CONFIDENCES}
    assert len(areas) == 1


def test_risk_coverage_area_by_hand_and_under_ties() -> None:
    p = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    found = compute(predictions(p, gold=[0, 1, 0, 0]))["aurc"]
    assert found["value"] == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert found["random"] == 0.25
    assert found["oracle"] == pytest.approx((0 + 0 + 0 + 1 / 4) / 4)
    tied = compute(predictions([[0.7, 0.3]] * 4, gold=[0, 1, 0, 0]))["aurc"]
    assert tied["value"] == pytest.approx(0.25)


def test_repeated_rows_of_a_group_add_no_certainty() -> None:
    once = simulated(200)
    thrice = pd.concat([once] * 3)
    for name in ("nll", "brier", "total_variation", "auroc_max"):
        one, three = compute(once)[name], compute(thrice)[name]
        assert three["high"] - three["low"] == pytest.approx(one["high"] - one["low"], rel=0.02)
    accuracy = compute(thrice)["accuracy"]
    assert accuracy["n"] == 600
    # 200 groups, less what estimating their spread from 200 costs: (1.960 / 1.972)².
    assert accuracy["n_effective"] == pytest.approx(200 * (1.95996 / 1.97196) ** 2, rel=0.01)
    few = pd.concat([once[:9]] * 3)
    # nine groups are too few for an interval of a mean or an area
    for name in ("nll", "brier", "aurc", "auroc_max"):
        assert compute(few)[name]["low"] is None
        assert compute(once[:10])[name]["low"] is not None
    assert compute(few)["accuracy"]["low"] is not None


def test_one_large_group_is_not_many() -> None:
    """An author with half the rows: his luck is in every figure, and the interval has to know it."""
    assert effective_groups(np.repeat(np.arange(30), 7)) == 30
    lonely = np.repeat(np.arange(20), [190] + [10] * 19)
    assert effective_groups(lonely) == pytest.approx(144400 / 38000)
    assert mean(np.random.default_rng(0).normal(size=380), lonely)["low"] is None
    sizes = [60, 40, 30] + [10] * 30
    group_n = np.repeat(np.arange(len(sizes)), sizes)
    held = {"mean": 0, "share": 0}
    for seed in range(400):
        rng = np.random.default_rng(seed)
        effect_n = rng.normal(size=len(sizes))[group_n]
        found = mean(effect_n + rng.normal(size=len(group_n)), group_n)
        held["mean"] += found["low"] < 0 < found["high"]
        found = share((rng.normal(size=len(group_n)) < effect_n).astype(float), group_n)
        held["share"] += found["low"] < 0.5 < found["high"]
    assert min(held.values()) >= 368, held


def certain(n: int, options: int) -> list[list[float]]:
    return [np.eye(options)[0].tolist()] * n


DEGENERATE = {
    "all right": predictions(certain(20, 3), gold=[0] * 20),
    "all wrong": predictions(certain(20, 3), gold=[1] * 20),
    "one class": predictions([[0.6, 0.4]] * 20, gold=[0] * 20, kind="noul"),
    "ties": predictions([[0.25] * 4] * 8, gold=[0, 1, 2, 3] * 2),
    "tied labels": predictions([[0.5, 0.5]] * 4, [[0.5, 0.5]] * 4),
    "n=1": predictions([[0.3, 0.7]], gold=[1]),
    "n=1 score": predictions([[0.3, 0.7]], gold=[1], kind="score"),
    "one option": predictions([[1.0]] * 3, gold=[0] * 3),
    "one level": predictions([[1.0]] * 3, gold=[0] * 3, kind="score"),
    "0 and 1": predictions([[0.0, 1.0], [1.0, 0.0]], gold=[0, 0], kind="noul"),
    "255 options": simulated(30, options=255),
    "one group": simulated(10, group=["g"] * 10),
    "mixed widths": pd.concat([simulated(5, options=2, kind="noul"), simulated(5, options=255)]),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_input_gives_finite_numbers_or_null(name: str) -> None:
    found = compute(DEGENERATE[name])
    json.dumps(found, allow_nan=False)
    assert set(found) <= set(DEFINITIONS)
    for entry in found.values():
        if entry["low"] is not None:
            assert entry["low"] - 1e-12 <= entry["value"] <= entry["high"] + 1e-12


CERTAIN_AND_WRONG = -np.log(1e-15)
AUROCS = [f"auroc_{name}" for name in scores.CONFIDENCES]
COLUMNS = ("accuracy", "nll", "brier", "total_variation", "confidence_gap", "ece", "aurc")
CLOSED: dict[str, tuple[float | None, ...]] = {
    "all right": (1, 0, 0, 0, 0, 0, 0),
    "all wrong": (0, CERTAIN_AND_WRONG, 2, 1, 1, 1, 1),
    "one class": (1, -np.log(0.6), 0.32, 0.4, -0.4, 0.4, 0),
    "ties": (0.25, np.log(4), 0.75, 0.75, 0, 0, 0.75),  # the first option is the answer
    "tied labels": (None, np.log(2), 0, 0, None, None, None),  # no gold answer
    "n=1": (1, -np.log(0.7), 0.18, 0.3, -0.3, 0.3, 0),
    "n=1 score": (1, -np.log(0.7), 0.18, 0.3, -0.3, 0.3, 0),
    "one option": (1, 0, 0, 0, 0, 0, 0),
    "one level": (1, 0, 0, 0, 0, 0, 0),
    "0 and 1": (0.5, CERTAIN_AND_WRONG / 2, 1, 0.5, 0.5, 0.5, 0.5),
}
"""Case → its values by hand; `ece` is of both numbers of bins."""
FURTHER: dict[str, dict[str, float]] = {
    "ties": dict.fromkeys(AUROCS, 0.5),  # equal confidences say nothing
    "tied labels": {"ece_10_soft": 0, "ece_15_soft": 0},
    "n=1 score": {"mae_level": 0.3, "rps": 0.09},
    "one level": {"mae_level": 0, "rps": 0},
    "0 and 1": dict.fromkeys(AUROCS, 0.5),
}

BY_LIBRARY = ("255 options", "one group", "mixed widths")


def test_every_degenerate_case_has_its_values() -> None:
    assert {*CLOSED, *BY_LIBRARY} == set(DEGENERATE)


@pytest.mark.parametrize("name", CLOSED)
def test_degenerate_input_against_closed_forms(name: str) -> None:
    found = compute(DEGENERATE[name])
    expected = dict(zip(COLUMNS, CLOSED[name], strict=True))
    expected["ece_10"] = expected["ece_15"] = expected.pop("ece")
    expected |= dict.fromkeys(AUROCS) | FURTHER.get(name, {})
    assert set(found) == set(expected)
    for key, value in expected.items():
        assert found[key]["value"] == (value if value is None else pytest.approx(value, abs=1e-12))
    n, accuracy = found["accuracy"]["n"], found["accuracy"]
    if n:
        interval = proportion_confint(accuracy["value"] * n, n, method="wilson")
        assert (accuracy["low"], accuracy["high"]) == pytest.approx(interval, abs=1e-12)
    if n == 1:
        assert found["nll"]["low"] is None


@pytest.mark.parametrize("name", BY_LIBRARY)
def test_degenerate_input_against_libraries(name: str) -> None:
    frame = DEGENERATE[name]
    found, gold = compute(frame), frame["gold"].to_numpy()
    width = max(map(len, frame["probabilities"]))
    p = np.array([row + [0.0] * (width - len(row)) for row in frame["probabilities"]])
    every, top = list(range(width)), p.max(axis=1)
    right = p.argmax(axis=1) == gold
    order = np.argsort(-np.array([scores.wire_confidence(items(frame))]).ravel(), kind="stable")
    risk = np.cumsum(~right[order]) / np.arange(1, len(right) + 1)
    expected = {
        "accuracy": accuracy_score(gold, p.argmax(axis=1)),
        "nll": log_loss(gold, p, labels=every),
        "brier": brier_score_loss(gold, p, labels=every, scale_by_half=False),
        "total_variation": np.mean(1 - p[np.arange(len(p)), gold]),
        "confidence_gap": top.mean() - right.mean(),
        "aurc": risk.mean(),
        "auroc_max": roc_auc_score(right, top),
    }
    for bins in (10, 15):
        ece = MulticlassCalibrationError(num_classes=width, n_bins=bins, norm="l1")
        expected[f"ece_{bins}"] = ece(torch.tensor(p), torch.tensor(gold)).item()
    for key, value in expected.items():
        assert found[key]["value"] == pytest.approx(value, abs=1e-6), key
    if name == "one group":  # one draw of the sampling unit: nothing to say about its spread
        assert found["nll"]["low"] is found["brier"]["low"] is None


def test_every_definition_is_one_line_and_names_its_bins() -> None:
    assert all("\n" not in line for line in DEFINITIONS.values())
    assert "10 equal-width bins" in DEFINITIONS["ece_10"]
    assert "15 equal-width bins" in DEFINITIONS["ece_15"]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60), st.integers(1, 6), st.integers(0, 10_000))
def test_any_frame_gives_json_inside_its_bounds(n: int, options: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, t = (softmax(rng.normal(0, 3, (n, options))) for _ in range(2))
    found = compute(predictions(p, t, kind="score", group=rng.integers(0, 5, n).astype(str)))
    json.dumps(found, allow_nan=False)
    bounds = {
        "accuracy": 1,
        "brier": 2,
        "total_variation": 1,
        "ece_10": 1,
        "ece_15_soft": 1,
        "rps": 1,
    }
    for name, high in bounds.items():
        value = found[name]["value"] if name in found else None
        assert value is None or 0 <= value <= high + 1e-9
    assert found["nll"]["value"] >= found["nll"]["target_entropy"] - 1e-9


def test_same_seed_same_numbers() -> None:
    frame = simulated(100)
    assert compute(frame, seed=3) == compute(frame, seed=3)


def test_four_thousand_rows_in_four_orders_take_under_two_seconds() -> None:
    frame = simulated(4000, options=4)
    orders = [[row] * 4 for row in frame["probabilities"]]
    keys = [[names] * 4 for names in frame["keys"]]
    frame = changed(frame, order_probabilities=orders, order_keys=keys, described=False)
    compute(frame.head(10))  # imports
    start = time.process_time()
    compute(frame)
    compute_by(frame, "type")
    assert time.process_time() - start < 4.0  # twice the same work
