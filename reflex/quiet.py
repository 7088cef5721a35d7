"""Lightning announces devices and upsells on every Trainer; a run's own lines would drown."""

from __future__ import annotations

import logging
import warnings


def quiet_lightning() -> None:
    """Errors only, and no warnings, from here on."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
