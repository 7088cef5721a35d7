"""A request as a tree of token segments: state → question (one per order) → option.

A token sees its ancestors and the earlier tokens of its own segment; its position continues from the
parent's last token. That is the whole semantics; every strategy computes exactly this.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Segment:
    """`ids` below `parent` (index of an earlier segment, −1 = the prefix).

    `reads` are offsets into `ids` whose final hidden state is wanted, ascending.
    """

    ids: tuple[int, ...]
    parent: int = -1
    reads: tuple[int, ...] = ()


@dataclass(frozen=True)
class Tree:
    """A shared prefix and the segments below it, parents before children, at most two levels deep.

    The first `head` tokens of the prefix are the prompt's own words, alike in every request.
    """

    prefix: tuple[int, ...]
    segments: tuple[Segment, ...]
    head: int = 0

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        below: dict[int, list[int]] = {}
        for index, segment in enumerate(self.segments):
            below.setdefault(segment.parent, []).append(index)
        return {parent: tuple(indices) for parent, indices in below.items()}

    @cached_property
    def leaf_paths(self) -> tuple[tuple[int, ...], ...]:
        """Segment indices from below the prefix to each leaf."""
        paths: list[tuple[int, ...]] = []
        for top in self.children.get(-1, ()):
            options = self.children.get(top, ())
            paths += [(top, option) for option in options] or [(top,)]
        return tuple(paths)

    @cached_property
    def read_starts(self) -> tuple[int, ...]:
        """Index of each segment's first read in the tree's list of reads."""
        starts, total = [], 0
        for segment in self.segments:
            starts.append(total)
            total += len(segment.reads)
        return tuple(starts)

    @cached_property
    def prefix_key(self) -> str:
        """sha256 of the prefix's token ids: what its state is kept under."""
        return hashlib.sha256(array("q", self.prefix).tobytes()).hexdigest()

    @property
    def n_reads(self) -> int:
        return sum(len(segment.reads) for segment in self.segments)

    @property
    def unique_tokens(self) -> int:
        return len(self.prefix) + sum(len(segment.ids) for segment in self.segments)

    @property
    def longest(self) -> int:
        """Tokens on the longest path from the first prefix token to a leaf."""
        below = (sum(len(self.segments[i].ids) for i in path) for path in self.leaf_paths)
        return len(self.prefix) + max(below, default=0)

    @property
    def head_ids(self) -> tuple[int, ...]:
        return self.prefix[: self.head]

    @property
    def reread_tokens(self) -> int:
        """Tokens that one row per leaf reads again beyond the unique ones (each reads the whole prefix)."""
        rows = sum(
            len(self.prefix) + sum(len(self.segments[i].ids) for i in path)
            for path in self.leaf_paths
        )
        return rows - self.unique_tokens


@dataclass(frozen=True)
class Row:
    """One row of a model call: laid-out segments with block visibility.

    A token at row index i sees index j iff j ≤ i < ends[j]: `ends[j]` is where the subtree of j's segment
    stops. `reads` are (row index, position in the flat list of all reads of the run).
    """

    tree: int
    ids: tuple[int, ...]
    positions: tuple[int, ...]
    ends: tuple[int, ...]
    reads: tuple[tuple[int, int], ...]


Unit = tuple[int, tuple[int, ...], bool]
"""A top segment, the option segments laid below it, and whether the top segment's reads are taken here."""


def units(tree: Tree, limit: int) -> list[Unit]:
    """Cut a tree into pieces of at most about `limit` tokens that can run in different rows.

    A question whose options do not fit is repeated in front of each slice of its options.
    """
    pieces: list[Unit] = []
    for top in tree.children.get(-1, ()):
        head = len(tree.segments[top].ids)
        taken: list[int] = []
        filled, first = head, True
        for option in tree.children.get(top, ()):
            size = len(tree.segments[option].ids)
            if taken and filled + size > max(limit, head + size):
                pieces.append((top, tuple(taken), first))
                taken, filled, first = [], head, False
            taken.append(option)
            filled += size
        pieces.append((top, tuple(taken), first))
    return pieces


