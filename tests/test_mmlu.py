"""MMLU: the draw, the halves, the options, and what a bad row says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflex.benchmarks import files
from reflex.benchmarks.mmlu import MMLU, QUESTION, SHARED, option_names, to_row
from reflex.benchmarks.words import word_of
from reflex.contract import option_keys
from reflex.data.jsonl import write_lines
from reflex.errors import ConfigError, DataError


def _raw(number: int, subject: str = "astronomy", **changes: Any) -> dict[str, Any]:
    return {
        "id": f"mmlu-test-{subject}-{number}",
        "subject": subject,
        "question": f"What is {number} and one?",
        "choices": [str(number + step) for step in range(4)],
        "label": 1,
        **changes,
    }


def _write(root: Path, rows: list[dict[str, Any]], name: str = "test.jsonl") -> Path:
    path = root / "mmlu" / name
    write_lines(path, rows)
    return path


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REFLEX_DATA", str(tmp_path))
    subjects = ["astronomy", "college_physics", "virology"]
    _write(tmp_path, [_raw(number, subjects[number % 3]) for number in range(300)])
    return tmp_path


def test_an_item_is_a_question_with_its_options_as_keys(root: Path) -> None:
    row = MMLU(n=None).load().rows[1]
    assert row.state == "What is 1 and one?"
    assert row.questions[QUESTION].instructions == (
        "Answer this multiple-choice question about college physics."
    )
    assert option_keys(row.questions[QUESTION]) == ("1", "2", "3", "4")
    assert row.labels[QUESTION] == {"1": 0.0, "2": 1.0, "3": 0.0, "4": 0.0}
    assert (row.source, row.family, row.group) == ("mmlu", "college_physics", row.id)


def test_the_draw_depends_on_the_seed_and_nothing_else(root: Path) -> None:
    first, again = MMLU(n=60).load(), MMLU(n=60).load()
    assert first.rows == again.rows
    assert len(first.rows) == 60
    other = {row.id for row in MMLU(n=60, seed=1).load().rows}
    assert other != {row.id for row in first.rows}
    facts = first.facts["sources"]["mmlu"]
    assert (sum(facts["splits"].values()), facts["n_available"], facts["subjects"]) == (60, 300, 3)
    assert facts["word"] == "stand-in"  # not the whole test split
    assert len(MMLU(n=1200).load().rows) == 300


def test_halves_are_disjoint_and_about_equal(root: Path) -> None:
    halves = {split: MMLU(split=split).load().rows for split in ("fit", "report")}
    ids = {split: {row.id for row in rows} for split, rows in halves.items()}
    assert not ids["fit"] & ids["report"]
    assert len(ids["fit"]) + len(ids["report"]) == 300
    assert 115 <= len(ids["fit"]) <= 185
    assert {row.split for row in halves["fit"]} == {"fit"}


def test_limit_keeps_the_first_n_in_hash_order(root: Path) -> None:
    ten, twenty = ([row.id for row in MMLU(limit=n).load().rows] for n in (10, 20))
    assert twenty[:10] == ten
    facts = MMLU(limit=20).load().facts["sources"]["mmlu"]
    assert sum(facts["splits"].values()) == 20
    assert facts["n"] == facts["splits"]["report"]


def test_figures_are_over_the_half_that_is_measured(root: Path) -> None:
    """And the half that is fitted on does not make it a part of the items."""
    halves = [to_row("f:1", _raw(number), number).split for number in range(200)]
    _write(root, [_raw(number) for number in range(200)])
    facts = MMLU(n=200).load().facts["sources"]["mmlu"]
    assert facts["n"] == facts["splits"]["report"] == halves.count("report")
    assert word_of(facts) == "stand-in"
    assert word_of(MMLU(n=200, limit=50).load().facts["sources"]["mmlu"]) == "stand-in, 50 of 200"
    alone = MMLU(n=200, split="fit").load().facts["sources"]["mmlu"]
    assert alone["n"] == halves.count("fit")


def test_items_about_one_passage_share_a_group_and_a_half() -> None:
    passage = f"{SHARED}.\n" + "In the year 1453 the city fell. " * 12
    rows = [
        to_row("f:1", _raw(number, question=f"{passage}\nQuestion {number}?"), number)
        for number in range(20)
    ]
    assert len({row.group for row in rows}) == 1
    assert len({row.split for row in rows}) == 1


@given(st.lists(st.sampled_from(["a", " a", "b", "", "a (2)"]), min_size=2, max_size=8))
def test_option_names_are_unique_and_not_empty(choices: list[str]) -> None:
    names = option_names(choices)
    assert len(set(names)) == len(names) == len(choices)
    assert all(names)


def test_a_repeated_option_is_numbered_and_the_gold_stays_in_its_place() -> None:
    row = to_row("f:1", _raw(0, choices=["yes", "no", "yes", "no"], label=2), 0)
    assert row.labels[QUESTION] == {"yes": 0.0, "no": 0.0, "yes (2)": 1.0, "no (2)": 0.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"question": None}, r"test\.jsonl:2: field 'question' is missing; a row here has subject"),
        ({"label": 4}, r"test\.jsonl:2: label 4 must be the number of a choice, 0 to 3"),
        ({"label": "B"}, r"test\.jsonl:2: label 'B' must be the number of a choice"),
        ({"choices": "ABCD"}, r"test\.jsonl:2: choices must be a list of at least two texts"),
        (
            {"id": "mmlu-test-astronomy-0"},
            r"test\.jsonl:2: id 'mmlu-test-astronomy-0' was already used in .*test\.jsonl:1; make it",
        ),
    ],
)
def test_a_bad_row_is_named(root: Path, changes: dict[str, Any], message: str) -> None:
    _write(root, [_raw(0), _raw(1, **changes)])
    with pytest.raises(DataError, match=message) as caught:
        MMLU().load()
    assert "\n" not in str(caught.value)


def test_no_rows_and_no_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(root, [])
    with pytest.raises(DataError, match=r"test\.jsonl: the file holds no rows"):
        MMLU().load()
    path.unlink()
    with pytest.raises(DataError, match=r"no test\*\.jsonl; set REFLEX_DATA"):
        MMLU().load()
    monkeypatch.setenv("REFLEX_DATA", str(root / "nowhere"))
    with pytest.raises(DataError, match="is not a folder"):
        MMLU().load()
    monkeypatch.delenv("REFLEX_DATA")
    with pytest.raises(DataError, match="REFLEX_DATA is not set"):
        MMLU(rows="local").load()


def test_whole_measures_every_item(root: Path) -> None:
    rows = MMLU(split="whole").load().rows
    assert {row.split for row in rows} == {"test"}
    assert [row.id for row in rows] == [row.id for row in MMLU().load().rows]


@pytest.mark.parametrize("config", [{"rows": "web"}, {"split": "test"}, {"n": 0}, {"limit": 0}])
def test_a_bad_key_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"benchmark.{next(iter(config))}"):
        MMLU(**config)


def test_the_hub_is_read_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    rows = [
        {
            "question": f"Is it {n}?",
            "subject": subject,
            "choices": ["a", "b", "c", "d"],
            "answer": 3,
        }
        for subject in ("anatomy", "virology")
        for n in range(2)
    ]
    path = tmp_path / "test.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)

    def download(file: files.HubFile) -> Path:
        asked.append(str(file))
        return path

    monkeypatch.delenv("REFLEX_DATA", raising=False)
    monkeypatch.setattr("reflex.benchmarks.mmlu.download", download)
    monkeypatch.setattr(files, "download", download)
    suite = MMLU().load()
    assert set(asked) == {"cais/mmlu/all/test-00000-of-00001.parquet"}
    assert [row.id for row in suite.rows] == [
        *("mmlu-test-anatomy-0", "mmlu-test-anatomy-1"),
        *("mmlu-test-virology-0", "mmlu-test-virology-1"),
    ]
    assert all(row.labels[QUESTION]["d"] == 1 for row in suite.rows)


def test_the_real_rows(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    suite = MMLU().load()
    assert len(suite.rows) >= 600
    assert suite.facts["sources"]["mmlu"]["subjects"] == 57
    counts = Counter(row.split for row in suite.rows)
    assert abs(counts["fit"] - counts["report"]) < 0.1 * len(suite.rows)
