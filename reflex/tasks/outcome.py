"""How the command ends: the page of what ran, and the exit status."""

from __future__ import annotations

import logging
from pathlib import Path

from omegaconf import DictConfig

from reflex.errors import ReflexError

log = logging.getLogger(__name__)

status = 0
"""Exit status of the process: 1 once any cell or task has failed."""

groups: list[str] = []
"""Groups of the cells this process evaluated, in order."""


def fail() -> None:
    global status
    status = 1


def close(cfg: DictConfig, group: str) -> None:
    """Print the table of a group's cells and write its page from their records; last line: the page.

    A failed cell (also one that another process ran) makes the exit status 1.
    """
    from reflex.tracking.record import find_records

    listing = find_records(Path(cfg.runs_dir), group=group)
    if not listing.found:
        return
    if any(found.record.status == "failed" for found in listing.found):
        fail()
    # Hydra turns an exception in a callback into a warning; a page that cannot be written is a failure.
    try:
        from reflex.reporting import print_table, write_group_page

        print_table([found.record for found in listing.found])
        path = write_group_page(listing.found, Path(cfg.runs_dir), Path(cfg.results_dir))
    except (ReflexError, OSError) as error:
        log.error("error: the records are kept, but the page failed: %s", error)
        fail()
        return
    print(f"page: {path}")
