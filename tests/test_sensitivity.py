"""Question sensitivity: what an answerer that ignores the question shows, and one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from reflex.benchmarks.question_sensitivity import PAIRS, QUESTIONS, QuestionSensitivity
from reflex.data.jsonl import write_lines
from reflex.errors import ConfigError, DataError
from reflex.metrics.sensitivity import DEFINITIONS, compute
from reflex.tracking.predictions import read_predictions
from reflex.tracking.record import find_records
from tests import cli
from tests.calibration_frames import row_of
from tests.test_human_ratings import asset  # noqa: F401  (a fixture)

OPPOSITE = [{"kind": "opposite", "a": "a", "b": "b"}]


def answers(**questions: list[float]) -> pd.DataFrame:
    """p(yes) of each item, per question; labels are certain: a yes, everything else no."""
    rows: list[dict[str, Any]] = []
    for name, values in questions.items():
        for i, p in enumerate(values):
            keys = ["true", "false"]
            target = [1.0, 0.0] if name == "a" else [0.0, 1.0]
            row = row_of(f"i{i}", "noul", "label_tokens", keys, target, [keys], [[0.0, 0.0]])
            rows.append({**row, "question_id": name, "probabilities": [p, 1 - p]})
    return pd.DataFrame(rows)


def test_an_answerer_that_follows_the_question() -> None:
    found = compute(answers(a=[0.9, 0.8, 0.7], b=[0.1, 0.2, 0.3]), OPPOSITE)
    assert found["opposite_gap"]["value"] == pytest.approx(0)
    assert found["question_ignored"]["value"] == 0
    assert found["opposite_gap"]["labels"] == 0
    assert found["question_ignored"]["n"] == 3


def test_an_answerer_that_ignores_the_question() -> None:
    found = compute(answers(a=[0.9, 0.2, 0.9, 0.6], b=[0.9, 0.2, 0.3, 0.5]), OPPOSITE)
    # |p_a - (1 - p_b)|: .8, .6, .2, .1; alike: yes/yes, no/no, differ, undecided
    assert found["opposite_gap"]["value"] == pytest.approx((0.8 + 0.6 + 0.2 + 0.1) / 4)
    assert found["question_ignored"]["value"] == pytest.approx(0.5)
    assert set(found) <= set(DEFINITIONS)


def test_one_half_to_every_question_ignores_it() -> None:
    found = compute(answers(a=[0.5, 0.5, 0.5], b=[0.5, 0.5, 0.1]), OPPOSITE)
    assert found["question_ignored"]["value"] == pytest.approx(2 / 3)


def test_paraphrases() -> None:
    pairs = [{"kind": "paraphrase", "a": "a", "b": "c"}]
    found = compute(answers(a=[0.9, 0.6], c=[0.7, 0.4]), pairs)
    assert found["paraphrase_gap"]["value"] == pytest.approx(0.2)
    assert found["paraphrase_flips"]["value"] == pytest.approx(0.5)


def test_pairs_join_on_the_item_and_groups_are_the_sampling_unit() -> None:
    table = answers(a=[0.9, 0.2, 0.9, 0.6] * 5, b=[0.9, 0.2, 0.3] * 6)  # two have no partner
    table["group"] = [f"g{int(item[1:]) // 2}" for item in table["item_id"]]
    found = compute(table, OPPOSITE)
    assert found["opposite_gap"]["n"] == 18
    assert found["opposite_gap"]["low"] is None  # nine groups are too few
    alone = compute(table.assign(group=table["item_id"]), OPPOSITE)
    assert alone["opposite_gap"]["value"] == found["opposite_gap"]["value"]
    assert alone["opposite_gap"]["low"] < alone["opposite_gap"]["value"]


def test_nothing_without_pairs_and_clear_mistakes() -> None:
    table = answers(a=[0.9], b=[0.1])
    assert compute(table) == {}
    for pairs, message in (
        ([{"kind": "inverse", "a": "a", "b": "b"}], "kind 'inverse'"),
        ([{"kind": "opposite", "a": "a", "b": "zz"}], "no answer to a question 'zz'"),
    ):
        with pytest.raises(DataError, match=message):
            compute(table, pairs)
    choice = table.assign(type="choice")
    with pytest.raises(DataError, match="'a' is not a yes/no question"):
        compute(choice, OPPOSITE)


def test_wordings_disagree_by_how_far_each_is_from_their_mean() -> None:
    keys = ["true", "false"]
    row = row_of("i", "noul", "label_tokens", keys, [1, 0], [keys] * 4, [[0.0, 0.0]] * 4)
    # two wordings of two orders each: means .8 and .4, so each is .2 from .6
    rows = [[0.9, 0.1], [0.7, 0.3], [0.5, 0.5], [0.3, 0.7]]
    table = pd.DataFrame([{**row, "order_probabilities": rows, "wordings": 2}])
    found = compute(table)
    assert found["wording_disagreement"]["value"] == pytest.approx(0.2)
    assert found["wording_flips"]["value"] == 1
    assert compute(pd.DataFrame([{**row, "wordings": 1}])) == {}


def test_the_suite_asks_each_text_in_opposite_ways(asset: Any) -> None:  # noqa: F811
    suite = QuestionSensitivity(per_family=5).load_from(asset)
    assert suite.facts["question_pairs"] == PAIRS
    for row in suite.rows:
        assert tuple(row.questions) == tuple(QUESTIONS)
        yes = {name: label["true"] for name, label in row.labels.items()}
        assert yes["positive"] == yes["positive_reworded"] == pytest.approx(1 - yes["not_positive"])
        assert yes["negative"] + yes["positive"] <= 1 + 1e-9
    with pytest.raises(ConfigError, match="families"):
        QuestionSensitivity(families=["poems"])


@pytest.mark.slow
def test_a_runs_record_and_page_hold_the_pairs_of_its_task_file(
    tmp_path: Path, tmp_runs: Path
) -> None:
    asked = {
        "good": {"type": "noul", "instructions": "Is this good?"},
        "bad": {"type": "noul", "instructions": "Is this bad?"},
        "fine": {"type": "noul", "instructions": "Is this fine?"},
    }
    # Labels: good and bad are opposite but for the first two items, which are both yes.
    rows = [
        {
            "state": f"text {i}",
            "questions": asked,
            "labels": {"good": True, "bad": i < 2, "fine": True},
        }
        for i in range(6)
    ]
    path = tmp_path / "pairs.jsonl"
    write_lines(path, rows)
    pairs = "[{kind:opposite,a:good,b:bad},{kind:paraphrase,a:good,b:fine}]"
    ended = cli.run(
        *("backbone=tiny_llama", "device.dtype=float32", "tracker=none", "benchmark=task_file"),
        *(f"benchmark.path={path}", f"benchmark.question_pairs={pairs}"),
    )
    assert ended.status == 0, ended.err
    (found,) = find_records(tmp_runs).found
    frame = read_predictions(found.path).set_index(["question_id", "item_id"])["probabilities"]
    good, bad, fine = (
        np.array([p[0] for p in frame[name].sort_index()]) for name in ("good", "bad", "fine")
    )
    metrics = found.record.metrics
    assert metrics["opposite_gap"]["value"] == pytest.approx(np.mean(np.abs(good - (1 - bad))))
    assert metrics["opposite_gap"]["labels"] == pytest.approx(2 / 6)
    ignored = np.mean((good > 0.5) == (bad > 0.5))
    assert metrics["question_ignored"]["value"] == pytest.approx(ignored)
    assert metrics["question_ignored"]["labels"] == pytest.approx(2 / 6)
    assert metrics["paraphrase_gap"]["value"] == pytest.approx(np.mean(np.abs(good - fine)))
    flips = np.mean((good > 0.5) != (fine > 0.5))
    assert metrics["paraphrase_flips"]["value"] == pytest.approx(flips)
    names = ("opposite_gap", "question_ignored", "paraphrase_gap", "paraphrase_flips")
    assert {metrics[name]["n"] for name in names} == {6}
    section = ended.page.read_text().partition("## Question sensitivity")[2]
    for name in names:
        assert f"| {name} | {metrics[name]['value']:.4f}" in section
        assert found.record.metric_definitions[name] == DEFINITIONS[name]
