"""Option orders: which permutations of a question's options are shown, and nothing else.

Orders of a question depend on (seed, what is asked) only, never on its id or its neighbours: renaming a
question must not move its answer (docs/decisions/040-orders-by-content.md).
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reflex.checks import check_choice, check_count
from reflex.contract import Noul, Question, Score, option_keys
from reflex.contract.questions import MAX_PERMUTATIONS
from reflex.errors import ConfigError

KINDS = ("shuffled", "reversed", "cyclic")


@dataclass
class OrdersConfig:
    """How many orders each question is read in, and how they are drawn.

    kind: `shuffled` = identity, then distinct seeded shuffles (two options: the swap);
          `reversed` = identity and its reversal; `cyclic` = all n rotations (`permutations` is ignored).
    permute_score: False keeps the levels of `score` questions in their natural order (one order).
    """

    kind: str = "shuffled"
    permutations: int = 1
    permute_score: bool = True
    seed: int = 0


def check_orders(config: OrdersConfig) -> None:
    """Raise ConfigError for an unknown kind or a number of orders that no request may ask for either."""
    check_choice("orders.kind", config.kind, KINDS)
    check_count("orders.permutations", config.permutations)
    if config.permutations > MAX_PERMUTATIONS:
        raise ConfigError(
            f"orders.permutations={config.permutations}: at most {MAX_PERMUTATIONS} orders; "
            "orders=cyclic reads every rotation"
        )


class Rotations(Sequence[tuple[int, ...]]):
    """All rotations of n options, each made when it is read: together they are n² numbers."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, shift: Any) -> Any:
        shift = range(self.n)[shift]
        return (*range(shift, self.n), *range(shift))


def option_orders(
    config: OrdersConfig, question: Question, permutations: int | None = None
) -> Sequence[tuple[int, ...]]:
    """The orders of one question: tuples of option indices, identity first, all distinct.

    `permutations` (a request's own wish) replaces the configured number. There are never more than n!.
    """
    n = len(option_keys(question))
    identity = tuple(range(n))
    if isinstance(question, Score) and not config.permute_score:
        return (identity,)
    if config.kind == "cyclic" and permutations is None:
        return Rotations(n)
    wanted = config.permutations if permutations is None else permutations
    if config.kind == "reversed" and permutations is None:
        return (identity,) if n == 1 else (identity, identity[::-1])
    if isinstance(question, Noul):
        wanted = min(wanted, 2)
    # Escaped JSON: lone surrogates are legal in a question and cannot be encoded as they are.
    asked = json.dumps(question.model_dump(), separators=(",", ":"))
    return _shuffles(identity, wanted, random.Random(f"{config.seed}:{asked}"))


def _shuffles(
    identity: tuple[int, ...], wanted: int, rng: random.Random
) -> tuple[tuple[int, ...], ...]:
    n = len(identity)
    limit = min(wanted, math.factorial(min(n, 20)))  # no count comes near 20!
    orders = [identity]
    while len(orders) < limit:
        candidate = list(identity)
        rng.shuffle(candidate)
        if tuple(candidate) not in orders:
            orders.append(tuple(candidate))
    return tuple(orders)
