"""`calibration=none`: temperature 1 everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Calibrator(Protocol):
    """Temperature of a question and the bucket it came from, and what is taken off its scores before."""

    def temperature(self, kind: str, readout: str, n_options: int) -> tuple[float, str | None]:
        """(T > 0, bucket key or None) for a question of type `kind` read by `readout`."""
        ...

    def adjust(
        self,
        kind: str,
        readout: str,
        keys: Sequence[str],
        order_keys: Sequence[Sequence[str]],
        scores: Sequence[Sequence[float]],
    ) -> Sequence[Sequence[float]]:
        """The scores (orders × presented options) a temperature is applied to."""
        ...


@dataclass
class NoCalibration:
    _target_: str = "reflex.calibration.none.NoCalibration"
    name: str = "none"

    @property
    def fits(self) -> bool:
        """Whether a run has to fit it."""
        return False

    def load(self, here: Mapping[str, Any]) -> NoCalibration:
        """Itself, whatever it is used with."""
        return self

    def temperature(self, kind: str, readout: str, n_options: int) -> tuple[float, str | None]:
        return 1.0, None

    def adjust(
        self,
        kind: str,
        readout: str,
        keys: Sequence[str],
        order_keys: Sequence[Sequence[str]],
        scores: Sequence[Sequence[float]],
    ) -> Sequence[Sequence[float]]:
        return scores
