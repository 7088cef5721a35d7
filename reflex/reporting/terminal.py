"""The table of cells on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reflex.reporting.tables import cell_rows
from reflex.tracking.record import RunRecord

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 160
"""Columns where standard output is not a terminal, so that a log shows whole numbers."""


def print_table(records: Sequence[RunRecord], console: Console | None = None) -> None:
    """Print finished cells with their values (the page has the intervals), then failed cells."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = console or Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    done = [record for record in records if record.status == "finished"]
    if done:
        head, rows, texts = cell_rows(done)
        table = Table(title=done[0].experiment or done[0].group, title_justify="left")
        for index, name in enumerate(head):
            table.add_column(
                Text(name.replace("/", " /")), justify="left" if index < texts else "right"
            )
        for row in rows:
            # Plain text: a name with square brackets is not markup.
            shown = [*row[:texts], *map(_narrow, row[texts:])]
            table.add_row(*map(Text, shown))
        out.print(table)
    for record in records:
        if record.status == "failed":
            words = " ".join(str(record.error).split())
            out.print(Text(f"failed: {record.name}: {words}", style="red"), soft_wrap=True)


def _narrow(text: str) -> str:
    # Ten metrics with their intervals fit no terminal: those are in the page.
    return text.partition(" (")[0]
