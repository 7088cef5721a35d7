"""Checkpoints: trained weights, optimiser, schedule, step and random states; whole or not there at all."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reflex.files import not_written, written_whole

log = logging.getLogger(__name__)


def save_checkpoint(folder: Path, step: int, state: dict[str, Any], keep: int) -> Path:
    """Write `step-<n>.pt` and remove all but the `keep` newest. `state` gets the random states added.

    Raises RecordError where it cannot be written.
    """
    path = folder / f"step-{step:07d}.pt"
    try:
        with written_whole(path) as stream:
            torch.save({**state, "step": step, "random": random_states()}, stream)
    except OSError as error:
        raise not_written(path, error) from error
    for old in checkpoints(folder)[keep:]:
        old.unlink(missing_ok=True)
    return path


def checkpoints(folder: Path) -> list[Path]:
    """Finished checkpoints, newest first by step number (never by file time)."""
    return sorted(folder.glob("step-*.pt"), reverse=True)


def load_newest(folder: Path) -> dict[str, Any] | None:
    """The newest checkpoint that can be read, or None; unreadable and partial ones are named and skipped."""
    for partial in sorted(folder.glob("*.tmp")):
        log.warning("%s: a partial checkpoint is ignored", partial)
        partial.unlink(missing_ok=True)
    for path in checkpoints(folder):
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=False)
        except Exception as error:  # a torn file fails in a dozen ways; all mean the same here
            log.warning("%s: cannot be read (%s) and is left out", path, type(error).__name__)
            continue
        return state
    if checkpoints(folder):
        log.warning("%s: no checkpoint can be read; training begins at step 0", folder)
    return None


def random_states() -> dict[str, Any]:
    states: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def restore_random(states: dict[str, Any]) -> None:
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"])
