"""How the command ends: the page of what ran, and the exit status."""

from __future__ import annotations

import logging
from pathlib import Path

from omegaconf import DictConfig

from reflex.errors import ReflexError
from reflex.messages import say

log = logging.getLogger(__name__)

status = 0
"""Exit status of the process: 1 once any cell or task has failed."""

cells: dict[str, set[Path]] = {}
"""Groups, in order, of the cells this process ran or found recorded, and the folders of each: two
experiments of one command may share a cell."""

reason = ""
"""Why the last cell failed, in one line, where it raised."""

launched = True
"""Whether this process runs cells for the command's own process, which is the one that calls `reset`."""


class CellFailed(ReflexError):
    """A cell that ran in another process failed."""


def reset() -> None:
    """Forget everything: a command starts, in this process."""
    global status, reason, launched
    status, reason, launched = 0, "", False
    cells.clear()


def fail(why: str = "") -> None:
    global status, reason
    status, reason = 1, why


def hand_over(cell: str) -> None:
    """After a cell in a launched process: raise CellFailed if it failed, which Hydra carries back.

    The launcher has ended all cells by then; in the command's own process nothing may stop a sweep.
    """
    global status
    if launched and status:
        status = 0  # the next cell of this process starts anew
        raise CellFailed(f"{cell} failed: {reason or 'its own output and record say why'}")


def ran(group: str, folder: Path) -> None:
    """A cell of `group` is (or will be) recorded in `folder`."""
    cells.setdefault(group, set()).add(folder)


def close(cfg: DictConfig, group: str) -> None:
    """Print the table of a group's cells and write its page from their records; last line: the page.

    A failed cell (also one that another process ran) makes the exit status 1. Never raises: Hydra turns
    an exception in a callback into a warning, and a page that cannot be written is a failure.
    """
    try:
        _close(Path(cfg.runs_dir), Path(cfg.results_dir), group)
    except Exception as error:
        fail()
        say(error, "the records are kept, but the page failed: ")


def _close(runs: Path, results: Path, group: str) -> None:
    from reflex.tracking.record import find_records

    found = find_records(runs, group=group).found
    # Cells run by other processes are known from their records alone.
    own = [cell for cell in found if cell.path in cells.get(group, ())]
    if not found:
        return
    from reflex.reporting import Places, group_sweep, print_table, write_page

    places = Places(runs, results)
    sweep = group_sweep(places, own or found)
    if sweep.failed:
        fail()
    print_table([cell.record for cell in sweep.cells])
    print(f"page: {write_page(sweep, places)}")
