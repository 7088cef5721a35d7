"""`packed`, `batched`, `flat` and `tree_rows`: the same hidden states by four arrangements of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import TypeVar

import torch

from reflex.backbones.backbone import Backbone
from reflex.forward import calls
from reflex.forward.config import ForwardConfig
from reflex.forward.groups import by_sum, by_tokens, similar
from reflex.forward.side_by_side import beside_tokens, call_tokens, divided, run_calls
from reflex.forward.state_cache import HeadStates, PrefixState, StateCache
from reflex.forward.tree import (
    Row,
    Tree,
    Unit,
    branch_tokens,
    fill_rows,
    join_rows,
    lay_out,
    unit_tokens,
    units,
)

Item = TypeVar("Item")

Span = tuple[int, int]
"""(position in its row, flat read index) of one hidden state to keep."""

LeafRow = tuple[tuple[int, ...], tuple[Span, ...]]
"""Token ids of a row and what is read of it."""

Job = tuple[Callable[[], torch.Tensor], Sequence[Sequence[Span]]]
"""A model call (rows × tokens × hidden) and, per row, what is read of it."""


class Strategies:
    """The ways to run trees; each collects hidden states as its model calls deliver them."""

    def __init__(
        self,
        backbone: Backbone,
        config: ForwardConfig,
        cache: StateCache,
        heads: HeadStates | None,
        trees: Sequence[Tree],
    ) -> None:
        self.backbone = backbone
        self.config = config
        self.cache = cache
        self.heads = heads
        self.trees = trees
        self.side_by_side = backbone.device.type == "cpu" and heads is not None
        self.starts = [0, *accumulate(tree.n_reads for tree in trees)]
        self.cache_hits = [False] * len(trees)
        self._found: list[torch.Tensor] = []
        self._where: list[int] = []

    # -- strategies ----------------------------------------------------------------------------

    def flat(self, chosen: Sequence[int]) -> None:
        """Each leaf a row of its own: prefix and branch read together, longest rows first.

        Only the prompt's own first words are not read again: every row continues their state.
        """
        for indices, head in self._by_head(chosen):
            start = 0 if head is None else head.length
            rows = [row for index in indices for row in self._leaf_rows(index, start)]
            rows.sort(key=lambda row: -len(row[0]))
            groups = by_tokens(rows, _length, self._budget(map(_length, rows)))
            self._run(groups, _length, partial(self._leaf_job, head))

    def batched(self, chosen: Sequence[int]) -> None:
        """The prefix once; then one leaf a row over copies of its state."""
        alike: dict[str, list[int]] = {}
        for index in chosen:
            alike.setdefault(self.trees[index].prefix_key, []).append(index)
        for indices in alike.values():
            state = self._states(indices)[indices[0]]
            leaves = (row for i in indices for row in self._leaf_rows(i, state.length))
            rows = sorted(leaves, key=lambda row: -len(row[0]))
            # Each row carries a copy of the state, so the state's length counts towards the budget.
            size, most = partial(_row_tokens, extra=state.length), 4 * self.config.max_tokens
            cut = divided if self.side_by_side else by_tokens
            self._run(cut(rows, size, most), size, partial(self._leaf_job, state), most)

    def packed(self, chosen: Sequence[int]) -> None:
        """Prefixes once; then rows of packed branches, several trees to a call, under a block mask."""
        ordered = sorted(chosen, key=lambda index: -self.trees[index].unique_tokens)
        size = lambda index: self.trees[index].unique_tokens  # noqa: E731
        for wave in by_sum(ordered, size, 4 * self.config.max_tokens):
            states = self._states(wave)
            rows = [row for index in wave for row in self._packed_rows(index)]
            rows.sort(key=lambda row: (-len(row.ids), -states[row.tree].length))
            groups = self._by_mask(rows, lambda row: states[row.tree].length)  # noqa: B023
            self._run(groups, _row_length, partial(self._packed_job, states))

    def tree_rows(self, chosen: Sequence[int]) -> None:
        """Prefix and branches under one block mask, no cache: the strategy gradients flow through.

        Several trees share a row, so that hardly any token is padding; each sees the prompt's own first
        words, which a row holds once, and itself.
        """
        by_head: dict[tuple[int, ...], list[Row]] = {}
        for index in chosen:
            tree = self.trees[index]
            prefix = len(tree.prefix)
            room = max(1, self.config.max_tokens - prefix)
            beside = max(branch_tokens(prefix), self.config.tree_row_tokens - prefix)
            for part in by_sum(units(tree, room), partial(unit_tokens, tree), min(room, beside)):
                row = lay_out(index, tree, part, self.starts[index], with_prefix=True)
                by_head.setdefault(tree.head_ids, []).append(row)
        rows = [
            join_rows(group, len(head))
            for head, alike in by_head.items()
            for group in fill_rows(alike, self.config.tree_row_tokens, len(head))
        ]
        rows.sort(key=lambda row: -len(row.ids))
        for near in similar(rows, _row_length):
            self._run(self._by_mask(near, lambda row: 0), _row_length, self._tree_job)

    # -- pieces of a strategy ------------------------------------------------------------------

    def _by_head(self, chosen: Sequence[int]) -> Iterator[tuple[Sequence[int], PrefixState | None]]:
        """Trees that begin with the same words of the prompt, with the state after these."""
        alike: dict[tuple[int, ...], list[int]] = {}
        for index in chosen:
            ids = self.trees[index].head_ids if self.heads is not None else ()
            alike.setdefault(ids, []).append(index)
        for ids, indices in alike.items():
            yield indices, None if self.heads is None else self.heads.get(ids)

    def _leaf_rows(self, index: int, start: int) -> Iterator[LeafRow]:
        """(ids, reads) of every leaf's row, from token `start` of the prefix on."""
        tree = self.trees[index]
        seen: set[int] = set()
        for path in tree.leaf_paths:
            ids: list[int] = list(tree.prefix[start:])
            reads: list[Span] = []
            for segment_index in path:
                segment = tree.segments[segment_index]
                if segment_index not in seen:
                    seen.add(segment_index)
                    base = self.starts[index] + tree.read_starts[segment_index]
                    reads += [(len(ids) + at, base + k) for k, at in enumerate(segment.reads)]
                ids += segment.ids
            yield tuple(ids), tuple(reads)

    def _packed_rows(self, index: int) -> list[Row]:
        """Fill rows to about `row_tokens`, longest units first into the emptiest row."""
        tree = self.trees[index]
        pieces = units(tree, max(1, self.config.max_tokens - len(tree.prefix)))
        sizes = {unit: unit_tokens(tree, unit) for unit in pieces}
        count = math.ceil(sum(sizes.values()) / self.config.row_tokens)
        bins: list[list[Unit]] = [[] for _ in range(min(count, len(pieces)))]
        filled = [0] * len(bins)
        for unit in sorted(pieces, key=lambda unit: -sizes[unit]):
            emptiest = filled.index(min(filled))
            bins[emptiest].append(unit)
            filled[emptiest] += sizes[unit]
        start = self.starts[index]
        return [lay_out(index, tree, part, start, with_prefix=False) for part in bins]

    def _states(self, chosen: Sequence[int]) -> dict[int, PrefixState]:
        """The prefix states of trees, from the cache or prefilled; equal prefixes are computed once."""
        by_key: dict[str, list[int]] = {}
        for index in chosen:
            by_key.setdefault(self.trees[index].prefix_key, []).append(index)
        states: dict[str, PrefixState] = {}
        missing: list[int] = []
        for key, indices in by_key.items():
            known = self.cache.get(key)
            if known is None:
                missing.append(indices[0])
            else:
                states[key] = known
                for index in indices:
                    self.cache_hits[index] = True
        prefix = lambda index: self.trees[index].prefix  # noqa: E731
        missing.sort(key=lambda index: -len(prefix(index)))
        for alike, head in self._by_head(missing):
            lengths = [len(prefix(index)) for index in alike]
            budget = self._budget(lengths) if self.backbone.facts.packable else 1
            groups = list(by_tokens(alike, lambda index: len(prefix(index)), budget))
            most = self.config.max_tokens
            prefills = [
                partial(calls.prefill_within, self.backbone, [*map(prefix, group)], most, head)
                for group in groups
            ]
            alone = self._alone(len(group) * len(prefix(group[0])) for group in groups)
            found = run_calls(prefills, self.backbone.device, alone=alone)
            for index, state in zip(chain(*groups), chain(*found), strict=True):
                key = self.trees[index].prefix_key
                states[key] = state
                self.cache.put(key, state)
        return {index: states[key] for key, indices in by_key.items() for index in indices}

    def _budget(self, lengths: Iterable[int]) -> int:
        """Padded tokens in one model call over rows of these lengths."""
        if not self.side_by_side:
            return self.config.max_tokens
        return call_tokens([*lengths], self.config.max_tokens)

    def _alone(self, sizes: Iterable[int], most: int | None = None) -> set[int]:
        """Calls of more than their share of the padded tokens in flight: `most`, or `max_tokens`."""
        share = beside_tokens(most or self.config.max_tokens)
        return {index for index, size in enumerate(sizes) if size > share}

    def _by_mask(
        self, rows: Sequence[Row], prefix_length: Callable[[Row], int]
    ) -> Iterator[list[Row]]:
        """Groups of rows within the token budget and the mask budget (longest first, never empty)."""
        group: list[Row] = []
        longest, budget = 0, self._budget(len(row.ids) for row in rows)
        for row in rows:
            longest_if = max(longest, prefix_length(row))
            width = len(group[0].ids) if group else len(row.ids)
            tokens = (len(group) + 1) * width
            if group and (tokens > budget or tokens * (longest_if + width) > self.config.max_mask):
                yield group
                group, longest_if = [], prefix_length(row)
            group.append(row)
            longest = longest_if
        if group:
            yield group

    # -- results -------------------------------------------------------------------------------

    def _run(
        self,
        groups: Iterable[Sequence[Item]],
        tokens: Callable[[Item], int],
        job: Callable[[Sequence[Item]], Job],
        most: int | None = None,
    ) -> None:
        """Run a model call for each group (longest item first); keep the hidden states that are read."""
        wanted = [
            (group, call, reads) for group in groups for call, reads in [job(group)] if any(reads)
        ]
        self._found += run_calls(
            [partial(_read, call, reads) for _, call, reads in wanted],
            self.backbone.device,
            self.heads is None,
            self._alone((len(group) * tokens(group[0]) for group, _, _ in wanted), most),
        )
        self._where += [flat for _, _, reads in wanted for spans in reads for _, flat in spans]

    def _leaf_job(self, state: PrefixState | None, group: Sequence[LeafRow]) -> Job:
        sequences, reads = [ids for ids, _ in group], [spans for _, spans in group]
        if state is None:
            return partial(calls.run_rows, self.backbone, sequences), reads
        return partial(calls.continue_batched, self.backbone, sequences, state), reads

    def _packed_job(self, states: Mapping[int, PrefixState], group: Sequence[Row]) -> Job:
        own = [states[row.tree] for row in group]
        return partial(calls.continue_packed, self.backbone, group, own), [
            row.reads for row in group
        ]

    def _tree_job(self, group: Sequence[Row]) -> Job:
        return partial(calls.run_tree_rows, self.backbone, group), [row.reads for row in group]

    def collect(self) -> list[torch.Tensor]:
        if not self._found:
            empty = torch.zeros(0, self.backbone.hidden_size, device=self.backbone.device)
            return [empty for _ in self.trees]
        found = torch.cat(self._found)
        order = torch.empty(len(self._where), dtype=torch.long)
        order[torch.tensor(self._where)] = torch.arange(len(self._where))
        ordered = found[order.to(found.device)]
        return list(ordered.split([tree.n_reads for tree in self.trees]))


def _read(call: Callable[[], torch.Tensor], reads: Sequence[Sequence[Span]]) -> torch.Tensor:
    """The hidden states (reads × hidden) that are read of what `call` returns (rows × tokens × hidden)."""
    rows = [row for row, spans in enumerate(reads) for _ in spans]
    return call()[rows, [position for spans in reads for position, _ in spans]]


def _length(row: LeafRow) -> int:
    return len(row[0])


def _row_tokens(row: LeafRow, extra: int) -> int:
    return len(row[0]) + extra


def _row_length(row: Row) -> int:
    return len(row.ids)
