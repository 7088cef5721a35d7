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
from reflex.benchmarks.base import Suite, check_count, limited, majority, measured, row_counts
from reflex.benchmarks.s1.selection import WORDS, weakest
from reflex.benchmarks.words import ABSENT
from reflex.data.jsonl import json_lines
from reflex.data.rows import Row
from reflex.errors import ConfigError, DataError

Word = tuple[str, int | None]
"""How sure it is that a row is its benchmark's own, and of how many items that is said, if it is."""

EXAMPLE = (
    '{"state": "…", "questions": {"q": {"type": "noul", "instructions": "…"}}, '
    '"labels": {"q": true}}'
)


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
        check_count("benchmark.limit", self.limit)

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
                        **majority(measured(members)),
                    }
                    for source, members in by_source.items()
                },
                **({"question_pairs": list(self.question_pairs)} if self.question_pairs else {}),
                "questions": sorted({name for row in scored for name in row.questions}),
                "notes": {"majority": "over the first question of each row"},
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
    shared: dict[str, Any] = {}
    start = text.index("[") if text.lstrip().startswith("[") else -1
    if start < 0:
        whole = _decode(path, text)
        if not isinstance(whole.get("items"), list) or set(whole) - {"questions", "items"}:
            raise DataError(f"{path}: one JSON object must hold `questions` and a list `items`")
        shared = {"questions": whole.get("questions", {})}
        start = _items_start(text)
    for line, raw in _array(path, text, start):
        yield line, {**shared, **raw} if isinstance(raw, dict) else raw


def _is_one_object(text: str) -> bool:
    """Whether the file is one object with `items`, rather than an object a line."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError:
        first = text.lstrip().partition("\n")[0].strip()
        return first == "{"  # an object over several lines: name the error as JSON, not as a line
    return isinstance(value, dict) and "items" in value


def _decode(path: Path, text: str) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: not JSON ({error.msg}); mend it") from None
    return value


def _items_start(text: str) -> int:
    """Where the top-level list `items` starts: past every key before it."""
    decoder, place = json.JSONDecoder(), text.index("{") + 1
    while True:
        place = _skip(text, place, " \t\r\n,")
        key, place = decoder.raw_decode(text, place)
        place = _skip(text, place, " \t\r\n:")
        if key == "items":
            return place
        _, place = decoder.raw_decode(text, place)


def _array(path: Path, text: str, start: int) -> Iterator[tuple[int, Any]]:
    """(line, element) of the JSON array that starts there."""
    decoder, place = json.JSONDecoder(), _skip(text, start + 1, " \t\r\n")
    while text[place : place + 1] != "]":
        line = text.count("\n", 0, place) + 1
        try:
            value, place = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}:{error.lineno}: not JSON ({error.msg}); mend it") from None
        yield line, value
        place = _skip(text, place, " \t\r\n")
        if text[place : place + 1] not in (",", "]"):
            line = text.count("\n", 0, place) + 1
            raise DataError(f"{path}:{line}: not JSON (a comma or ] is missing); mend it")
        if text[place] == ",":
            place = _skip(text, place + 1, " \t\r\n")


def _skip(text: str, place: int, characters: str) -> int:
    while place < len(text) and text[place] in characters:
        place += 1
    return place
