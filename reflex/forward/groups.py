"""Cutting a list of work into groups that fit a budget. Items keep their order; no group is empty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

SIMILAR = 0.8


def by_tokens(
    items: Iterable[Item], length: Callable[[Item], int], budget: int
) -> Iterator[list[Item]]:
    """Groups of items (longest first) whose padded size, count × longest, stays within `budget`; a longer item
    stands alone."""
    group: list[Item] = []
    for item in items:
        if group and (len(group) + 1) * length(group[0]) > budget:
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def by_sum(items: Iterable[Item], size: Callable[[Item], int], budget: int) -> Iterator[list[Item]]:
    """Groups of items whose summed size stays within `budget`; a larger item stands alone."""
    group: list[Item] = []
    total = 0
    for item in items:
        if group and total + size(item) > budget:
            yield group
            group, total = [], 0
        group.append(item)
        total += size(item)
    if group:
        yield group


def similar(items: Iterable[Item], length: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Runs of items (longest first) none of which is shorter than SIMILAR of the run's longest."""
    group: list[Item] = []
    for item in items:
        if group and length(item) < SIMILAR * length(group[0]):
            yield group
            group = []
        group.append(item)
    if group:
        yield group
