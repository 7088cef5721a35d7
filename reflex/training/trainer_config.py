"""Group `trainer`: on how many devices and processes training runs. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class TrainerConfig:
    """Arguments of `lightning.Trainer`, which documents them; `devices` is a number, a list or `auto`."""

    devices: Any = 1
    num_nodes: int = 1
    strategy: str = "auto"
    precision: str | None = None
    deterministic: bool | None = None
    detect_anomaly: bool = False
