"""What a task is, and how one ends."""

from __future__ import annotations

from typing import Protocol

from omegaconf import DictConfig


class Task(Protocol):
    """A config dataclass with `_target_`; `run` does the work and returns the exit status.

    A task raises ReflexError for what a user can mend; `reflex.run` prints it as one line. A task that
    records its cells also has `failed(cfg, error)`: it records a sweep's cell for which `run` raised.
    """

    name: str

    def run(self, cfg: DictConfig) -> int: ...
