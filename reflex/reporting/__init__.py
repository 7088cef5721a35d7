"""Records to pages: tables, plots, verdicts. Needs no model and imports no torch.

`targets` maps the name of a form to the function that writes a sweep in it and returns where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from reflex.reporting.html import write_html
from reflex.reporting.index import write_index
from reflex.reporting.page import write_page
from reflex.reporting.sweep import Places, Sweep, find_sweeps, group_sweep
from reflex.reporting.terminal import print_table
from reflex.reporting.wandb_report import write_wandb_report
from reflex.tracking.record import Found

__all__ = [
    "Places",
    "Sweep",
    "find_sweeps",
    "group_sweep",
    "print_table",
    "targets",
    "write_group_page",
    "write_index",
    "write_page",
]

targets: dict[str, Callable[[Sweep, Places], Path]] = {
    "markdown": write_page,
    "html": write_html,
    "wandb": write_wandb_report,
}


def write_group_page(
    found: Sequence[Found], runs: Path | str, results: Path | str, target: str = "markdown"
) -> Path:
    """Write the page of the cells of one group (a sweep that just ended); returns its path.

    Cells of the group that differ in scope make separate sweeps; the newest is written. Raises
    RecordError (one line) as `write_page` does.
    """
    places = Places(Path(runs), Path(results))
    return targets[target](group_sweep(places, found), places)
