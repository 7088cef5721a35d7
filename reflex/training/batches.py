"""The exact plan of a training run: which rows make up which step, known before the first one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reflex.contract import Request
from reflex.data.rows import Row
from reflex.data.splits import hash_order, stable_fraction
from reflex.forward.groups import by_sum

if TYPE_CHECKING:
    from reflex.model import DecisionModel, Prepared
    from reflex.training.config import TrainConfig


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
    bucket_steps: int | None = None,
) -> Plan:
    """Fill steps with rows in order up to `step_tokens` (a longer row is a step of its own).

    `bucket_steps`: rows of so many steps are sorted by length before they are cut into steps, and the
    steps shuffled: less padding where each leaf is a row of its own.
    """
    size = tokens.__getitem__
    order = range(len(tokens))
    if bucket_steps is None:
        steps = list(by_sum(order, size, step_tokens))
    else:
        steps = []
        for window in by_sum(order, size, step_tokens * bucket_steps):
            parts = by_sum(sorted(window, key=lambda i: (tokens[i], i)), size, step_tokens)
            steps += hash_order(parts, lambda part: str(part[0]), "bucket")
    return Plan(
        tuple(tuple(tuple(micro) for micro in by_sum(step, size, micro_tokens)) for step in steps),
        tuple(tokens),
    )


def request_of(row: Row, orders: int | None = None) -> Request:
    """The row as the request a server would be sent, in its own number of option orders if given."""
    return Request(state=row.state, questions=row.questions, permutations=orders)


def prepare_rows(
    model: DecisionModel, rows: Sequence[Row], config: TrainConfig | None = None
) -> list[Prepared]:
    """Every row tokenised once, in the orders and the layout that `config` asks for."""
    orders = None if config is None else config.orders
    share = None if config is None else config.schema_first
    return [model.prepare(request_of(row, orders), layout_of(row, share)) for row in rows]


def plan_training(
    model: DecisionModel, rows: Sequence[Row], config: TrainConfig
) -> tuple[list[Prepared], Plan]:
    """Rows tokenised in order, at least one and no more than fit `max_tokens`, and the steps they make."""
    packable = model.backbone.facts.packable and model.engine.config.strategy != "flat"
    compiled: list[Prepared] = []
    sizes: list[int] = []
    total = 0
    for row in rows:
        (item,) = prepare_rows(model, [row], config)
        size = item.unique_tokens + (0 if packable else item.reread_tokens)
        total += size
        if compiled and config.max_tokens is not None and total > config.max_tokens:
            break
        compiled.append(item)
        sizes.append(size)
    bucket_steps = None if packable else config.bucket_steps
    return compiled, plan_steps(
        sizes, config.step_tokens, config.micro_tokens, bucket_steps=bucket_steps
    )


def layout_of(row: Row, share: float | None) -> str | None:
    """The layout a row is trained in: drawn by its id, or None for the prompt's own."""
    if share is None:
        return None
    drawn = stable_fraction(row.id, "schema_first") < share
    return "schema_first" if drawn else "state_first"
