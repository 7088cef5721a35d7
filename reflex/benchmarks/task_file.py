"""A task file: your own labelled questions. `benchmark=task_file benchmark.path=tickets.jsonl`.

JSON Lines, one row a line, or one JSON array of rows:

    {"state": …, "questions": {"q": {"type": "noul", "instructions": "…"}}, "labels": {"q": true}}

`id` (default: `<file>/<number>`), `source`, `family`, `split` and `group` may be given. One JSON object
with `questions` for all rows and `items` (rows without `questions`) works too. Labels are hard or soft,
as in `reflex.data.rows`. `task=export` writes this format; its rows of a benchmark carry `word` and `of`: how sure
it is that they are the benchmark's own (`exact`, `rebuilt`, `stand-in`), and of how many items that is said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reflex.assets import sha256_of
from reflex.benchmarks.base import Suite, limited, row_counts
from reflex.benchmarks.s1.selection import WORDS, weakest
from reflex.benchmarks.words import ABSENT
from reflex.checks import check_limit
from reflex.data.jsonl import RefusedJson, decoded, json_lines
from reflex.data.rows import Row
from reflex.errors import ConfigError, DataError

Word = tuple[str, int | None]
"""How sure it is that a row is its benchmark's own, and of how many items that is said, if it is."""

EXAMPLE = (
    '{"state": "…", "questions": {"q": {"type": "noul", "instructions": "…"}}, '
    '"labels": {"q": true}}'
)

_SYNTAX = json.JSONDecoder(parse_int=str, parse_float=str)
"""Reads whatever is JSON; `decoded` then refuses what Python would change."""
_BETWEEN = re.compile(r"[ \t\r\n,:]*")


@dataclass
class TaskFile:
    """`path`: the file. `split`: only its rows of that split (null: all). `limit`: per source.

    `question_pairs`: questions that belong together, each {kind: opposite | paraphrase, a: ID, b: ID}
    (reflex/metrics/sensitivity.py).
    """

    _target_: str = "reflex.benchmarks.task_file.TaskFile"
    name: str = "task_file"
    path: str | None = None
    split: str | None = None
    limit: int | None = None
    question_pairs: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_limit("benchmark.limit", self.limit)

    def load(self) -> Suite:
        """Raises ConfigError without a path; DataError `file:line: what is wrong; the fix`."""
        if not self.path:
            raise ConfigError("benchmark.path is not set; give benchmark.path=FILE (JSON or JSONL)")
        path = Path(self.path).expanduser()
        read = _rows(path)
        rows = [row for row, _ in read]
        if self.split is not None:
            splits = sorted({row.split for row in rows})
            rows = [row for row in rows if row.split == self.split]
            if not rows:
                raise DataError(
                    f"{path}: no row of split {self.split!r}; the file has {', '.join(splits)}"
                )
        scored = limited(rows, self.limit)
        by_source: dict[str, list[Row]] = {}
        for row in scored:
            by_source.setdefault(row.source, []).append(row)
        return Suite(
            name=self.name,
            rows=scored,
            facts={
                "data_sha256": sha256_of(path),
                "file": path.name,
                "sources": {
                    source: {
                        **_word([word for row, word in read if row.source == source]),
                        **row_counts(members),
                    }
                    for source, members in by_source.items()
                },
                **({"question_pairs": list(self.question_pairs)} if self.question_pairs else {}),
                "questions": sorted({name for row in scored for name in row.questions}),
            },
        )


def read_tasks(path: Path) -> list[Row]:
    """All rows of the file. Raises DataError `file:line: what is wrong; the fix`."""
    return [row for row, _ in _rows(path)]


def _word(words: list[Word | None]) -> dict[str, Any]:
    """The facts of a source by the words of its rows: the weakest; rows without one are a stand-in."""
    given = [word for word in words if word is not None]
    if not given:
        return {}
    word = weakest(word for word, _ in given) if len(given) == len(words) else "stand-in"
    counts = [of for _, of in given if of is not None]
    return {"word": word} | ({"n_pinned": max(counts)} if counts else {})


def _pop_word(raw: dict[str, Any]) -> Word | None:
    """Take `word` and `of` out of a decoded row. Raises DataError without file or line."""
    if "word" not in raw:
        return None
    word, of = raw.pop("word"), raw.pop("of", None)
    known = [each for each in WORDS if each not in ABSENT]
    if word not in known:
        raise DataError(f"word {word!r} must be one of {', '.join(known)}, or be left out")
    if of is not None and (not isinstance(of, int) or isinstance(of, bool) or of < 1):
        raise DataError(f"of {of!r} beside word must be the number of items the word speaks of")
    return word, of


