"""A cell's predictions, read once a page: its tables, plots and comparisons ask for the same files."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from reflex.tracking.predictions import read_predictions
from reflex.tracking.record import Found

if TYPE_CHECKING:
    import pandas as pd

KEPT = 16
"""Files that stay in memory: more than most sweeps have cells."""


def predictions_of(cell: Found) -> pd.DataFrame:
    """The predictions of a finished cell. The frame is shared: nobody writes to it. Raises RecordError."""
    assert cell.record.predictions is not None
    return read_once(cell.path, cell.record.predictions.sha256)


@lru_cache(maxsize=KEPT)
def read_once(path: Path, _sha256: str) -> pd.DataFrame:
    """As `predictions_of`, for a cell's folder and the hash of what is in it."""
    return read_predictions(path)
