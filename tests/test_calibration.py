"""Temperatures: planted ones come back, the minimiser finds what brute force finds, buckets fall back."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflex.calibration import fitted
from reflex.calibration.apply import apply
from reflex.calibration.buckets import band, chain
from reflex.calibration.fit import fit
from reflex.calibration.minimise import HIGH, LOW, Landscape, family_weights
from reflex.calibration.none import NoCalibration
from reflex.calibration.scored import pack
from reflex.calibration.temperature import Temperature
from reflex.errors import CalibrationError, ConfigError
from reflex.metrics import compute
from tests.calibration_frames import frame, row_of


@pytest.mark.parametrize("planted", [0.3, 1.0, 1.7, 5.0])
def test_a_planted_temperature_comes_back(planted: float) -> None:
    exact = fit(frame(300, temperature=planted, hard=False), rule="global")
    assert exact.temperatures["all"] == pytest.approx(planted, rel=1e-4)
    # Hard labels: the estimate has sampling error, about 1 % here.
    drawn = fit(frame(12_000, temperature=planted, seed=3), rule="global")
    assert drawn.temperatures["all"] == pytest.approx(planted, rel=0.02)


def test_a_planted_temperature_comes_back_through_several_orders() -> None:
    rows = frame(300, temperature=2.5, orders=4, hard=False)
    assert fit(rows, rule="global").temperatures["all"] == pytest.approx(2.5, rel=1e-4)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    orders=st.integers(1, 3),
    noise=st.floats(0, 4),
    temperature=st.floats(0.05, 15),
)
def test_the_minimiser_finds_what_brute_force_finds(
    seed: int, orders: int, noise: float, temperature: float
) -> None:
    """Noise between orders makes merged NLLs with several valleys possible."""
    rows = frame(40, temperature=temperature, orders=orders, noise=noise, seed=seed)
    scored = pack(rows)
    found = Landscape(scored).best(np.ones(40))
    brute = min(float(scored.nll(math.exp(t)).mean()) for t in np.linspace(LOW, HIGH, 1500))
    assert found.nll <= brute + 1e-6


def test_nll_through_the_merge_is_the_metric_of_what_is_served() -> None:
    rows = pd.concat(
        [
            frame(30, orders=3, noise=1.0),
            frame(20, kind="noul", keys=("true", "false"), orders=2, seed=1),
            frame(20, kind="score", keys=tuple("01234"), hard=False, seed=2),
        ],
        ignore_index=True,
    )
    calibration = fit(rows, rule="type", min_rows=5)
    served = apply(rows, calibration)
    per_row = [calibration.temperature(kind, "label_tokens", 4)[0] for kind in rows["type"]]
    scored = pack(rows)
    assert scored.nll(np.array(per_row)).mean() == pytest.approx(compute(served)["nll"]["value"])
    assert list(served["bucket"].unique()) == ["choice", "noul", "score"]
    top, right = scored.top(np.array(per_row))
    expected = [max(p) for p, gold in zip(served["probabilities"], served["gold"]) if gold >= 0]
    assert top == pytest.approx(expected)
    assert right.mean() == pytest.approx(compute(served)["accuracy"]["value"])
    untouched = apply(rows, NoCalibration())
    assert untouched["probabilities"].tolist() == rows["probabilities"].tolist()


def test_a_rating_is_fitted_on_its_two_way_distribution() -> None:
    digits = list("012345678")
    rng = np.random.default_rng(0)
    rows = []
    for i in range(400):
        scores = rng.normal(size=9)
        p = np.exp(scores) / np.exp(scores).sum()
        yes = float(p @ (np.arange(9) / 8))
        rows.append(
            row_of(
                f"i{i}",
                "noul",
                "rating",
                ["true", "false"],
                [yes, 1 - yes],
                [digits],
                [(3 * scores).tolist()],
            )
        )
    table = pd.DataFrame(rows)
    calibration = fit(table, rule="type_readout")
    assert calibration.temperatures["noul:rating"] == pytest.approx(3.0, rel=1e-3)
    served = apply(table, calibration)
    assert np.array(served["probabilities"].tolist()) == pytest.approx(
        np.array(table["target"].tolist()), abs=1e-4
    )


def test_bands_and_chains() -> None:
    assert [band(n) for n in (2, 8, 9, 26, 27, 255)] == ["le8"] * 2 + ["le26"] * 2 + ["more"] * 2
    assert chain("type_readout_band", "choice", "label_tokens", 77) == (
        "choice:label_tokens:more",
        "choice:label_tokens",
        "choice",
        "all",
    )
    assert chain("global", "noul", "rating", 2) == ("all",)
    assert chain("none", "noul", "rating", 2) == ()


def test_a_bucket_with_few_rows_uses_its_parent_and_says_so() -> None:
    large = tuple(f"o{i}" for i in range(30))
    rows = pd.concat(
        [
            frame(200, temperature=2.0, hard=False),
            frame(10, temperature=6.0, keys=large, hard=False, seed=1),
        ],
        ignore_index=True,
    )
    found = fit(rows, rule="type_readout_band", min_rows=50)
    small, bucket = found.temperature("choice", "label_tokens", 4)
    assert bucket == "choice:label_tokens:le8"
    assert small == pytest.approx(2.0)
    shared, bucket = found.temperature("choice", "label_tokens", 30)
    assert bucket == "choice:label_tokens"
    assert 2.0 < shared < 6.0
    fallback = found.fallbacks["choice:label_tokens:more"]
    assert fallback == {"to": "choice:label_tokens", "n": 10, "why": "10 rows, 50 are needed"}
    # A bucket nothing was ever seen of goes to its nearest fitted ancestor as well.
    assert found.temperature("noul", "rating", 2)[1] == "all"


def test_too_few_rows_altogether_leave_temperature_one() -> None:
    found = fit(frame(10), rule="type", min_rows=50)
    assert found.temperatures == {}
    assert found.temperature("choice", "label_tokens", 4) == (1.0, None)
    assert "nothing was fitted" in found.warnings[0]


@pytest.mark.parametrize("split", ["report", "test", ""])
def test_rows_of_another_split_are_refused(split: str) -> None:
    rows = pd.concat([frame(60), frame(3, split=split, seed=1)], ignore_index=True)
    with pytest.raises(
        CalibrationError, match=rf"row x-0 \(set-x\) is of split '{split}'.*3 other"
    ):
        fit(rows, rule="global")
    with pytest.raises(CalibrationError, match="no rows of split 'fit'"):
        Temperature().fit(rows.iloc[:0])


def test_family_weights_give_each_family_the_same_total() -> None:
    family = np.array(["a"] * 8 + ["b"] * 2, dtype=object)
    weight = family_weights(family, np.ones(10, dtype=bool))
    assert weight[:8].sum() == pytest.approx(1)
    assert weight[8:].sum() == pytest.approx(1)
    without = family_weights(family, family == "b")
    assert without.tolist() == [0.0] * 8 + [0.5] * 2


def _sizes(big: float, small: float) -> pd.DataFrame:
    """One large family and four small ones, each family with its own temperature."""
    planted = {"big": big, "s1": small, "s2": small, "s3": small, "s4": small}
    parts = [frame(600, temperature=planted, families=("big",), hard=False)]
    for i, name in enumerate(("s1", "s2", "s3", "s4"), 1):
        parts.append(frame(40, temperature=planted, families=(name,), hard=False, seed=i))
    return pd.concat(parts, ignore_index=True)


def test_transfer_picks_the_fit_that_carries_over() -> None:
    # The large family is the odd one out: an unseen family looks like the small ones.
    found = fit(_sizes(big=6.0, small=1.5), rule="global", weighting="transfer")
    detail = found.details["all"]
    assert detail["weighting"] == "families"
    compared = detail["transfer"]
    assert compared["families"]["nll"] < compared["rows"]["nll"]
    assert compared["chosen"] == "families"
    assert 0 <= compared["rows"]["ece_15"] <= 1
    # The other way round: small families that each go their own way, and a large one in the middle.
    planted = {"big": 2.0, "s1": 0.6, "s2": 7.0, "s3": 2.0, "s4": 2.0}
    parts = [frame(600, temperature=planted, families=("big",), hard=False)]
    for i, name in enumerate(("s1", "s2", "s3", "s4"), 1):
        parts.append(frame(40, temperature=planted, families=(name,), hard=False, seed=i))
    other = fit(pd.concat(parts, ignore_index=True), rule="global", weighting="transfer")
    compared = other.details["all"]["transfer"]
    assert compared["rows"]["nll"] < compared["families"]["nll"]
    assert other.details["all"]["weighting"] == "rows"


def test_transfer_needs_three_families() -> None:
    found = fit(frame(100, families=("a", "b")), rule="global", weighting="transfer")
    assert found.details["all"]["transfer"]["chosen"] == "rows"
    assert "2 families, 3 are needed" in found.details["all"]["transfer"]["why"]


def test_errors_in_family_and_left_out_and_the_warning() -> None:
    planted = {"a": 3.0, "b": 3.0, "c": 0.8}
    rows = frame(600, temperature=planted, families=("a", "b", "c"), hard=False)
    found = fit(rows, rule="global")
    errors = found.errors
    assert errors["fitted"]["nll"] < errors["raw"]["nll"]
    assert errors["in_family"]["nll"] == pytest.approx(errors["fitted"]["nll"], abs=0.01)
    assert errors["left_out"]["nll"] > errors["in_family"]["nll"]
    assert (
        errors["left_out"]["families"]["c"]["nll"] > errors["left_out"]["families"]["c"]["nll_raw"]
    )
    (told,) = [w for w in found.warnings if "makes c worse" in w]
    left = found.errors["left_out"]["families"]["c"]
    assert left["low"] <= left["nll"] - left["nll_raw"] <= left["high"]
    assert told.endswith(
        f"(n {left['n']}, 95 % interval of the change {left['low']:+.4f} to {left['high']:+.4f})"
    )
    assert not [w for w in found.warnings if "makes a worse" in w]


def test_an_optimum_at_the_edge_is_said() -> None:
    rows = frame(60, temperature=1.0, hard=True, spread=0.0)  # labels that scores know nothing of
    rows = rows.assign(
        scores=pd.Series([[list(range(4))] for _ in range(60)]),
        target=pd.Series([[1.0, 0.0, 0.0, 0.0]] * 60),
    )
    found = fit(rows, rule="global")
    assert found.temperatures["all"] == pytest.approx(20, rel=1e-3)
    assert "edge" in found.warnings[-1]


def test_four_thousand_rows_in_four_orders_take_seconds() -> None:
    rows = frame(4000, orders=4, noise=0.5, families=tuple("abcdefg"))
    start = time.perf_counter()
    fit(rows, rule="type_readout_band", weighting="transfer")
    assert time.perf_counter() - start < 30  # about 4 s alone on one core


# -- the file -------------------------------------------------------------------------------------

HERE = fitted.identity(
    {"name": "tiny", "weights_sha256": "w", "adapter_sha256": None, "dtype": "float32", "other": 1},
    "prompt",
    {"choice": "label_tokens", "noul": "rating", "score": "label_tokens",
     "label_tokens": {"labels": "letters"}, "rating": {}, "yesno": {"x": 1}},
    {"permutations": 1},
)  # fmt: skip


def test_the_file_comes_back_equal(tmp_path) -> None:
    import json

    made = fit(frame(100), rule="type", weighting="transfer", fitted_on=HERE, min_rows=10)
    (tmp_path / "calibration.json").write_text(json.dumps(made.to_json()))
    assert fitted.read(tmp_path) == made
    assert made.fitted_on["n"] == 100
    assert made.fitted_on["families"] == ["x", "y", "z"]
    config = Temperature(path=str(tmp_path))
    assert config.load(HERE) == made
    assert not config.fits


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"backbone": {**HERE["backbone"], "weights_sha256": "v"}}, "backbone"),
        ({"prompt_hash": "other"}, "prompt"),
        ({"readout": {**HERE["readout"], "noul": "yesno"}}, "readout"),
    ],
)
def test_a_calibration_of_something_else_is_refused_unless_forced(
    tmp_path, caplog, change: dict, word: str
) -> None:
    import json

    made = fit(frame(60), rule="global", fitted_on=HERE)
    path = tmp_path / "c.json"
    path.write_text(json.dumps(made.to_json()))
    with pytest.raises(CalibrationError, match=rf"fitted for another {word}.*force=true"):
        Temperature(path=str(path)).load({**HERE, **change})
    assert Temperature(path=str(path), force=True).load({**HERE, **change}) == made
    assert f"another {word}" in caplog.text


def test_another_dtype_or_order_is_warned_about(tmp_path, caplog) -> None:
    import json

    made = fit(frame(60), rule="global", fitted_on=HERE)
    path = tmp_path / "c.json"
    path.write_text(json.dumps(made.to_json()))
    here = {**HERE, "backbone": {**HERE["backbone"], "dtype": "bfloat16"}}
    assert Temperature(path=str(path)).load(here) == made
    assert "another dtype (float32, here bfloat16)" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "c.json: .*make it again"),
        ('{"schema": 7}', "c.json: schema 7"),
        ('{"schema": 1, "oops": 1}', "c.json: not a calibration"),
        (
            '{"schema": 1, "name": "", "rule": "global", "weighting": "rows", "temperatures": {"all": 0}}',
            r"temperature of 'all' is 0\.0; it must be",
        ),
        (
            '{"schema": 1, "name": "", "rule": "globe", "weighting": "rows", "temperatures": {}}',
            "rule 'globe'",
        ),
        (
            '{"schema": 1, "name": "", "rule": "global", "weighting": "rows", "temperatures": [1.5]}',
            "c.json: not a calibration .temperatures: .*; make it again",
        ),
        (
            '{"schema": 1, "name": "", "rule": "global", "weighting": "", "temperatures": {}, "fitted_on": 3}',
            "c.json: not a calibration .fitted_on: ",
        ),
        (
            '{"schema": 1, "name": "", "rule": "global", "weighting": "", "temperatures": {}, '
            '"prior": {"estimator": "permuted", "exact": [1]}}',
            "c.json: not a calibration .prior.exact: ",
        ),
    ],
)
def test_a_broken_file_is_one_clear_line(tmp_path, text: str, message: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(CalibrationError, match=message):
        fitted.read(path)
    with pytest.raises(CalibrationError, match="cannot be read"):
        fitted.read(tmp_path / "absent.json")


def test_config_mistakes_are_named() -> None:
    mistakes: list[tuple[str, Any]] = [("buckets", "typ"), ("weighting", "row"), ("prior", "yes")]
    strengths = [("prior_strength", value) for value in (math.nan, math.inf, -1.0)]
    for key, value in [*mistakes, ("min_rows", 0), *strengths]:
        with pytest.raises(ConfigError, match=f"calibration.{key}={value}"):
            Temperature(**{key: value})
    with pytest.raises(CalibrationError, match=r"set calibration\.path"):
        Temperature(name="type").load(HERE)
