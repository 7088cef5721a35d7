"""Labelled rows: a state, typed questions about it, and a label distribution for each question.

A row file is JSON Lines, UTF-8, one row a line:

    {"id": "r1", "state": "…", "questions": {"q": {"type": "noul", "instructions": "…"}},
     "labels": {"q": true}, "source": "…", "family": "…", "split": "report", "group": "…"}

`source`, `family`, `split`, `group` may be left out; rows without a group are grouped by their state. A
label is hard or soft: see `parse_label`.
"""

from __future__ import annotations

import hashlib
import math
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from reflex.contract import Choice, Noul, Question, option_keys, parse_question
from reflex.data.jsonl import canonical, json_lines, write_lines
from reflex.errors import DataError, RequestError

State: TypeAlias = str | dict[str, Any] | list[Any]
Labels: TypeAlias = dict[str, dict[str, float]]

REQUIRED = ("id", "state", "questions", "labels")
OPTIONAL = ("source", "family", "split", "group")

_SUM_SLACK = 1e-3  # what probabilities rounded to three or four digits need
_SUM_EXACT = 1e-9  # within this a label is kept bit for bit, so that writing and reading is exact


@dataclass(frozen=True)
class Row:
    """`labels[question_id][option_key]` is a distribution over `option_keys`, in their order.

    `source` names the set, `group` the cluster the bootstrap resamples (default: by the state).
    Raises DataError when a question has no label or a label is not such a distribution.
    """

    id: str
    state: State
    questions: dict[str, Question]
    labels: Labels
    source: str = ""
    family: str = ""
    split: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        if not self.group:
            object.__setattr__(self, "group", group_of(self.state))
        if not self.questions:
            raise DataError(f"row {self.id}: no questions; give at least one")
        if missing := [name for name in self.questions if name not in self.labels]:
            raise DataError(
                f"row {self.id}: question {missing[0]!r} has no label; add it to labels"
            )
        if extra := [name for name in self.labels if name not in self.questions]:
            raise DataError(
                f"row {self.id}: label {extra[0]!r} belongs to no question "
                f"(questions: {', '.join(self.questions)})"
            )
        for name, question in self.questions.items():
            keys, label = option_keys(question), self.labels[name]
            if tuple(label) != keys or abs(math.fsum(label.values()) - 1) > _SUM_EXACT:
                raise DataError(
                    f"row {self.id}: label of {name!r} must give every option of "
                    f"{list(keys)} a probability, in this order, summing to 1"
                )

    @classmethod
    def from_json(cls, raw: Any) -> Row:
        """Build a row from one decoded JSON object. Raises DataError without file or line."""
        if not isinstance(raw, dict):
            raise DataError(f"a row must be a JSON object, not {_kind(raw)}")
        if missing := [name for name in REQUIRED if name not in raw]:
            raise DataError(f"field {missing[0]!r} is missing; a row needs {', '.join(REQUIRED)}")
        if extra := [name for name in raw if name not in REQUIRED + OPTIONAL]:
            raise DataError(
                f"field {extra[0]!r} is unknown; a row has {', '.join(REQUIRED + OPTIONAL)}"
            )
        identity = raw["id"]
        if isinstance(identity, bool) or not isinstance(identity, str | int) or identity == "":
            raise DataError("id must be a non-empty string or an integer")
        if not isinstance(raw["state"], str | dict | list):
            raise DataError(f"state must be text, an object or a list, not {_kind(raw['state'])}")
        for name in ("questions", "labels"):
            if not isinstance(raw[name], dict):
                raise DataError(f"{name} must be an object keyed by question id")
        for name in OPTIONAL:
            if not isinstance(raw.get(name, ""), str):
                raise DataError(f"{name} must be a string, not {_kind(raw[name])}")
        questions: dict[str, Question] = {}
        for name, question in raw["questions"].items():
            try:
                questions[name] = parse_question(question, ("questions", name))
            except RequestError as error:
                raise DataError(str(error)) from None
        labels = {
            name: parse_label(questions[name], label, name) if name in questions else label
            for name, label in raw["labels"].items()
        }
        tags = {name: raw.get(name, "") for name in OPTIONAL}
        return cls(str(identity), raw["state"], questions, labels, **tags)

    def to_json(self) -> dict[str, Any]:
        """What `from_json` turns back into an equal row; the order of keys in `state` is kept."""
        questions = {name: question_to_json(each) for name, each in self.questions.items()}
        return {
            "id": self.id,
            "state": self.state,
            "questions": questions,
            "labels": self.labels,
            **{name: getattr(self, name) for name in OPTIONAL},
        }


