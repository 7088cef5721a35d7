"""Position prior: planted place effects come back, and the declared order cannot reach an answer."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflex.calibration.apply import apply
from reflex.calibration.errors import report_error
from reflex.calibration.prior import content_free_questions, count_key, exact_key, fit_prior
from reflex.calibration.temperature import Temperature
from reflex.contract import parse_question
from reflex.errors import CalibrationError
from reflex.metrics import compute
from tests.calibration_frames import frame, row_of


@settings(max_examples=20, deadline=None)
@given(
    places=st.lists(st.floats(-3, 3), min_size=2, max_size=6),
    orders=st.integers(2, 5),
    seed=st.integers(0, 100),
)
def test_planted_place_effects_come_back(places: list[float], orders: int, seed: int) -> None:
    """Exactly, whichever orders were drawn: what options are worth cancels."""
    keys = [f"k{i}" for i in range(len(places))]
    rows = frame(40, keys=keys, orders=orders, places=places, seed=seed)
    prior = fit_prior(rows, "permuted")
    found = prior.places("choice", "label_tokens", keys)
    assert found == pytest.approx(np.array(places) - np.mean(places), abs=1e-6)


def test_the_place_effect_of_an_option_set_does_not_depend_on_how_it_is_declared() -> None:
    rows = frame(60, keys=("b", "a", "c"), orders=3, places=(1.0, 0.0, -1.0))
    prior = fit_prior(rows, "permuted")
    vectors = [
        prior.places("choice", "label_tokens", order) for order in itertools.permutations("abc")
    ]
    assert all((vector == vectors[0]).all() for vector in vectors if vector is not None)
    assert vectors[0] == pytest.approx([1.0, 0.0, -1.0], abs=1e-6)
    assert exact_key("choice", "r", ["b", "a"]) == exact_key("choice", "r", ["a", "b"])
    # Other options of the same number share the estimate by number; other numbers and readouts do not.
    assert prior.places("choice", "label_tokens", ("x", "y", "z")) == pytest.approx(
        [1, 0, -1], abs=1e-6
    )
    assert prior.places("choice", "label_tokens", ("x", "y")) is None
    assert prior.places("noul", "label_tokens", ("x", "y", "z")) is None


def test_few_rows_fall_back_to_the_number_of_options() -> None:
    common = frame(30, keys=("a", "b"), orders=2, places=(0.5, -0.5))
    rare = frame(5, keys=("c", "d"), orders=2, places=(2.0, -2.0), seed=1)
    prior = fit_prior(pd.concat([common, rare], ignore_index=True), "permuted", min_rows=20)
    assert list(prior.exact) == [exact_key("choice", "label_tokens", ("a", "b"))]
    shared = prior.places("choice", "label_tokens", ("c", "d"))
    assert shared == pytest.approx(prior.by_count[count_key("choice", "label_tokens", 2)])
    assert prior.n[count_key("choice", "label_tokens", 2)] == 35


def declared_in_every_order(prior, n: int = 60, seed: int = 5) -> list[int]:
    """The same items with three options declared in each of the six orders, read once;
    how many items change their answer: before and after the correction."""
    rng = np.random.default_rng(seed)
    places = np.array([1.2, 0.0, -0.8])
    flips = [0, 0]
    for _ in range(n):
        worth = dict(zip("abc", rng.normal(size=3), strict=True))
        answers: list[set[str]] = [set(), set()]
        for order in itertools.permutations("abc"):
            noise = rng.normal(size=3) * 0.05
            scores = [[worth[key] + places[i] + noise[i] for i, key in enumerate(order)]]
            corrected = prior.adjust("choice", "label_tokens", order, [order], scores)
            for version, row in enumerate((scores[0], corrected[0])):
                answers[version].add(order[int(np.argmax(row))])
        for version in (0, 1):
            flips[version] += len(answers[version]) > 1
    return flips


def test_correction_brings_flips_down_and_never_up() -> None:
    planted = (1.2, 0.0, -0.8)
    by_rotations = fit_prior(frame(60, keys=tuple("abc"), orders=3, places=planted), "permuted")
    before, after = declared_in_every_order(by_rotations)
    assert before > 30
    assert after < 10
    # An estimate from rows that were all declared in one order is no different.
    rows = frame(200, keys=tuple("cab"), orders=3, places=planted, noise=0.3, seed=2)
    before, after = declared_in_every_order(fit_prior(rows, "permuted"))
    assert after < 10 < before


def test_strength_scales_what_is_taken_out() -> None:
    rows = frame(60, keys=("a", "b"), orders=2, places=(1.0, -1.0))
    half = fit_prior(rows, "permuted", strength=0.5)
    (row,) = half.adjust("choice", "label_tokens", ("a", "b"), [("b", "a")], [[1.0, 1.0]])
    assert row == pytest.approx([0.5, 1.5], abs=1e-6)


def test_one_order_cannot_tell_places_from_options() -> None:
    with pytest.raises(CalibrationError, match="no question was read in two orders"):
        fit_prior(frame(60), "permuted")
    digits = [list("012345678")] * 2
    scale = [
        row_of(f"i{i}", "noul", "rating", ["true", "false"], [1, 0], digits, [[0.0] * 9] * 2)
        for i in range(30)
    ]
    with pytest.raises(CalibrationError, match="two orders"):  # a scale has no places
        fit_prior(pd.DataFrame(scale), "permuted")


def test_a_prior_leaves_a_rating_alone() -> None:
    prior = fit_prior(frame(60, keys=("true", "false"), kind="noul", orders=2), "permuted")
    digits = [tuple("012345678")]
    scores = [[float(i) for i in range(9)]]
    assert prior.adjust("noul", "rating", ("true", "false"), digits, scores) is scores


def test_prior_and_temperature_are_fitted_together() -> None:
    rows = frame(300, temperature=3.0, orders=2, places=(2, 0, 0, -2), hard=False)
    plain = Temperature(buckets="global").fit(rows)
    both = Temperature(buckets="global", prior="permuted").fit(rows)
    assert both.temperatures["all"] == pytest.approx(3.0, rel=1e-3)
    assert both.errors["fitted"]["nll"] < plain.errors["fitted"]["nll"]
    fresh = frame(200, temperature=3.0, orders=2, places=(2, 0, 0, -2), split="report", seed=9)
    before, after = (compute(apply(fresh, each)) for each in (plain, both))
    assert after["flip_rate"]["value"] < before["flip_rate"]["value"]
    assert after["flip_rate"]["value"] == 0
    alone = Temperature(buckets="none", prior="permuted").fit(rows)
    assert alone.temperatures == {}
    assert alone.temperature("choice", "label_tokens", 4) == (1.0, None)


def test_the_error_before_is_of_the_scores_as_they_were_read() -> None:
    rows = frame(300, orders=2, places=(2, 0, 0, -2))
    plain, both = (
        Temperature(buckets="global", prior=prior).fit(rows) for prior in ("none", "permuted")
    )
    assert both.errors["raw"] == plain.errors["raw"] == report_error(rows, both)["raw"]
    assert both.errors["fitted"] == report_error(rows, both)["fitted"]
    assert {"in_family", "left_out"} <= set(plain.errors)
    # The prior was estimated on these very rows: no fold and no family is held out from it.
    assert set(both.errors) == {"raw", "fitted"}
    assert "left_out" not in Temperature(buckets="none").fit(rows).errors  # nothing was fitted
    assert both.errors["fitted"]["nll"] < plain.errors["fitted"]["nll"]


def test_content_free_questions_are_distinct_and_sorted() -> None:
    def choice(*names: str):
        raw = {"type": "choice", "instructions": "?", "criteria": dict.fromkeys(names)}
        return parse_question(raw)

    noul = parse_question({"type": "noul", "instructions": "Is it?"})
    found = content_free_questions(
        [
            ("q", choice("b", "a")),
            ("q", choice("a", "b")),
            ("n", noul),
            ("m", noul),
            ("q", choice("a", "c")),
        ]
    )
    assert len(found) == 3
    orders = [list(raw["criteria"]) for _, raw in found if raw["type"] == "choice"]
    assert sorted(orders) == [["a", "b"], ["a", "c"]]
    # Declared the other way round, the very same questions are asked.
    again = content_free_questions([("q", choice("a", "b")), ("q", choice("c", "a")), ("n", noul)])
    assert again == found
