"""What stands beside the figures of a page: the uniform answer, times that do not compare, limits, means."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reflex.metrics.intervals import mean_interval
from reflex.reporting.comparisons import judge_sweep
from reflex.reporting.context import (
    at_the_limit,
    below_uniform,
    cost_caution,
    nothing_known,
    tied_text,
    uniform,
    uniform_text,
)
from reflex.reporting.experiments import Experiment
from reflex.reporting.page import page_sections
from reflex.reporting.sources import mean_ece_text
from reflex.reporting.sweep import Sweep, group_sweeps
from reflex.reporting.tables import differing_axes
from reflex.tracking.record import Found, find_records, write_record
from tests.fake_records import fake_predictions, fake_record


def cells(tmp_path: Path, *frames: pd.DataFrame, **changes: Any) -> list[Found]:
    """One finished cell a frame; `changes` hold a list with one value for each."""
    names = ("one", "two", "four")
    for index, frame in enumerate(frames):
        own = {key: values[index] for key, values in changes.items()}
        record = fake_record(names[index], frame, **own)
        write_record(tmp_path / record.hash[:16], record, frame)
    found = find_records(tmp_path).found
    return sorted(found, key=lambda cell: names.index(cell.record.axes["orders"]))


def two_rows() -> pd.DataFrame:
    """A yes/no question with one gold answer, and a choice of three whose label is split evenly over two."""
    targets: list[Any] = [[1.0, 0.0], [0.5, 0.5, 0.0]]
    return fake_predictions(1).iloc[:2].assign(target=targets, gold=[0, -1])


def test_the_uniform_answer_by_hand(tmp_path: Path) -> None:
    (cell,) = cells(tmp_path, two_rows())
    found = uniform(cell)
    assert (found.accuracy, found.n, found.scored) == (0.5, 2, 1)  # the tied label is left out
    assert found.nll == pytest.approx((math.log(2) + math.log(3)) / 2)
    brier = (2 * 0.25 + 2 * (1 / 6) ** 2 + (1 / 3) ** 2) / 2
    assert found.brier == pytest.approx(brier)
    assert "accuracy 0.5000 expected, NLL 0.8959" in uniform_text([cell])
    assert uniform_text([cell]).endswith("on these rows (n 2, 1 with one gold answer).")


def test_cells_on_the_same_rows_share_one_sentence(tmp_path: Path) -> None:
    same = cells(tmp_path, fake_predictions(4), fake_predictions(4, seed=1))
    assert len(uniform_text(same).splitlines()) == 1


def test_a_cell_that_knows_less_than_nothing_is_named_beside_the_verdict(tmp_path: Path) -> None:
    found = cells(tmp_path, fake_predictions(30, quality=-2.0), fake_predictions(30, quality=3.0))
    sweep: Sweep = group_sweeps(found)[-1]
    (line,) = below_uniform(judge_sweep(sweep))
    said = "Not shown to be better in NLL than every option equally likely: orders=one +"
    assert line.startswith(said)
    assert line.endswith(", worse).")
    assert "orders=two" not in line
    (judged,) = judge_sweep(sweep)
    assert not nothing_known(judged)
    poor = [fake_predictions(30, quality=-2.0, seed=seed) for seed in (0, 1)]
    (judged,) = judge_sweep(group_sweeps(cells(tmp_path / "poor", *poor))[-1])
    assert nothing_known(judged)
    good = cells(tmp_path / "good", fake_predictions(30, quality=3.0))
    assert list(below_uniform(judge_sweep(group_sweeps(good)[-1]))) == []


def test_a_cell_that_is_only_by_chance_below_the_uniform_answer_is_not_shown_better(
    tmp_path: Path,
) -> None:
    """Half the answers are a little better than uniform and half a little less worse: the mean is below, the
    interval is not."""
    frame = fake_predictions(60)
    frame = frame[frame["type"] == "noul"].reset_index(drop=True)
    gold = frame["gold"].to_numpy()
    sure = [0.56 if i % 2 else 0.46 for i in range(len(frame))]
    frame["target"] = [[float(i == g) for i in (0, 1)] for g in gold]
    frame["probabilities"] = [[p, 1 - p] if g == 0 else [1 - p, p] for p, g in zip(sure, gold)]
    (cell,) = cells(tmp_path, frame)
    above = uniform(cell).above["nll"]
    assert above.value is not None
    assert above.high is not None
    assert above.value == pytest.approx(-(math.log(0.56) + math.log(0.46)) / 2 - math.log(2))
    assert above.value < 0 < above.high
    both = cells(tmp_path / "both", frame, frame)
    (line,) = below_uniform(judge_sweep(group_sweeps(both)[-1]))
    assert line.count("cannot tell") == 2


def test_answers_that_are_ties_are_told(tmp_path: Path) -> None:
    tied = fake_predictions(10)
    tied["probabilities"] = [[1 / len(keys)] * len(keys) for keys in tied["keys"]]
    found = cells(tmp_path, fake_predictions(10), tied)
    assert tied_text(found).startswith(
        f"orders=two: {len(tied)} of {len(tied)} answers give several"
    )
    assert tied_text(found[:1]) == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"hardware": [{"cores": 1}, {"cores": 2}]}, "not on the same machine"),
        ({"git": [{"commit": "a"}, {"commit": "b"}]}, "with different commits"),
        ({"started": ["2026-01-02T03:04:05Z", "2026-01-02T03:05:00Z"]}, "at the same time"),
    ],
)
def test_times_that_do_not_compare_are_said_not_to(
    changes: dict[str, list[Any]], said: str, tmp_path: Path
) -> None:
    spans = {
        "started": ["2026-01-02T03:04:05Z", "2026-01-02T03:06:05Z"],
        "finished": ["2026-01-02T03:05:05Z", "2026-01-02T03:07:05Z"],
    }
    found = cells(tmp_path, fake_predictions(2), fake_predictions(2), **{**spans, **changes})
    text = cost_caution(found)
    assert (said in text) if said else text == ""


def test_temperatures_at_the_limit_are_named_with_cell_and_bucket(tmp_path: Path) -> None:
    fits = [
        {"calibration": {"temperatures": {"all": 19.99999, "noul": 3.0}}},
        {"calibration": {"temperatures": {"all": 1.5}}},
    ]
    found = cells(tmp_path, fake_predictions(2), fake_predictions(2), data=fits)
    text = at_the_limit(found)
    assert text.endswith(": orders=one (all).")
    assert at_the_limit(found[1:]) == ""


def test_the_interval_of_a_mean_by_hand() -> None:
    entries = [{"value": 0.5, "low": 0.2, "high": 0.6}, {"value": 0.7, "low": 0.3, "high": 0.9}]
    found = mean_interval(entries)
    assert found["low"] == pytest.approx(0.6 - math.hypot(0.3, 0.4) / 2)
    assert found["high"] == pytest.approx(0.6 + math.hypot(0.1, 0.2) / 2)
    assert mean_interval([*entries, {"value": 1.0, "low": None, "high": None}]) == {}


def test_the_mean_calibration_error_is_over_the_sources(tmp_path: Path) -> None:
    by = {
        "source": {
            "a": {"ece_10": {"value": 0.1, "reference_mean": 0.02}},
            "b": {"ece_10": {"value": 0.2, "reference_mean": 0.04}},
        }
    }
    facts = {"facts": {"sources": {"a": {"word": "exact"}, "b": {"word": "exact"}}}}
    found = cells(tmp_path, fake_predictions(2), by=[by], data=[facts])
    assert (
        mean_ece_text(found)
        == "- orders=one: mean ECE-10 over 2 sources (exact) 0.1500 (calibrated: 0.0300)"
    )


def test_beside_a_server_cells_are_told_apart_by_the_model_alone() -> None:
    axes = [
        {"model": "local", "prompt": "short", "readout": "label_tokens", "benchmark": "mmlu"},
        {"model": "remote", "prompt": "chat", "readout": "pointer", "benchmark": "mmlu"},
    ]
    assert differing_axes([fake_record(axes=each) for each in axes]) == ["model"]


def test_a_page_without_a_rule_tells_the_limit_too(tmp_path: Path) -> None:
    data = {"calibration": {"temperatures": {"all": 19.99999}}}
    found = cells(tmp_path, fake_predictions(4), data=[data], config=[{}])
    page = tmp_path / "results/averaging.md"
    sections = page_sections(group_sweeps(found)[-1], Experiment("t"), [], page, [])
    (verdict,) = [each.body for each in sections if each.heading == "Verdict"]
    assert verdict.startswith("No paired decision rule is recorded")
    assert "Fitted temperatures at the limit" in verdict
