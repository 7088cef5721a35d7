"""Numbers that a training cannot be run with, refused by the key that holds them. Imports no torch."""

from __future__ import annotations

import math

from reflex.errors import ConfigError


def check_above_zero(key: str, value: float) -> None:
    """Raises ConfigError for 0, a negative number, an infinite one and NaN."""
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{key}={value}: must be a number above 0")


def check_not_negative(key: str, value: float) -> None:
    """Raises ConfigError for a negative number, an infinite one and NaN."""
    if not (math.isfinite(value) and value >= 0):
        raise ConfigError(f"{key}={value}: must be a number of 0 or more")


def check_count(key: str, value: int) -> None:
    """Raises ConfigError for less than 1."""
    if value < 1:
        raise ConfigError(f"{key}={value}: must be at least 1")
