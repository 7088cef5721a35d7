"""ECE and its companions: plug-in against torchmetrics, reference and debiased against simulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torchmetrics.classification import MulticlassCalibrationError

from reflex.metrics import calibrated_test, compute, reliability
from reflex.metrics.ece import Binned, bin_index, ece, scored
from reflex.metrics.frame import items
from tests.test_metrics_frame import predictions, simulated


@pytest.mark.parametrize("bins", [10, 15])
@pytest.mark.parametrize("sharpness", [1.0, 2.0])
def test_plug_in_ece_equals_torchmetrics(bins: int, sharpness: float) -> None:
    frame = simulated(700, options=5, seed=2, sharpness=sharpness)
    theirs = MulticlassCalibrationError(num_classes=5, n_bins=bins, norm="l1")(
        torch.tensor(frame["probabilities"].tolist()), torch.tensor(frame["gold"].to_numpy())
    )
    assert compute(frame)[f"ece_{bins}"]["value"] == pytest.approx(float(theirs), abs=1e-5)


def test_bins_are_closed_on_the_left_and_the_last_one_on_both_sides() -> None:
    confidence = np.array([0.0, 0.1, 0.3, 0.3 - 1e-12, 0.7, 0.9, 1.0])
    assert bin_index(confidence, 10).tolist() == [0, 1, 3, 2, 7, 9, 9]


def test_noul_is_judged_on_its_larger_side() -> None:
    found = compute(predictions([[0.2, 0.8]] * 10, gold=[1] * 10, kind="noul"))
    assert found["ece_10"]["value"] == pytest.approx(0.2)


def test_the_reference_is_what_calibrated_models_show() -> None:
    """The reference of one calibrated sample against plug-in values of many other ones."""
    seen = [compute_ece(seed) for seed in range(200)]
    entry = compute(simulated(300, seed=0))["ece_15"]
    assert entry["reference_mean"] == pytest.approx(np.mean(seen), rel=0.08)
    assert entry["reference_high"] == pytest.approx(np.quantile(seen, 0.95), rel=0.12)
    assert entry["low"] is None
    assert entry["high"] is None


def compute_ece(seed: int) -> float:
    return Binned(*scored(items(simulated(300, seed=seed))), 15).ece


def test_the_debiased_estimate_is_nearer_the_truth_than_the_plug_in() -> None:
    plug_in, debiased = [], []
    for seed in range(150):
        binned = Binned(*scored(items(simulated(200, seed=seed))), 15)
        plug_in.append(binned.ece)
        debiased.append(binned.debiased())
    assert np.mean(plug_in) > 0.06
    assert np.mean(debiased) < 0.03


def test_the_debiased_estimate_keeps_a_real_error() -> None:
    truth = Binned(*scored(items(simulated(100_000, seed=9, sharpness=2.0))), 15).ece
    found = [
        Binned(*scored(items(simulated(400, seed=seed, sharpness=2.0))), 15).debiased()
        for seed in range(60)
    ]
    assert np.mean(found) == pytest.approx(truth, abs=0.012)


def test_a_calibrated_model_is_called_miscalibrated_in_at_most_7_percent_of_400() -> None:
    called = sum(
        calibrated_test(simulated(250, seed=seed), seed=seed)["p_value"] < 0.05
        for seed in range(400)
    )
    assert called <= 28
    assert called >= 4  # a test that never speaks would pass the line above


def test_an_overconfident_model_is_called_miscalibrated() -> None:
    found = calibrated_test(simulated(1000, sharpness=1.6))
    assert found["p_value"] < 0.01
    assert found["value"] > found["reference_high"]


def test_soft_labels_a_model_that_says_what_the_raters_say_is_calibrated_to_them() -> None:
    """Seven raters in ten say yes, and so does the model: ECE against the majority answer calls that
    .3 too timid, the soft one calls it right."""
    found = compute(predictions([[0.7, 0.3]] * 50, [[0.7, 0.3]] * 50, kind="noul"))
    assert found["ece_10"]["value"] == pytest.approx(0.3)
    assert found["ece_10_soft"]["value"] == pytest.approx(0.0, abs=1e-12)
    assert "ece_10_soft" not in compute(simulated(20))


def test_soft_reference_has_the_right_level() -> None:
    """Shares of ten raters drawn from the stated probability: rejected about once in twenty."""
    called = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        stated = rng.uniform(0.5, 0.95, 150)
        share = rng.binomial(10, stated) / 10
        entry = ece(stated, share, 10, rng)
        called += entry["p_value"] < 0.05
    assert called <= 18


def test_one_divided_label_does_not_widen_what_chance_would_show() -> None:
    """200 answers of .95, half of them right: what a calibrated model would show there stays what it is when one
    of the labels is divided, and when shares of raters are far off, only their spread counts."""
    stated, right = np.full(200, 0.95), np.tile([1.0, 0.0], 100)
    one = right.copy()
    one[0] = 0.5
    rng = np.random.default_rng
    hard, mixed = (ece(stated, outcome, 10, rng(0)) for outcome in (right, one))
    assert mixed["reference_mean"] == pytest.approx(hard["reference_mean"], rel=0.1)
    assert mixed["reference_high"] == pytest.approx(hard["reference_high"], rel=0.1)
    shares = np.random.default_rng(1).binomial(10, 0.6, 200) / 10
    near, far = (ece(np.full(200, p), shares, 10, rng(0)) for p in (0.6, 0.95))
    assert far["reference_mean"] == pytest.approx(near["reference_mean"], rel=0.15)
    assert far["p_value"] == pytest.approx(1 / 1001)


def test_reliability_table_adds_up() -> None:
    frame = simulated(600, sharpness=1.5)
    table = reliability(frame, bins=10)
    assert table["n"].sum() == 600
    gap = (table["n"] * (table["accuracy"] - table["confidence"]).abs()).sum() / 600
    assert gap == pytest.approx(compute(frame)["ece_10"]["value"])
    assert ((table["left"] <= table["confidence"]) & (table["confidence"] <= table["right"])).all()
    assert ((table["low"] <= table["accuracy"]) & (table["accuracy"] <= table["high"])).all()
    assert not table.isna().any().any()
    inside = table["confidence"].between(
        table["reference_low"] - 0.02, table["reference_high"] + 0.02
    )
    assert inside.all()


def test_without_a_unique_gold_answer_there_is_nothing_to_calibrate() -> None:
    frame = predictions([[0.5, 0.5]] * 3, [[0.5, 0.5]] * 3)
    assert calibrated_test(frame)["p_value"] is None
    assert reliability(frame).empty
