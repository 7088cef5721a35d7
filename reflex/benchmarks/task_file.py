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

SPACE = " \t\r\n"


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
    if not text.lstrip().startswith("[") and not _is_one_object(text):
        yield from json_lines(path)
        return
    start = _skip(text, 0)
    rows, end = (_array if text[start] == "[" else _one_object)(path, text, start)
    yield from rows
    if (end := _skip(text, end)) < len(text):
        raise DataError(f"{_place(path, text, end)}: not JSON (more text behind its end); mend it")


def _is_one_object(text: str) -> bool:
    """Whether the file is one object with `items`, rather than an object a line."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        first = text.lstrip().partition("\n")[0].strip()
        return first == "{"  # an object over several lines: name the error as JSON, not as a line
    return isinstance(value, dict) and "items" in value


def _one_object(path: Path, text: str, start: int) -> tuple[list[tuple[int, Any]], int]:
    """(line, item) of the object that starts there, with the questions of all items, and where it ends."""
    place = _skip(text, start + 1)
    found: dict[str, Any] = {}
    while text[place : place + 1] != "}":
        key, end = _decoded(path, text, place)
        if key not in ("questions", "items") or key in found:
            raise DataError(
                f"{_place(path, text, place)}: one JSON object must hold `questions` and a list `items`, each "
                f"once, and not {key!r}"
            )
        place = _skip(text, end)
        if text[place : place + 1] != ":":
            raise DataError(f"{_place(path, text, place)}: not JSON (a : is missing); mend it")
        place = _skip(text, place + 1)
        if key == "questions":
            found[key], place = _decoded(path, text, place)
        elif text[place : place + 1] != "[":
            raise DataError(
                f"{_place(path, text, place)}: one JSON object must hold `questions` and a list `items`"
            )
        else:
            found[key], place = _array(path, text, place)
        place = _next(path, text, place, "}")
    shared = {"questions": found.get("questions", {})}
    items = [
        (line, {**shared, **raw} if isinstance(raw, dict) else raw)
        for line, raw in found.get("items", [])
    ]
    return items, place + 1


def _array(path: Path, text: str, start: int) -> tuple[list[tuple[int, Any]], int]:
    """(line, element) of the JSON array that starts there, and where it ends."""
    found: list[tuple[int, Any]] = []
    place = _skip(text, start + 1)
    while text[place : place + 1] != "]":
        line = text.count("\n", 0, place) + 1
        value, place = _decoded(path, text, place)
        found.append((line, value))
        place = _next(path, text, place, "]")
    return found, place + 1


def _next(path: Path, text: str, place: int, last: str) -> int:
    """The next member of an array or object that ends with `last`, or its end."""
    place = _skip(text, place)
    if text[place : place + 1] == last:
        return place
    if text[place : place + 1] != ",":
        raise DataError(
            f"{_place(path, text, place)}: not JSON (a comma or {last} is missing); mend it"
        )
    place = _skip(text, place + 1)
    if text[place : place + 1] == last:
        raise DataError(f"{_place(path, text, place)}: not JSON (a comma before {last}); mend it")
    return place


def _decoded(path: Path, text: str, place: int) -> tuple[Any, int]:
    """The JSON value that starts there and where it ends, with the checks of a JSON Lines file."""
    try:
        return decoded(text, place)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: not JSON ({error.msg}); mend it") from None
    except RefusedJson as error:
        raise DataError(f"{_place(path, text, place)}: {error}") from None


def _place(path: Path, text: str, place: int) -> str:
    line = text.count("\n", 0, place) + 1
    return f"{path}:{line}"


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in SPACE:
        place += 1
    return place
