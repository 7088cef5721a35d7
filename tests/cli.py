"""`python -m reflex.run` inside the test process, and a small task file for it to read."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

REPO = Path(__file__).resolve().parent.parent

QUESTIONS = {
    "good": {"type": "noul", "instructions": "Is this good?"},
    "mood": {"type": "choice", "criteria": {"glad": None, "calm": None, "cross": "angry or upset"}},
    "stars": {"type": "score", "criteria": ["bad", "poor", "fair", "great"]},
}


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit status, standard output, standard error."""

    status: int
    out: str
    err: str

    @property
    def page(self) -> Path:
        """The page named by the last line."""
        last = self.out.splitlines()[-1]
        assert last.startswith("page: "), self.out + self.err
        return Path(last.removeprefix("page: "))

    @property
    def table(self) -> list[list[str]]:
        """Cells of the printed table without the measured times."""
        rows = [
            line.strip("│").split("│") for line in self.out.splitlines() if line.startswith("│")
        ]
        return [[cell.strip() for cell in row[:-1]] for row in rows]


def run(*words: str) -> Ended:
    """One command; environment, logging and arguments are as before afterwards."""
    from reflex.run import main

    out, err = io.StringIO(), io.StringIO()
    with (
        _restored(),
        mock.patch.object(sys, "argv", ["reflex/run.py", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            status = main()
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
    return Ended(status, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _restored() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("reflex")
    before = root.handlers[:], root.level, own.level
    with mock.patch.dict(os.environ):
        try:
            yield
        finally:
            root.handlers[:], root.level, own.level = before


def start(*words: str, before: str = "") -> subprocess.Popen[str]:
    """The command as a process of its own, after running the Python code `before` in it."""
    code = f"import sys\n{before}\nfrom reflex.run import main\nsys.exit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def write_tasks(path: Path, rows: int = 6, state: str = "row {i} is fine") -> Path:
    """A task file with the three question types and soft labels."""
    lines = []
    for i in range(rows):
        share = i / rows
        labels = {
            "good": {"true": share, "false": 1 - share},
            "mood": {"glad": share, "calm": 0.0, "cross": 1 - share},
            "stars": i % 4,
        }
        row = {"id": f"r{i}", "state": state.format(i=i), "questions": QUESTIONS, "labels": labels}
        lines.append(json.dumps(row))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def cells(runs: Path) -> dict[str, Path]:
    """Folders of recorded cells by the order axis of their record."""
    found = {}
    for file in sorted(runs.glob("*/record.json")):
        found[json.loads(file.read_text())["axes"]["orders"]] = file.parent
    return found