def group_of(value: Any) -> str:
    """The group of rows that share `value`: a short hash of it."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def parse_label(question: Question, raw: Any, name: str = "label") -> dict[str, float]:
    """The label distribution over `option_keys(question)`.

    Hard: noul true/false; choice an option name; score a level (int). Soft: noul the probability of
    true; choice an object option → probability; score a list, one per level, or an object level →
    probability; options left out of an object get 0. A sum within 1e-3 of 1 is rescaled to 1.
    Raises DataError naming `name` and the fix.
    """
    keys = option_keys(question)
    values: dict[str, Any]
    if isinstance(raw, Mapping):
        if unknown := [key for key in raw if key not in keys]:
            raise DataError(
                f"label {name!r}: {unknown[0]!r} is not among the options {_shown(keys)}"
            )
        values = {key: raw.get(key, 0.0) for key in keys}
    elif isinstance(question, Noul):
        if not _is_number(raw) and not isinstance(raw, bool):
            raise DataError(f"label {name!r}: give true, false or the probability of true")
        p = int(raw) if isinstance(raw, bool) else raw
        values = {"true": p, "false": 1 - p}
    elif isinstance(question, Choice):
        if not isinstance(raw, str):
            raise DataError(
                f"label {name!r}: give an option name or an object option → probability, "
                f"not {_kind(raw)}"
            )
        values = _one_hot(keys, raw, name)
    elif isinstance(raw, list):
        if len(raw) != len(keys):
            raise DataError(f"label {name!r}: {len(raw)} probabilities for {len(keys)} levels")
        values = dict(zip(keys, raw, strict=True))
    elif isinstance(raw, int) and not isinstance(raw, bool):
        values = _one_hot(keys, str(raw), name)
    else:
        raise DataError(
            f"label {name!r}: give a level from 0 to {len(keys) - 1}, or a list of probabilities, "
            f"not {_kind(raw)}"
        )
    return _distribution(values, name)


def _one_hot(keys: tuple[str, ...], key: str, name: str) -> dict[str, Any]:
    if key not in keys:
        raise DataError(f"label {name!r}: {key!r} is not among the options {_shown(keys)}")
    return {each: float(each == key) for each in keys}


def _distribution(values: dict[str, Any], name: str) -> dict[str, float]:
    for key, value in values.items():
        if not _is_number(value) or not 0 <= value <= 1:
            raise DataError(
                f"label {name!r}: probability of {key!r} is {reprlib.repr(value)}; it must be in 0..1"
            )
    total = math.fsum(values.values())
    if abs(total - 1) > _SUM_SLACK:
        raise DataError(
            f"label {name!r}: probabilities sum to {total:.6g}, not 1; divide them by their sum"
        )
    scale = 1.0 if abs(total - 1) <= _SUM_EXACT else total
    return {key: float(value) / scale for key, value in values.items()}


def _is_number(value: Any) -> bool:
    """Whether it is a finite number; an integer may be larger than any float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "true/false", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "an object")


def _shown(keys: tuple[str, ...]) -> str:
    return f"[{', '.join(keys[:12])}{', …' if len(keys) > 12 else ''}]"


def question_to_json(question: Question) -> dict[str, Any]:
    """The question as the wire writes it; an undescribed choice option keeps its null."""
    raw = {
        key: value for key, value in question.model_dump(mode="json").items() if value is not None
    }
    if isinstance(question, Noul) and question.criteria is not None:
        raw["criteria"] = {key: text for key, text in raw["criteria"].items() if text is not None}
    return raw


def rows_sha256(rows: Iterable[Row]) -> str:
    """Hash of everything in the rows, in their order."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(canonical(row.to_json()).encode() + b"\n")
    return digest.hexdigest()


def items_sha256(rows: Iterable[Row]) -> str:
    """Hash of which items these are: the sorted ids, whatever the order of the rows."""
    return hashlib.sha256(canonical(sorted(row.id for row in rows)).encode()).hexdigest()


def read_jsonl(path: str | Path) -> list[Row]:
    """All rows of a file. Raises DataError `file:line: what is wrong; the fix`."""
    rows: list[Row] = []
    lines: dict[str, int] = {}
    for number, raw in json_lines(Path(path)):
        try:
            row = Row.from_json(raw)
        except DataError as error:
            raise DataError(f"{path}:{number}: {error}") from None
        if row.id in lines:
            raise DataError(
                f"{path}:{number}: id {row.id!r} was already used in line {lines[row.id]}; "
                "make it unique"
            )
        lines[row.id] = number
        rows.append(row)
    if not rows:
        raise DataError(f"{path}: the file holds no rows; write one JSON object a line")
    return rows


def write_jsonl(path: str | Path, rows: Iterable[Row]) -> None:
    """Write the rows, or nothing. Raises DataError when the file cannot be written."""
    write_lines(Path(path), (row.to_json() for row in rows))
