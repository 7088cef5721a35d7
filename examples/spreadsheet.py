"""A spreadsheet, answered row by row: CSV in, the same rows with answers out.

    python examples/spreadsheet.py in.csv out.csv --questions questions.json [--columns subject,text]

The state of a row is its columns by name. Rows are written in order as they are answered; stopped at any
moment and started again, it goes on where it was. A row the server refuses says why in the column `error`.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from typesafe_sdk import SystemOneResponse, TypeSafeAPIError, TypeSafeClient, TypeSafeError

BASE_URL = os.environ.get("REFLEX_URL", "http://127.0.0.1:8000")
API_KEY = os.environ.get("REFLEX_API_KEY", "none")
OWN = ("error", "request")
"""Columns that are added behind the answers; `request` is a hash of what was asked of the row."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--questions", type=Path, required=True, help="JSON: name → question")
    parser.add_argument("--columns", help="columns that make the state, by comma (default: all)")
    parser.add_argument("--at-once", type=int, default=8, help="requests under way at a time")
    given = parser.parse_args()
    try:
        questions = json.loads(given.questions.read_text(encoding="utf-8"))
        names, rows = read(given.source)
        chosen = given.columns.split(",") if given.columns else names
        if unknown := [name for name in chosen if name not in names]:
            sys.exit(f"{given.source}: no column {unknown[0]!r}; it has {', '.join(names)}")
        states = [{name: row[name] for name in chosen} for row in rows]
        hashes = [fingerprint(state, questions) for state in states]
        header = [*names, *columns_of(questions), *OWN]
        if twice := [name for name in header if header.count(name) > 1]:
            sys.exit(f"the column {twice[0]!r} would be there twice; rename it or the question")
        done = resume(given.target, header, hashes)
        answer_rest(given.target, header, rows, states, hashes, questions, done, given.at_once)
    except TypeSafeError as error:
        sys.exit(f"\nstopped: {error}\nwhat is answered is kept; the same command continues")
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("\nstopped; what is answered is kept, the same command continues")


def read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Column names and rows of a CSV with a header; Excel's byte order mark is no part of a name."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, restval="")
        rows = []
        for row in reader:
            if None in row:
                raise ValueError(
                    f"{path}, line {reader.line_num}: more cells than the header names"
                )
            rows.append(row)
    if not reader.fieldnames:
        raise ValueError(f"{path}: no header line")
    return list(reader.fieldnames), rows


def fingerprint(state: Any, questions: Any) -> str:
    return hashlib.sha256(json.dumps([state, questions]).encode()).hexdigest()[:16]


def resume(target: Path, header: list[str], hashes: list[str]) -> int:
    """How many rows `target` holds already; a line that a kill left half-written is cut off.

    Raises ValueError, and leaves the file as it is, when what it holds was asked differently.
    """
    if not target.exists():
        return 0
    text = target.read_bytes().decode("utf-8", "ignore")
    found = list(complete_rows(text))
    answered = [row[-1] for row, _ in found[1:]]
    if [row for row, _ in found[:1]] not in ([], [header]) or answered != hashes[: len(answered)]:
        raise ValueError(
            f"{target}: made from other rows or questions; move it away or name another file"
        )
    with target.open("r+b") as file:
        file.truncate(len(text[: found[-1][1] if found else 0].encode()))
    return len(answered)


def complete_rows(text: str) -> Iterator[tuple[list[str], int]]:
    """CSV rows that end in a line break, each with where it ends in `text` (quoted breaks are inside)."""
    start, quoted = 0, False
    for at, char in enumerate(text):
        quoted ^= char == '"'
        if char == "\n" and not quoted:
            yield next(csv.reader([text[start : at + 1]])), at + 1
            start = at + 1


def columns_of(questions: dict[str, Any]) -> list[str]:
    more = {"noul": (), "choice": ("probability", "confidence"), "score": ("confidence",)}
    found = []
    for name, question in questions.items():
        found += [name, *(f"{name} {each}" for each in more[question["type"]])]
    return found


def cells_of(response: SystemOneResponse) -> dict[str, Any]:
    """A noul's probability of yes; a choice, its probability and confidence; a score's mean and confidence."""
    cells: dict[str, Any] = {}
    for name, noul in response.nouls.items():
        cells[name] = noul.noul
    for name, choice in response.choices.items():
        cells[name] = choice.choice
        cells[f"{name} probability"] = choice.probabilities[choice.choice]
        cells[f"{name} confidence"] = choice.confidence
    for name, score in response.scores.items():
        cells[name] = score.score
        cells[f"{name} confidence"] = score.confidence
    return cells


def answer_rest(
    target: Path,
    header: list[str],
    rows: list[dict[str, str]],
    states: list[dict[str, str]],
    hashes: list[str],
    questions: dict[str, Any],
    done: int,
    at_once: int,
) -> None:
    """Ask for the rows behind `done`, `at_once` at a time, and append them in order."""
    with (
        TypeSafeClient(base_url=BASE_URL, api_key=API_KEY, timeout=60) as client,
        ThreadPoolExecutor(at_once) as pool,
        target.open("a", newline="", encoding="utf-8") as file,
    ):

        def ask(index: int) -> dict[str, Any]:
            try:
                return cells_of(client.system_one(state=states[index], questions=questions))
            except TypeSafeAPIError as error:
                if error.status not in (
                    413,
                    422,
                ):  # those are about this row; others about all
                    raise
                return {"error": str(error)}

        writer = csv.DictWriter(file, header, restval="")
        if file.tell() == 0:
            writer.writeheader()
        waiting: deque[Future[dict[str, Any]]] = deque()
        left = iter(range(done, len(rows)))
        try:
            for index in progress(range(done, len(rows)), len(rows), done):
                while len(waiting) < 2 * at_once and (following := next(left, None)) is not None:
                    waiting.append(pool.submit(ask, following))
                cells = waiting.popleft().result()
                writer.writerow({**rows[index], **cells, "request": hashes[index]})
                file.flush()
        finally:
            pool.shutdown(cancel_futures=True)


def progress(indices: Iterable[int], total: int, done: int) -> Iterator[int]:
    """Pass `indices` on, with a bar, the speed and the time left on stderr."""
    started, width, live = time.monotonic(), 30, sys.stderr.isatty()
    for count, index in enumerate(indices):
        yield index
        finished = done + count + 1
        rate = (count + 1) / max(time.monotonic() - started, 1e-9)
        bar = ("█" * (width * finished // total)).ljust(width, "·")
        line = (
            f"{bar} {finished}/{total}  {rate:.1f} rows/s  {(total - finished) / rate:.0f} s left"
        )
        if live or finished == total:
            print(f"\r{line}\x1b[K" if live else line, end="" if live else "\n", file=sys.stderr)
    if live:
        print(file=sys.stderr)
    if done == total:
        print("every row is answered already", file=sys.stderr)


if __name__ == "__main__":
    main()
