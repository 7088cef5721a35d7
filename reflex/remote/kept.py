"""Answers of a running cell on the disk, one JSON line per item, so that a killed run continues.

A line is appended with one write and flushed; a line that a kill has cut off is dropped when the file is
read, and its item is asked again. A line with an `error` stands for a failed try and is asked again too.
Lines have `row` (the item's place in the suite, which the cell's hash pins) and `item` (its id).

Whoever stops asking in good order looks at /health once more and drops the answers if another model gave some of
them. Where that cannot be (the process is killed, or nobody answers at the end), they are kept for what they are:
what every line says answered it (`SAYS`) is all that then tells one server's answers from another's.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from reflex.errors import RecordError, RemoteError

ANSWERS = "answers.jsonl"

SAYS = ("model", "x_run", "x_calibration")
"""What a response says of what answered it, where it does."""


class Kept:
    """The file of one cell: `lines` of earlier sessions and this one, by row (the last one counts).

    `errors`: every failed try of every session. `answered_by`: what each set of `SAYS` is, and the first item that
    came with it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / ANSWERS
        self.lines: dict[int, dict[str, Any]] = {}
        self.errors: list[dict[str, Any]] = []
        self.answered_by: dict[str, str] = {}
        self._file: int | None = None

    def __enter__(self) -> Self:
        whole = self._read()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.ftruncate(self._file, whole)  # a cut-off line must not run into the next one
        except OSError as error:
            raise self._unwritable(error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def answered(self) -> set[int]:
        """Rows that need not be asked again."""
        return {row for row, line in self.lines.items() if "error" not in line}

    def add(self, line: dict[str, Any]) -> None:
        """Keep one item's line. Raises RecordError where the disk refuses."""
        assert self._file is not None
        data = (json.dumps(line, ensure_ascii=False) + "\n").encode()
        try:
            if os.write(self._file, data) != len(data):
                raise OSError("no space left")
            os.fsync(self._file)
        except OSError as error:
            raise self._unwritable(error) from error
        self._take(line)

    def check_one_model(self) -> None:
        """Raise RemoteError where two answers say that different models gave them."""
        if len(self.answered_by) > 1:
            (one, first), (other, second), *_ = self.answered_by.items()
            raise RemoteError(
                f"{self.path}: answers of two models: item {first} by {one}, item {second} by {other}; "
                "force=true asks for all of them again"
            )

    def discard(self) -> None:
        """Forget every answer."""
        self.path.unlink(missing_ok=True)
        self.lines, self.errors, self.answered_by = {}, [], {}

    def _read(self) -> int:
        """Load the whole lines; returns how many bytes of the file they are."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise RecordError(f"{self.path}: cannot be read ({error.strerror or error})") from error
        whole = 0
        for raw in data.splitlines(keepends=True):
            try:
                line = json.loads(raw) if raw.endswith(b"\n") else None
            except ValueError:
                line = None
            if not isinstance(line, dict) or not isinstance(line.get("row"), int):
                break
            self._take(line)
            whole += len(raw)
        return whole

    def _take(self, line: dict[str, Any]) -> None:
        self.lines[line["row"]] = line
        if "error" in line:
            self.errors.append(line)
            return
        told = {key: line["response"][key] for key in SAYS if key in line["response"]}
        words = ", ".join(f"{key} {value}" for key, value in told.items())
        self.answered_by.setdefault(words, line["item"])

    def _unwritable(self, error: OSError) -> RecordError:
        return RecordError(
            f"{self.path}: cannot be written ({error.strerror or error}); free space or choose another "
            "folder with REFLEX_RUNS, then run the same command again"
        )
