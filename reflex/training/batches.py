"""The exact plan of a training run: which rows make up which step, known before the first one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from reflex.contract import Request
from reflex.data.rows import Row
from reflex.data.splits import hash_order


@dataclass(frozen=True)
class Plan:
    """steps[s] lists micro-batches of row indices; `tokens[i]` unique tokens of row i."""

    steps: tuple[tuple[tuple[int, ...], ...], ...]
    tokens: tuple[int, ...]

    @property
    def total_tokens(self) -> int:
        return sum(self.tokens[i] for step in self.steps for micro in step for i in micro)

    def fingerprint(self) -> str:
        return hashlib.sha256(repr(self.steps).encode()).hexdigest()


def plan_steps(
    tokens: Sequence[int],
    step_tokens: int,
    micro_tokens: int,
    *,
    max_tokens: int | None = None,
    bucket_steps: int | None = None,
) -> Plan:
    """Fill steps with rows in order up to `step_tokens` (a longer row is a step of its own).

    `bucket_steps`: rows of so many steps are sorted by length before they are cut into steps, and the
    steps shuffled: less padding where each leaf is a row of its own.
    """
    order = list(range(len(tokens)))
    if max_tokens is not None:
        total = 0
        for place, index in enumerate(order):
            total += tokens[index]
            if total > max_tokens:
                order = order[: max(1, place)]
                break
    if bucket_steps is None:
        steps = fill(order, tokens, step_tokens)
    else:
        steps = []
        for window in fill(order, tokens, step_tokens * bucket_steps):
            parts = fill(sorted(window, key=lambda i: (tokens[i], i)), tokens, step_tokens)
            steps += hash_order(parts, lambda part: str(part[0]), "bucket")
    return Plan(
        tuple(tuple(tuple(micro) for micro in fill(step, tokens, micro_tokens)) for step in steps),
        tuple(tokens),
    )


def fill(order: Sequence[int], tokens: Sequence[int], budget: int) -> list[list[int]]:
    parts: list[list[int]] = []
    filled = 0
    for index in order:
        if not parts or filled + tokens[index] > budget:
            parts.append([])
            filled = 0
        parts[-1].append(index)
        filled += tokens[index]
    return parts


def request_of(row: Row, orders: int | None = None) -> Request:
    """The row as the request a server would be sent, in its own number of option orders if given."""
    return Request(state=row.state, questions=row.questions, permutations=orders)
