"""Settings that a run cannot be made with, refused by the key that holds them. Imports no torch.

Every function raises ConfigError, one line: `key=value: what it must be`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from reflex.errors import ConfigError


def check_above_zero(key: str, value: Any) -> None:
    """A finite number above 0."""
    if not (_number(value) and value > 0):
        raise ConfigError(f"{key}={value}: must be a number above 0")


def check_not_negative(key: str, value: Any) -> None:
    """A finite number from 0 on."""
    if not (_number(value) and value >= 0):
        raise ConfigError(f"{key}={value}: must be a number of 0 or more")


def check_share(key: str, value: Any) -> None:
    """A number in 0..1."""
    if not (_number(value) and 0 <= value <= 1):
        raise ConfigError(f"{key}={value}: must be in 0..1")


def check_count(key: str, value: Any) -> None:
    """A number from 1 on."""
    if not _count(value):
        raise ConfigError(f"{key}={value}: must be at least 1")


def check_limit(key: str, value: Any) -> None:
    """A number from 1 on, or None for no limit."""
    if value is not None and not _count(value):
        raise ConfigError(f"{key}={value}: must be at least 1 (null takes everything)")


def check_choice(key: str, value: Any, known: Iterable[str]) -> None:
    """One of `known`."""
    known = list(known)
    if value not in known:
        raise ConfigError(f"{key}={value}: use one of {', '.join(known)}")


def check_names(key: str, value: Iterable[str], known: Iterable[str] | None = None) -> None:
    """At least one name, each once; where `known` is given, all of them among it."""
    value = list(value)
    if not value or len(set(value)) != len(value):
        raise ConfigError(f"{key}={value}: must name at least one, and each once")
    if known is not None:
        known = list(known)
        for name in value:
            check_choice(key, name, known)


def _count(value: Any) -> bool:
    return _number(value) and value >= 1


def _number(value: Any) -> bool:
    # JSON's true is not 1, and comparisons with NaN are all false.
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
