"""Splits and orders by hash, never by a random generator: new rows move no old one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from reflex.errors import ConfigError
from reflex.hashing import stable_hash

T = TypeVar("T")

HALVES: Mapping[str, float] = MappingProxyType({"fit": 0.5, "report": 0.5})


def stable_fraction(key: str, salt: str) -> float:
    """`stable_hash` as a number in [0, 1)."""
    return (stable_hash(key, salt) >> 11) / 2**53  # 53 bits: exact, never rounds up to 1


def split_of(key: str, salt: str, fractions: Mapping[str, float] = HALVES) -> str:
    """The split of `key`. Give rows that share a group the group as key, so that it stays whole.

    `fractions` maps split name to expected share, in order. Raises ConfigError unless they are
    non-negative and sum to 1.
    """
    if not fractions or min(fractions.values()) < 0 or abs(sum(fractions.values()) - 1) > 1e-9:
        raise ConfigError(f"split fractions {dict(fractions)} must be non-negative and sum to 1")
    place, edge, last = stable_fraction(key, salt), 0.0, ""
    for name, share in fractions.items():
        if share == 0:
            continue
        edge, last = edge + share, name
        if place < edge:
            return name
    return last  # the rounding of the last edge


def hash_order(items: Iterable[T], key: Callable[[T], str], salt: str) -> list[T]:
    """Items in an order that looks shuffled and depends on nothing but their keys."""
    return sorted(items, key=lambda item: (stable_hash(key(item), salt), key(item)))
