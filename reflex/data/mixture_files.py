"""Rows of a mixture as a file that is proved to hold them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reflex.data.jsonl import canonical
from reflex.data.rows import Row, read_jsonl, write_jsonl
from reflex.errors import DataError


def write_checked(path: Path, rows: Sequence[Row]) -> None:
    """Write rows, read them back and compare, the order of options included.

    Raises DataError naming the first row that comes back different; then no file is left at `path`.
    """
    waiting = path.with_name(f"{path.name}.unchecked")
    write_jsonl(waiting, rows)
    back = read_jsonl(waiting)
    for wanted, found in zip(rows, back, strict=True):
        if canonical(wanted.to_json()) != canonical(found.to_json()):
            waiting.unlink()
            raise DataError(
                f"row {wanted.id}: comes back from {path.name} changed; nothing was kept"
            )
    waiting.replace(path)
