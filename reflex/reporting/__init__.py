"""Records to pages: tables, plots, verdicts. Needs no model and imports no torch.

`targets` maps the name of a form to the function that writes a sweep in it and returns where.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reflex.reporting.html import write_html
from reflex.reporting.index import write_index
from reflex.reporting.page import write_page
from reflex.reporting.sweep import Places, Sweep, find_sweeps, group_sweep
from reflex.reporting.terminal import print_table
from reflex.reporting.wandb_report import write_wandb_report

__all__ = [
    "Places",
    "Sweep",
    "find_sweeps",
    "group_sweep",
    "print_table",
    "targets",
    "write_index",
    "write_page",
]

targets: dict[str, Callable[[Sweep, Places], Path]] = {
    "markdown": write_page,
    "html": write_html,
    "wandb": write_wandb_report,
}
