"""`calibration=none`: temperature 1 everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Calibrator(Protocol):
    """Temperature of a question, and the bucket it came from."""

    def temperature(self, kind: str, readout: str, n_options: int) -> tuple[float, str | None]:
        """(T > 0, bucket key or None) for a question of type `kind` read by `readout`."""
        ...


@dataclass
class NoCalibration:
    _target_: str = "reflex.calibration.none.NoCalibration"
    name: str = "none"

    def temperature(self, kind: str, readout: str, n_options: int) -> tuple[float, str | None]:
        return 1.0, None
