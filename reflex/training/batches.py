"""The exact plan of a training run: which rows make up which step, known before the first one."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reflex.contract import Request
from reflex.data.rows import Row
from reflex.data.splits import hash_order, stable_fraction
from reflex.errors import ContextLengthError
from reflex.forward.groups import by_sum

if TYPE_CHECKING:
    from reflex.model import DecisionModel, Prepared
    from reflex.training.config import TrainConfig


Ids = tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """steps[s] lists micro-batches of row indices; `tokens[i]` tokens of row i's own trees; `apart[i]` what its
    readouts have read beside them, once per micro-batch."""

    steps: tuple[tuple[tuple[int, ...], ...], ...]
    tokens: tuple[int, ...]
    apart: tuple[tuple[Ids, ...], ...]

    def read(self, rows: Sequence[int], known: Collection[Ids] = ()) -> int:
        """Tokens that one forward over `rows` reads; what is `known` is not read again."""
        beside = {ids for i in rows for ids in self.apart[i]}
        return sum(self.tokens[i] for i in rows) + sum(map(len, beside.difference(known)))

    def step_tokens(self, step: int) -> int:
        return sum(map(self.read, self.steps[step]))

    @property
    def total_tokens(self) -> int:
        return sum(map(self.step_tokens, range(len(self.steps))))

    def fingerprint(self) -> str:
        return hashlib.sha256(repr(self.steps).encode()).hexdigest()


def plan_steps(
    tokens: Sequence[int],
    step_tokens: int,
    micro_tokens: int,
    *,
    bucket_steps: int | None = None,
    apart: Sequence[tuple[Ids, ...]] = (),
) -> Plan:
    """Fill steps with rows in order up to `step_tokens` (a longer row is a step of its own), each step in
    micro-batches of at most `micro_tokens` (the same). `apart`: of every row, or empty where no row has any.

    `bucket_steps`: rows of so many steps are sorted by length before they are cut into steps, and the
    steps shuffled: less padding where each leaf is a row of its own.
    """
    whole = Plan((), tuple(tokens), tuple(apart) or ((),) * len(tokens))
    order = range(len(tokens))
    if bucket_steps is None:
        steps = list(_filled(whole, order, step_tokens, micro_tokens))
    else:
        steps = []
        for window in by_sum(order, lambda i: whole.read([i]), step_tokens * bucket_steps):
            by_length = sorted(window, key=lambda i: (tokens[i], i))
            parts = _filled(whole, by_length, step_tokens, micro_tokens)
            steps += hash_order(parts, lambda part: str(part[0][0]), "bucket")
    return replace(whole, steps=tuple(tuple(map(tuple, step)) for step in steps))


def micro_batches(plan: Plan, rows: Sequence[int], micro_tokens: int) -> list[list[int]]:
    """`rows` in micro-batches of at most `micro_tokens`; a longer row stands alone."""
    return [micro for step in _filled(plan, rows, math.inf, micro_tokens) for micro in step]


def _filled(
    plan: Plan, rows: Iterable[int], step_tokens: float, micro_tokens: int
) -> Iterator[list[list[int]]]:
    """Steps of micro-batches, filled with rows in their order."""
    step: list[list[int]] = []
    known: set[Ids] = (
        set()
    )  # of the last micro-batch, which holds `last` tokens; the step holds `total`
    last = total = 0
    for row in rows:
        added = plan.read([row], known)
        opens = not step or last + added > micro_tokens
        if opens:
            added = plan.read([row])
        if step and total + added > step_tokens:
            yield step
            step, total, opens, added = [], 0, True, plan.read([row])
        if opens:
            step.append([])
            known, last = set(), 0
        step[-1].append(row)
        known.update(plan.apart[row])
        last += added
        total += added
    if step:
        yield step


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
    """Rows tokenised in order, at least one and no more than fit `max_tokens`, and the steps they make.

    Every token that the forward reads counts: what readouts have read apart from the trees once per micro-batch.
    Raises ContextLengthError for a row among them that is longer than the backbone's context.
    """
    packable = model.backbone.facts.packable and model.engine.config.strategy != "flat"
    compiled: list[Prepared] = []
    sizes: list[int] = []
    apart: list[tuple[Ids, ...]] = []
    known: dict[Ids, Ids] = {}  # each sequence is kept once, whatever number of rows offer it
    least = 0  # read however the rows are divided
    limit = config.max_tokens
    for row in rows:
        (item,) = prepare_rows(model, [row], config)
        size = item.unique_tokens + (0 if packable else item.reread_tokens)
        beside = item.apart
        least += size + sum(len(ids) for ids in beside if ids not in known)
        if compiled and limit is not None and least > limit:
            break
        compiled.append(item)
        sizes.append(size)
        apart.append(tuple(known.setdefault(ids, ids) for ids in beside))

    def planned(count: int) -> Plan:
        return plan_steps(
            sizes[:count],
            config.step_tokens,
            config.micro_tokens,
            bucket_steps=None if packable else config.bucket_steps,
            apart=apart[:count],
        )

    count = len(sizes)
    if limit is not None and planned(count).total_tokens > limit:
        counts = range(1, count + 1)
        count = max(1, bisect_right(counts, limit, key=lambda n: planned(n).total_tokens))
    for row, item in zip(rows, compiled[:count], strict=False):
        _check_length(model, row, item)
    return compiled[:count], planned(count)


def _check_length(model: DecisionModel, row: Row, item: Prepared) -> None:
    """Raise ContextLengthError naming the row: not hours later, at its step."""
    from reflex.forward.tree import Segment, Tree

    try:
        for tree in (*item.trees, *(Tree((), (Segment(ids),)) for ids in item.apart)):
            model.engine.check_length(tree)
    except ContextLengthError as error:
        raise ContextLengthError(
            f"row {row.id}: {error}; a lower mixture.max_chars leaves long states out, mixture.sources long options"
        ) from None


def layout_of(row: Row, share: float | None) -> str | None:
    """The layout a row is trained in: drawn by its id, or None for the prompt's own."""
    if share is None:
        return None
    drawn = stable_fraction(row.id, "schema_first") < share
    return "schema_first" if drawn else "state_first"
