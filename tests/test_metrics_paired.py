"""Paired comparisons: planted differences are called, planted nulls are not, and every sentence is plain."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, ttest_rel

from reflex.errors import ConfigError, DataError
from reflex.metrics import compare, detectable_accuracy, holm, verdict
from reflex.metrics.paired import judge
from reflex.metrics.resampling import Difference, differences
from tests.test_metrics_frame import predictions, simulated


def planted(n: int, gained: float, lost: float, repeats: int) -> tuple[np.ndarray, np.ndarray]:
    """0/1 correctness (n × repeats) of two models, discordant with the given probabilities."""
    rng = np.random.default_rng(7)
    u = rng.random((n, repeats))
    base = (rng.random((n, repeats)) < 0.6).astype(float)
    a = np.where(u < gained, 0.0, np.where(u < gained + lost, 1.0, base))
    b = np.where(u < gained, 1.0, np.where(u < gained + lost, 0.0, base))
    return a, b


def calls(gained: float, lost: float, repeats: int, group_n: np.ndarray | None = None) -> list[str]:
    a, b = planted(1200, gained, lost, repeats)
    group_n = np.arange(1200) if group_n is None else group_n
    names, higher = [str(repeat) for repeat in range(repeats)], ["higher"] * repeats
    return [judge(found) for found in differences(a, b, group_n, names, higher)]


def test_a_planted_five_points_at_15_percent_discordance_is_called() -> None:
    assert calls(0.10, 0.05, 200).count("better") >= 190
    assert calls(0.05, 0.10, 200).count("worse") >= 190


def test_a_planted_null_is_cannot_tell() -> None:
    assert 370 <= calls(0.075, 0.075, 400).count("cannot tell") < 400


def test_a_planted_null_in_groups_is_cannot_tell() -> None:
    """Each of 300 states asked 4 identical questions: taken as independent, one in three would be called."""
    a, b = planted(300, 0.075, 0.075, 400)
    a, b = np.repeat(a, 4, axis=0), np.repeat(b, 4, axis=0)
    names, higher = [str(repeat) for repeat in range(400)], ["higher"] * 400
    grouped = differences(a, b, np.repeat(np.arange(300), 4), names, higher)
    assert [judge(found) for found in grouped].count("cannot tell") >= 370
    naive = differences(a, b, np.arange(1200), names, higher)
    assert [judge(found) for found in naive].count("cannot tell") < 330


def pair(
    n: int = 1200, gained: float = 0.10, lost: float = 0.05
) -> tuple[pd.DataFrame, pd.DataFrame]:
    a, b = planted(n, gained, lost, 1)
    sure = np.array([[0.3, 0.7], [0.7, 0.3]])
    return tuple(  # type: ignore[return-value]
        predictions(sure[right[:, 0].astype(int)], gold=[0] * n) for right in (a, b)
    )


def test_frames_reach_the_same_decision_as_arrays() -> None:
    a, b = planted(1200, 0.10, 0.05, 1)
    found = compare(*pair(), metric="accuracy", names=("orders=one", "orders=two"))
    expected = differences(a, b, np.arange(1200), ["accuracy"], ["higher"])[0]
    assert found.differences["accuracy"] == expected
    assert found.verdict == "better"
    assert found.sentence.startswith("orders=two is better than orders=one: accuracy +0.0")
    assert "1200 paired answers" in found.sentence


def test_the_bootstrap_agrees_with_the_paired_t_test() -> None:
    one, two = simulated(500, sharpness=1.0), simulated(500, sharpness=1.12)
    found = compare(one, two).differences["nll"]
    delta = [
        np.log(np.take(a, g) / np.take(b, g))
        for a, b, g in zip(one["probabilities"], two["probabilities"], one["gold"], strict=True)
    ]
    test = ttest_rel(delta, np.zeros(500))
    interval = test.confidence_interval()
    assert found.value == pytest.approx(np.mean(delta))
    assert found.p_value == pytest.approx(test.pvalue, abs=0.03)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=0.0015)


def test_mcnemar_is_the_sign_test_when_few_are_discordant() -> None:
    sure = [[0.7, 0.3]] * 30
    other = [[0.3, 0.7]] * 8 + [[0.7, 0.3]] * 22
    found = compare(predictions(sure, gold=[0] * 30), predictions(other, gold=[0] * 30)).mcnemar
    assert (found["gained"], found["lost"], found["exact"]) == (0, 8, True)
    assert found["p_value"] == pytest.approx(binomtest(8, 8).pvalue)


@pytest.mark.parametrize(
    ("gained", "lost", "called"),
    [(4, 0, "cannot tell"), (5, 0, "cannot tell"), (6, 0, "better"), (1, 8, "worse")],
)
def test_a_few_answers_that_changed_claim_no_more_than_the_exact_test(
    gained: int, lost: int, called: str
) -> None:
    """Resampling four gains never shows a loss: alone it would call them."""
    right, wrong = [0.7, 0.3], [0.3, 0.7]
    before = [wrong] * gained + [right] * (300 - gained)
    after = [right] * (300 - lost) + [wrong] * lost
    gold = [0] * 300
    found = compare(
        predictions(before, gold=gold), predictions(after, gold=gold), metric="accuracy"
    )
    assert found.verdict == called
    one = found.differences["accuracy"]
    assert one.p_value is not None
    assert one.p_value >= found.mcnemar["p_value"] == binomtest(gained, gained + lost).pvalue
    assert one.low is not None
    assert one.high is not None
    assert (one.low <= 0 <= one.high) == (one.p_value > 0.05)
    assert not one.p_at_most


def test_mcnemar_chi_squared_when_many_are() -> None:
    found = compare(*pair()).mcnemar
    gained, lost = found["gained"], found["lost"]
    assert not found["exact"]
    exact = binomtest(gained, gained + lost).pvalue
    assert found["p_value"] == pytest.approx(exact, rel=0.25)


def test_only_common_items_count_and_row_order_does_not() -> None:
    one, two = simulated(300), simulated(300, sharpness=2.0)
    found = compare(one.iloc[:250], two.iloc[100:].sample(frac=1, random_state=0))
    assert (found.n, found.dropped_baseline, found.dropped_candidate) == (150, 100, 50)
    same = compare(one.iloc[100:250], two.iloc[100:250])
    assert found.differences == same.differences


def test_identical_runs_cannot_be_told_apart() -> None:
    frame = simulated(100)
    found = compare(frame, frame)
    assert found.verdict == "cannot tell"
    assert all(each.value == 0 and each.p_value == 1 for each in found.differences.values())


@pytest.mark.parametrize("n", [1, 2, 9])
def test_few_groups_never_carry_a_verdict(n: int) -> None:
    found = compare(simulated(n), simulated(n, sharpness=5.0))
    assert found.verdict == "cannot tell"
    assert "too few for an interval" in found.sentence


def test_tied_labels_only() -> None:
    frame = predictions([[0.6, 0.4]] * 20, [[0.5, 0.5]] * 20)
    found = compare(frame, frame, metric="accuracy")
    assert found.differences["accuracy"].value is None
    assert "no common answer can be scored" in found.sentence


def test_the_margin_moves_the_verdict() -> None:
    one, two = pair()
    gain = compare(one, two).differences["accuracy"]
    assert gain.low is not None
    assert judge(gain, gain.low - 0.005) == "better"
    assert judge(gain, gain.low + 0.005) == "cannot tell"
    wide = compare(one, two, metric="accuracy", margin=0.2)
    assert wide.sentence.endswith("any difference is smaller than the margin.")


def test_incomparable_runs_are_refused() -> None:
    frame = simulated(20)
    with pytest.raises(DataError, match="different labels for item00000 / q"):
        compare(
            frame,
            predictions(frame["probabilities"].tolist(), gold=[(g + 1) % 4 for g in frame["gold"]]),
        )
    with pytest.raises(DataError, match="different options"):
        compare(frame, simulated(20, options=3))
    with pytest.raises(DataError, match="no item in common"):
        compare(frame, frame.assign(item_id=[f"x{index}" for index in range(20)]))
    with pytest.raises(DataError, match="holds item00003 / q twice"):
        compare(frame, pd.concat([frame, frame.iloc[3:4]]))
    with pytest.raises(DataError, match="no rows"):
        compare(frame, frame.iloc[:0])
    with pytest.raises(DataError, match="'ece_10' is not one of nll, brier, accuracy"):
        compare(frame, frame, metric="ece_10")


def test_holm_by_hand() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06}
    )
    assert holm({}) == {}


def test_the_smallest_detectable_difference_is_found_in_80_percent_of_cases() -> None:
    delta = detectable_accuracy(0.15, 1200)
    assert delta is not None
    assert delta == pytest.approx(0.0312, abs=0.0005)
    a, b = planted(1200, 0.075 + delta / 2, 0.075 - delta / 2, 1500)
    gained, lost = ((b - a) == 1).sum(axis=0), ((b - a) == -1).sum(axis=0)
    power = (np.abs(gained - lost) / np.sqrt(gained + lost) > 1.96).mean()
    assert power == pytest.approx(0.80, abs=0.035)
    assert detectable_accuracy(0.0, 1200) is None
    assert detectable_accuracy(0.001, 1200) is None  # one discordant row proves nothing


@pytest.mark.parametrize(
    ("groups", "comparisons", "margin"), [(10, 1, 0.0), (24, 5, 0.5), (400, 5, 0.5)]
)
def test_what_a_page_calls_detectable_is_found_in_80_percent_of_cases(
    groups: int, comparisons: int, margin: float
) -> None:
    rng = np.random.default_rng(groups)
    noise = rng.normal(size=(groups, 500))

    def found(shift: float) -> list[Difference]:
        names, higher = [str(n) for n in range(500)], ["higher"] * 500
        return differences(noise * 0, noise + shift, np.arange(groups), names, higher)

    sizes = [each.detectable_of(comparisons, margin) for each in found(0.0)]
    shift = float(np.mean([size for size in sizes if size is not None]))
    called = [each.p_beyond(margin)[0] <= 0.05 / comparisons for each in found(shift)]
    assert np.mean(called) == pytest.approx(0.8, abs=0.07)


BLOCK: dict[str, Any] = {
    "metric": "accuracy",
    "baseline": "orders=one",
    "candidates": ["orders=two", "orders=four"],
    "margin": 0.0,
    "comparison": "paired_bootstrap",
}


def against_one(*frames: pd.DataFrame) -> dict[str, Any]:
    one = pair()[0]
    return {
        name: compare(one, frame, names=("orders=one", name))
        for name, frame in zip(BLOCK["candidates"], frames, strict=False)
    }


def test_one_better_candidate_decides() -> None:
    one, two = pair()
    found = verdict(BLOCK, against_one(two, one))
    assert found["verdict"] == "better"
    assert found["details"]["orders=two"]["verdict"] == "better"
    assert found["details"]["orders=four"]["verdict"] == "cannot tell"
    assert "orders=two is better than orders=one" in found["sentence"]
    json.dumps(found, allow_nan=False)


def test_worse_needs_every_candidate_to_be_worse() -> None:
    one = pair()[0]
    bad = predictions([[0.3, 0.7]] * 1200, gold=[0] * 1200)
    assert verdict(BLOCK, against_one(bad, bad))["verdict"] == "worse"
    assert verdict(BLOCK, against_one(bad, one))["verdict"] == "cannot tell"


def test_a_failed_cell_is_missing_and_decides_nothing() -> None:
    found = verdict(BLOCK, against_one(pair()[1]))
    assert found["verdict"] == "better"
    assert found["details"]["orders=four"]["verdict"] == "missing"
    assert verdict(BLOCK, {})["verdict"] == "cannot tell"


def test_holm_can_take_a_call_back_and_the_sentence_says_so() -> None:
    weak = None
    for lost in range(44, 56):  # a difference that alone would just be called
        delta = np.zeros((1200, 1))
        delta[:70], delta[70 : 70 + lost] = 1, -1
        one = differences(np.zeros((1200, 1)), delta, np.arange(1200), ["accuracy"], ["higher"])[0]
        if 0.03 < (one.p_value or 0) < 0.05:
            weak = one
            break
    assert isinstance(weak, Difference)
    both = against_one(*[pair()[0]] * 2)
    for comparison in both.values():
        comparison.differences["accuracy"] = weak
    found = verdict(BLOCK, both)
    assert found["verdict"] == "cannot tell"
    assert "after Holm's correction for 2" in found["sentence"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"metric": "ece_10"}, "verdict.metric: 'ece_10' is not one of"),
        ({"comparison": "t_test"}, "verdict.comparison: 't_test'"),
        ({"margin": -1}, "verdict.margin: -1"),
        ({"margin": "wide"}, "verdict.margin: 'wide'"),
        ({"candidates": []}, "verdict.candidates: missing"),
        ({"candidates": "orders=two"}, "give a list"),
        ({"candidates": ["a", "a"]}, "named twice"),
        ({"metrics": "nll"}, "verdict.metrics: unknown key"),
        ({"comparison": "mcnemar"}, "verdict.comparison: 'mcnemar' is not one of paired_bootstrap"),
    ],
)
def test_a_block_that_cannot_be_applied_names_its_key(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        verdict({**BLOCK, **change}, {})


def test_comparisons_with_another_baseline_are_refused() -> None:
    one, two = pair()
    with pytest.raises(
        ConfigError, match=r"verdict.baseline: 'orders=two' was compared with 'other'"
    ):
        verdict(BLOCK, {"orders=two": compare(one, two, names=("other", "orders=two"))})