ATTENTION_KEYS = 1000
"""Keys at which a token's attention is taken to cost as much as its projections, forward and backward; anything
from 300 to 1,200 trained equally fast (decision 080)."""


def alone(ids: Sequence[int]) -> Tree:
    """A text read by itself, at its end."""
    return Tree((), (Segment(tuple(ids), -1, (len(ids) - 1,)),))


def branch_tokens(prefix: int) -> int:
    """Tokens of branches to lay beside each other under a prefix of `prefix` tokens before a further row reads it
    again.

    With K = ATTENTION_KEYS, n rows over B tokens of branches cost Σ (P + B/n) · (1 + (P + B/n) / K), which is
    least at B/n = √(P · (P + K)).
    """
    return round(math.sqrt(prefix * (prefix + ATTENTION_KEYS)))


def unit_tokens(tree: Tree, unit: Unit) -> int:
    top, options, _ = unit
    return len(tree.segments[top].ids) + sum(len(tree.segments[i].ids) for i in options)


def lay_out(
    tree_index: int, tree: Tree, chosen: Sequence[Unit], first_read: int, *, with_prefix: bool
) -> Row:
    """Lay units (and the prefix before them) side by side in one row.

    `first_read` is the flat index of the tree's first read.
    """
    ids: list[int] = []
    positions: list[int] = []
    ends: list[int] = []
    reads: list[tuple[int, int]] = []
    start = len(tree.prefix)
    if with_prefix:
        total = start + sum(unit_tokens(tree, unit) for unit in chosen)
        ids += tree.prefix
        positions += range(start)
        ends += [total] * start

    def place(index: int, position: int, end: int, take_reads: bool) -> None:
        segment = tree.segments[index]
        if take_reads:
            base = first_read + tree.read_starts[index]
            reads.extend((len(ids) + offset, base + k) for k, offset in enumerate(segment.reads))
        ids.extend(segment.ids)
        positions.extend(range(position, position + len(segment.ids)))
        ends.extend([end] * len(segment.ids))

    for unit in chosen:
        top, options, take_top = unit
        place(top, start, len(ids) + unit_tokens(tree, unit), take_top)
        below = start + len(tree.segments[top].ids)
        for option in options:
            place(option, below, len(ids) + len(tree.segments[option].ids), True)
    return Row(tree_index, tuple(ids), tuple(positions), tuple(ends), tuple(reads))


def join_rows(rows: Sequence[Row], head: int = 0) -> Row:
    """Rows side by side as one; no part sees another. `tree` is the first part's.

    The first `head` tokens, the same in all of them, are laid once: every part continues from there.
    """
    first = rows[0]
    ids, positions = list(first.ids[:head]), list(first.positions[:head])
    ends = [head + sum(len(row.ids) - head for row in rows)] * head
    reads: list[tuple[int, int]] = []
    for row in rows:
        offset = len(ids) - head
        ids += row.ids[head:]
        positions += row.positions[head:]
        ends += [end + offset for end in row.ends[head:]]
        reads += [(at + offset, flat) for at, flat in row.reads]
    return Row(first.tree, tuple(ids), tuple(positions), tuple(ends), tuple(reads))


def fill_rows(rows: Sequence[Row], width: int, head: int = 0) -> list[list[Row]]:
    """Rows in bins that `join_rows` makes at most `width` tokens of (best fit, longest first).

    A longer row stands alone.
    """
    bins: list[list[Row]] = []
    room: list[int] = []
    for row in sorted(rows, key=lambda row: -len(row.ids)):
        size = len(row.ids) - head
        fitting = [i for i, free in enumerate(room) if free >= size]
        if fitting:
            best = min(fitting, key=lambda i: room[i])
            bins[best].append(row)
            room[best] -= size
        else:
            bins.append([row])
            room.append(width - head - size)
    return bins
