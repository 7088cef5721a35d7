"""The folder of local rows, which `REFLEX_DATA` names.

It is an environment variable and not a config key because a path must not change which run this is; what was
read is pinned by hashes in a suite's facts.
"""

from __future__ import annotations

import os
from pathlib import Path

from reflex.errors import DataError

UNNAMED = Path("data")
"""Where training sources and the guard look when no folder is named; benchmarks then go to the hub."""


def data_root() -> Path | None:
    """The folder `REFLEX_DATA` names, if it is set. Raises DataError when that is no folder."""
    raw = os.environ.get("REFLEX_DATA")
    if not raw:
        return None
    root = Path(raw).expanduser()
    if not root.is_dir():
        raise DataError(f"REFLEX_DATA={raw} is not a folder; correct or unset it")
    return root


def source_root() -> Path:
    """`data_root`, else `UNNAMED`, which need not be there. Raises DataError as `data_root`."""
    return data_root() or UNNAMED
