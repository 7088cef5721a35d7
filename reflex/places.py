"""Where configurations and recorded runs lie."""

from __future__ import annotations

import os
from pathlib import Path


def conf_dir() -> Path:
    """The folder of configurations: beside the package in a checkout, inside it in a wheel."""
    inside = Path(__file__).parent / "conf"
    return inside if inside.is_dir() else Path(__file__).parents[1] / "conf"


def runs_folder() -> Path:
    """The folder of recorded runs: REFLEX_RUNS, else `runs`. An empty variable is one that is not set."""
    return Path(os.environ.get("REFLEX_RUNS") or "runs")
