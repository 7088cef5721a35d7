"""Which records of one group are one sweep: each cell's newest try, and none from before something changed.

A sweep that is started again keeps its group. If the code's numerics, a library, the rows, the weights or the dtype
became others in between, its old cells are not those of the command that goes on, and would be run again by it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reflex.tracking.environment import HASHED_PACKAGES
from reflex.tracking.record import Found, RunRecord


def newest_tries(cells: Iterable[Found]) -> tuple[list[Found], list[Found]]:
    """(the newest try of each cell of one group, those of them from before a change).

    A cell is its name, axes and seed, not its hash: a cell that failed before its data were read has another hash
    and is still the same cell.
    """
    tries: dict[str, list[Found]] = {}
    for cell in sorted(cells, key=lambda cell: cell.record.finished):
        record = cell.record
        key = json.dumps([record.name, record.seed, record.axes], sort_keys=True, default=str)
        tries.setdefault(key, []).append(cell)
    newest = [own[-1] for own in tries.values()]
    done = [cell for cell in newest if cell.record.status == "finished"]
    if not done:
        return newest, []
    last = max(done, key=lambda cell: cell.record.finished).record
    changes = [(old.record, own[-1].record) for own in tries.values() for old in own[:-1]]
    stale = [
        cell
        for cell in done
        if _versions(cell.record) != _versions(last)
        or any(_replaced(cell.record, old, new) for old, new in changes)
    ]
    return newest, stale


def _replaced(record: RunRecord, old: RunRecord, new: RunRecord) -> bool:
    """Whether the `new` try of some cell, younger than `record`, no longer has what `old` shares with `record`."""
    if new.status != "finished" or new.finished <= record.finished:
        return False
    own, before, after = _facts(record), _facts(old), _facts(new)
    return any(
        own[key] == before[key] != after[key] for key in own if None not in (own[key], after[key])
    )


def _versions(record: RunRecord) -> Sequence[Any]:
    return [record.numerics, *(record.packages.get(name) for name in HASHED_PACKAGES)]


def _facts(record: RunRecord) -> Mapping[str, Any]:
    """What a configuration does not pin and a record holds; cells of one sweep may differ in each of it."""
    backbone = record.backbone
    return {
        "data": record.data.get("sha256"),
        "prompt": record.prompt_hash,
        **{key: backbone.get(key) for key in ("dtype", "weights_sha256", "adapter_sha256")},
    }
