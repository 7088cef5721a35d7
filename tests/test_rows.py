"""Rows, their labels and files, and splits by hash."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflex.contract import Choice, Noul, Question, Score, option_keys, parse_question
from reflex.data.rows import (
    Row,
    group_of,
    items_sha256,
    parse_label,
    read_jsonl,
    rows_sha256,
    write_jsonl,
)
from reflex.data.splits import hash_order, split_of, stable_fraction
from reflex.errors import ConfigError, DataError
from reflex.hashing import stable_hash

NOUL = Noul(instructions="Is it?")
CHOICE = Choice(criteria={"b": None, "a": "first letter", "c": None})
SCORE = Score(criteria=["bad", "fair", "good"])

RAW: dict[str, Any] = {
    "id": "r1",
    "state": {"z": 1, "a": ["ä", None]},
    "questions": {
        "n": {"type": "noul", "instructions": "Is it?"},
        "c": {"type": "choice", "criteria": {"b": None, "a": "first letter", "c": None}},
        "s": {"type": "score", "instructions": "How?", "criteria": ["bad", "fair", "good"]},
    },
    "labels": {"n": True, "c": "a", "s": [0.25, 0.25, 0.5]},
    "source": "set",
    "family": "f",
    "split": "report",
}


def test_a_row_from_json_holds_distributions_over_the_option_keys_in_order() -> None:
    row = Row.from_json(RAW)
    assert row.labels == {
        "n": {"true": 1.0, "false": 0.0},
        "c": {"b": 0.0, "a": 1.0, "c": 0.0},
        "s": {"0": 0.25, "1": 0.25, "2": 0.5},
    }
    assert list(row.labels["c"]) == ["b", "a", "c"]
    assert row.group == group_of(RAW["state"])
    assert (row.source, row.family, row.split) == ("set", "f", "report")
    assert list(row.state) == ["z", "a"]


@pytest.mark.parametrize(
    ("question", "raw", "expected"),
    [
        (NOUL, False, [0, 1]),
        (NOUL, 0.3, [0.3, 0.7]),
        (NOUL, 1, [1, 0]),
        (NOUL, {"true": 0.75, "false": 0.25}, [0.75, 0.25]),
        (CHOICE, "c", [0, 0, 1]),
        (CHOICE, {"a": 0.5, "b": 0.5}, [0.5, 0.5, 0]),
        (SCORE, 2, [0, 0, 1]),
        (SCORE, [0.1, 0.2, 0.7], [0.1, 0.2, 0.7]),
        (SCORE, {"0": 0.5, "2": 0.5}, [0.5, 0, 0.5]),
        (SCORE, [0.333, 0.333, 0.333], [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_hard_and_soft_labels(question: Question, raw: Any, expected: list[float]) -> None:
    label = parse_label(question, raw)
    assert tuple(label) == option_keys(question)
    assert list(label.values()) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("question", "raw", "text"),
    [
        (NOUL, "yes", "give true, false or the probability of true"),
        (NOUL, None, "give true, false"),
        (NOUL, 1.2, "probability of 'true' is 1.2; it must be in 0..1"),
        (NOUL, float("nan"), "give true, false"),
        (NOUL, 10**400, "probability of 'true' is 10000000"),
        (NOUL, -(10**400), "probability of 'true' is -1000000"),
        (CHOICE, {"a": 10**400}, "probability of 'a' is 10000000"),
        (NOUL, {"true": 0.9}, "sum to 0.9, not 1; divide them by their sum"),
        (NOUL, {"yes": 1}, "'yes' is not among the options [true, false]"),
        (CHOICE, "d", "'d' is not among the options [b, a, c]"),
        (CHOICE, 1, "give an option name or an object option → probability, not a number"),
        (CHOICE, True, "not true/false"),
        (CHOICE, {"a": 3, "b": 1}, "probability of 'b' is 1"),
        (CHOICE, {"a": -0.5, "b": 1}, "probability of 'a' is -0.5"),
        (CHOICE, {"a": True}, "probability of 'a' is True"),
        (SCORE, 3, "'3' is not among the options [0, 1, 2]"),
        (SCORE, -1, "'-1' is not among"),
        (SCORE, True, "give a level from 0 to 2, or a list of probabilities, not true/false"),
        (SCORE, 1.5, "give a level from 0 to 2"),
        (SCORE, [0.5, 0.5], "2 probabilities for 3 levels"),
        (SCORE, [0.5, 0.4, 0.0], "sum to 0.9"),
        (SCORE, "good", "not text"),
    ],
)
def test_a_label_that_is_not_one_says_how_to_write_it(
    question: Question, raw: Any, text: str
) -> None:
    with pytest.raises(DataError) as caught:
        parse_label(question, raw, "q")
    if raw == {"a": 3, "b": 1}:
        text = "probability of 'a' is 3"
    assert text in str(caught.value)
    assert str(caught.value).startswith("label 'q': ")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"id": None}, "id must be a non-empty string or an integer"),
        ({"id": ""}, "id must be"),
        ({"id": True}, "id must be"),
        ({"state": None}, "state must be text, an object or a list, not null"),
        ({"state": 3}, "not a number"),
        ({"questions": []}, "questions must be an object keyed by question id"),
        ({"questions": {}, "labels": {}}, "row r1: no questions"),
        ({"labels": {"n": True, "c": "a"}}, "question 's' has no label"),
        ({"labels": RAW["labels"] | {"x": 1}}, "label 'x' belongs to no question (questions: n,"),
        ({"split": 3}, "split must be a string, not a number"),
        ({"famly": "f"}, "field 'famly' is unknown; a row has id, state"),
        ({"questions": {"n": {"type": "nuol"}}}, "questions.n: "),
    ],
)
def test_a_row_that_is_not_one_names_the_field(change: dict[str, Any], text: str) -> None:
    with pytest.raises(DataError) as caught:
        Row.from_json(RAW | change)
    assert text in str(caught.value)


def _line(**change: Any) -> str:
    return json.dumps(RAW | change)


@pytest.mark.parametrize(
    ("content", "place", "text"),
    [
        (b"", "", "the file holds no rows; write one JSON object a line"),
        (b"\n \n", "", "the file holds no rows"),
        (b"{}\n", ":1", "field 'id' is missing; a row needs id, state, questions, labels"),
        (b"[1]\n", ":1", "a row must be a JSON object, not a list"),
        (f"{_line()}\n\n{{bad".encode(), ":3", "not JSON (Expecting property name"),
        (f"{_line()}\n{_line()}".encode(), ":2", "id 'r1' was already used in line 1"),
        (f"{_line()}\n".encode() + b'{"id": "\xe9"}', ":2", "not UTF-8 (byte 8 of the line)"),
        (_line().encode("utf-16"), ":1", "not UTF-8"),
        (_line(labels={"n": 2}).encode(), ":1", "probability of 'true' is 2"),
        (b'{"id": "a", "id": "b"}', ":1", "key 'id' appears twice in one object"),
        (b'{"id": NaN}', ":1", "NaN is not JSON"),
        (b'{"id": "\\ud800"}', ":1", "half a surrogate pair"),
        (b'{"id": 1e999}', ":1", "holds a number that is too large"),
        (b'{"id": ' + b"7" * 5000 + b"}", ":1", "holds a number that is too large"),
        (b"[" * 100_000, ":1", "nested too deeply"),
        (b'{"id": 1} 2', ":1", "not JSON (Extra data, column 10)"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(
    tmp_path: Path, content: bytes, place: str, text: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_jsonl(path)
    assert str(caught.value).startswith(f"{path}{place}: ")
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no\.jsonl: cannot be read \(No such file"):
        read_jsonl(tmp_path / "no.jsonl")
    with pytest.raises(DataError, match="cannot be read"):
        read_jsonl(tmp_path)


def test_a_byte_order_mark_windows_lines_and_line_separators_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    other = json.dumps(RAW | {"id": 2, "state": "a\u2028b"}, ensure_ascii=False)
    path.write_bytes(b"\xef\xbb\xbf" + f"{_line()}\r\n{other}\r\n".encode())
    rows = read_jsonl(path)
    assert [row.id for row in rows] == ["r1", "2"]
    assert rows[1].state == "a\u2028b"


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 1) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    kind = draw(st.sampled_from(["noul", "choice", "score"]))
    raw: dict[str, Any] = {"type": kind}
    if kind == "noul" or draw(st.booleans()):
        raw["instructions"] = draw(names)
    if kind == "noul" and draw(st.booleans()):
        raw["criteria"] = {"true": draw(st.none() | names)}
    if kind == "choice":
        described = st.none() | names | st.dictionaries(names, json_values, min_size=1, max_size=2)
        raw["criteria"] = draw(st.dictionaries(names, described, min_size=1, max_size=5))
    if kind == "score":
        raw["criteria"] = draw(st.lists(names, min_size=1, max_size=10))
    return parse_question(raw)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    asked = draw(st.dictionaries(names, questions(), min_size=1, max_size=3))
    labels = {}
    for name, question in asked.items():
        keys = option_keys(question)
        weights = draw(st.lists(st.integers(0, 9), min_size=len(keys), max_size=len(keys)))
        total = sum(weights) or 1
        weights[0] += total - sum(weights)
        labels[name] = {key: weight / total for key, weight in zip(keys, weights, strict=True)}
    state = draw(names | st.lists(json_values) | st.dictionaries(names, json_values))
    return Row(draw(names), state, asked, labels, *draw(st.tuples(names, names, names, names)))


@given(rows())
def test_json_and_back_is_the_same_row(row: Row) -> None:
    back = Row.from_json(json.loads(json.dumps(row.to_json())))
    assert back == row
    assert rows_sha256([back]) == rows_sha256([row])
    for name, question in row.questions.items():
        assert option_keys(back.questions[name]) == option_keys(question)


def test_a_written_file_reads_back_and_an_undescribed_option_stays(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.jsonl"
    written = [Row.from_json(RAW), Row.from_json(RAW | {"id": "r2", "group": "g"})]
    write_jsonl(path, written)
    assert read_jsonl(path) == written
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    assert first["questions"]["c"] == RAW["questions"]["c"]
    assert "ä" in path.read_text(encoding="utf-8")


def test_rows_of_one_state_are_one_group_unless_they_say_otherwise() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"id": "r2"},
        {"state": {"a": 2, "z": 1}},
        {"id": "r3", "group": "g"},
    ]
    groups = [Row.from_json(RAW | change).group for change in changes]
    assert groups[0] == groups[1]
    assert len(set(groups)) == 3
    assert groups[3] == "g"


def test_a_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"rows\.jsonl: cannot be written \(No space left"):
        write_jsonl(path, [Row.from_json(RAW)])
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["rows.jsonl"]


def test_hashes_see_what_the_model_sees() -> None:
    row, other = Row.from_json(RAW), Row.from_json(RAW | {"id": "r2"})
    turned = Row.from_json(RAW | {"state": {"a": ["ä", None], "z": 1}})
    assert rows_sha256([row]) != rows_sha256([turned])  # the order of keys is kept, and counts
    assert items_sha256([row]) == items_sha256([turned])
    assert items_sha256([row, other]) == items_sha256([other, row])
    assert rows_sha256([row, other]) != rows_sha256([other, row])
    assert items_sha256([row, other]) != items_sha256([row])


def test_hashes_do_not_change_between_versions() -> None:
    assert stable_hash("a", "b") == 2675804750671990771
    assert items_sha256([]) == "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"


@given(st.text(), st.text())
def test_a_fraction_is_in_the_unit_interval_and_repeats(key: str, salt: str) -> None:
    assert 0 <= stable_fraction(key, salt) < 1
    assert stable_fraction(key, salt) == stable_fraction(key, salt)


@given(st.sets(st.text(), max_size=40), st.sets(st.text(), max_size=10))
def test_the_order_of_old_items_survives_new_ones(old: set[str], new: set[str]) -> None:
    def same(key: str) -> str:
        return key

    everything = hash_order(old | new, same, "s")
    assert [key for key in everything if key in old] == hash_order(old, same, "s")


@given(st.text(), st.integers(0, 10), st.integers(0, 10))
def test_a_growing_first_split_only_gains(key: str, low: int, high: int) -> None:
    low, high = sorted((low, high))
    before = split_of(key, "s", {"fit": low / 10, "report": 1 - low / 10})
    after = split_of(key, "s", {"fit": high / 10, "report": 1 - high / 10})
    assert (before, after) != ("fit", "report")


def test_splits_take_their_shares() -> None:
    shares = {"train": 0.7, "fit": 0.1, "report": 0.2, "never": 0.0}
    counts = Counter(split_of(str(n), "salt", shares) for n in range(20_000))
    assert counts["never"] == 0
    for name, share in shares.items():  # five standard deviations of a binomial
        assert abs(counts[name] / 20_000 - share) <= 5 * (share * (1 - share) / 20_000) ** 0.5
    assert {split_of(str(n), "other") for n in range(50)} == {"fit", "report"}
    moved = sum(split_of(str(n), "a") != split_of(str(n), "b") for n in range(2000))
    assert 900 < moved < 1100  # another salt is another division


@pytest.mark.parametrize("shares", [{}, {"fit": 0.5}, {"fit": 1.5, "report": -0.5}])
def test_shares_that_do_not_divide_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="non-negative and sum to 1"):
        split_of("key", "salt", shares)