def _rows(path: Path) -> list[tuple[Row, Word | None]]:
    rows: list[tuple[Row, Word | None]] = []
    places: dict[str, int] = {}
    for count, (line, raw) in enumerate(_objects(path), 1):
        if not isinstance(raw, dict):
            raise DataError(f"{path}:{line}: a row must be a JSON object like {EXAMPLE}")
        try:
            word = _pop_word(raw)
            row = Row.from_json({"id": f"{path.stem}/{count}", **raw})
        except DataError as error:
            raise DataError(f"{path}:{line}: {error}") from None
        if row.id in places:
            raise DataError(
                f"{path}:{line}: id {row.id!r} was already used in line {places[row.id]}; "
                "make it unique, or leave out every id"
            )
        places[row.id] = line
        source = row.source or path.stem
        family = row.family or source
        row = replace(row, source=source, family=family, split=row.split or "report")
        rows.append((row, word))
    if not rows:
        raise DataError(f"{path}: the file holds no rows; write one a line: {EXAMPLE}")
    return rows


def _objects(path: Path) -> Iterator[tuple[int, Any]]:
    """(line, decoded row) of either form; the first bytes decide, not the file's ending."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        yield from json_lines(path)  # names the line
        return
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    start = len(text) - len(text.lstrip())
    if text.startswith("[", start):
        _check_syntax(path, text)
        yield from _members(path, text, start)
    elif _is_one_object(text):
        _check_syntax(path, text)
        yield from _items(path, text, start)
    else:
        yield from json_lines(path)


def _is_one_object(text: str) -> bool:
    """Whether the file is one object with `items`, rather than an object a line."""
    try:
        value, _ = _SYNTAX.raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        first = text.lstrip().partition("\n")[0].strip()
        return first == "{"  # an object over several lines: name the error as JSON, not as a line
    return isinstance(value, dict) and "items" in value


def _check_syntax(path: Path, text: str) -> None:
    """Raise DataError unless all of the text is one JSON value, so that `_places` may walk it."""
    try:
        _SYNTAX.decode(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: not JSON ({error.msg}); mend it") from None
    except RecursionError:
        raise DataError(
            f"{path}: lists or objects are nested too deeply; write it flatter"
        ) from None


def _items(path: Path, text: str, start: int) -> Iterator[tuple[int, Any]]:
    """(line, item) of the object that starts there, each item with the questions of all."""
    places = list(_places(text, start))
    found: dict[str, tuple[int, int]] = {}
    for at_key, at_value in zip(places[::2], places[1::2], strict=True):
        key = _value(path, text, *at_key)
        if key not in ("questions", "items") or key in found:
            raise _not_items(path, at_key[0], f", each once, and not {key!r}")
        if key == "items" and text[at_value[1]] != "[":
            raise _not_items(path, at_value[0], "")
        found[key] = at_value
    questions = _value(path, text, *found["questions"]) if "questions" in found else {}
    for line, item in _members(path, text, found["items"][1]):
        yield line, {"questions": questions, **item} if isinstance(item, dict) else item


def _not_items(path: Path, line: int, more: str) -> DataError:
    return DataError(
        f"{path}:{line}: one JSON object must hold `questions` and a list `items`{more}"
    )


def _members(path: Path, text: str, start: int) -> list[tuple[int, Any]]:
    """(line, value) of every member of the JSON array that starts there. Raises DataError."""
    return [(line, _value(path, text, line, place)) for line, place in _places(text, start)]


def _places(text: str, start: int) -> Iterator[tuple[int, int]]:
    """(line, where it starts) of every member of the array or object there: an object's keys and values in turn."""
    place, line = start, text.count("\n", 0, start) + 1
    end = start + 1
    while text[begin := _BETWEEN.match(text, end).end()] not in "]}":  # type: ignore[union-attr]
        line, place = line + text.count("\n", place, begin), begin
        yield line, begin
        _, end = _SYNTAX.raw_decode(text, begin)


def _value(path: Path, text: str, line: int, place: int) -> Any:
    try:
        return decoded(text, place)[0]
    except RefusedJson as error:
        raise DataError(f"{path}:{line}: {error}") from None
