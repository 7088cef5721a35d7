"""Which cells a page tells: the newest sweep of an experiment, each cell's newest try."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reflex.errors import RecordError
from reflex.reporting.experiments import Experiment, own_choice, read_experiment
from reflex.reporting.tries import newest_tries
from reflex.tracking.record import Found, RunRecord, find_records

MANIFEST = "sweep.json"


@dataclass(frozen=True)
class Places:
    """Where records are read and pages are written.

    `runs` holds one folder per cell; `results` the pages of full scope and, under `records/`, what
    they were made from; the experiments' own pages are `experiments/` beside `results`. `name` is that
    of a sweep.
    """

    runs: Path = Path("runs")
    results: Path = Path("results")

    @property
    def experiments(self) -> Path:
        return self.results.resolve().parent / "experiments"

    @property
    def all_records(self) -> Path:
        """The committed records behind all pages."""
        return self.results / "records"

    def records(self, name: str) -> Path:
        """The committed records behind a page."""
        return self.all_records / name

    def experiment(self, sweep: Sweep) -> Experiment:
        """What the sweep's experiment asks; its title names suite and backbone where they are not its own."""
        found = read_experiment(self.experiments, sweep.experiment or sweep.group)
        others = (("on", sweep.suite), ("with", sweep.backbone))
        return replace(found, title=found.title + "".join(f" {a} {b}" for a, b in others if b))

    def page(self, sweep: Sweep) -> Path:
        """`results/<name>.md` for a sweep of full scope, else under `runs/pages/`."""
        if sweep.full:
            return self.results / f"{sweep.name}.md"
        return self.runs / "pages" / f"{sweep.name}.md"


@dataclass(frozen=True)
class Sweep:
    """The cells of one group. `full`: neither limited nor debug, one finished, and all there that the rule names."""

    experiment: str | None
    group: str
    full: bool
    cells: list[Found]
    superseded: list[dict[str, Any]] = field(default_factory=list)
    """Other sweeps of the same name and scope, newest first: `{group, cells, finished}`."""
    missing: list[str] = field(default_factory=list)
    """Names of cells that are not run: those that the rule names, and those only run before something changed."""

    @property
    def suite(self) -> str | None:
        """The suite it reads (several with `+`) where that is not its experiment's own; one of a file that was
        given (`benchmark.path`) with that file."""
        return self._other("benchmark", self.cells)

    @property
    def backbone(self) -> str | None:
        """As `suite`, the backbone. A server's is its own, whatever the command says."""
        here = [cell for cell in self.cells if cell.record.axes.get("model") != "remote"]
        return self._other("backbone", here)

    def _other(self, group: str, cells: Iterable[Found]) -> str | None:
        own = own_choice(self.experiment, group) if self.experiment else None
        name = "+".join(sorted({_choice(cell.record, group) for cell in cells} - {""}))
        return name if own is not None and name not in ("", own) else None

    @property
    def name(self) -> str:
        """File name of its page: one a suite and backbone, so that no verdict replaces that on others."""
        if self.experiment is None:
            return self.group
        return "-".join(filter(None, (self.experiment, self.suite, self.backbone)))

    @property
    def finished(self) -> list[Found]:
        return [cell for cell in self.cells if cell.record.status == "finished"]

    @property
    def failed(self) -> list[Found]:
        return [cell for cell in self.cells if cell.record.status == "failed"]

    @property
    def newest(self) -> str:
        """When its last cell ended (ISO UTC)."""
        return max(cell.record.finished for cell in self.cells)


def _choice(record: RunRecord, group: str) -> str:
    """What the cell chose of a group; a file by its stem, and by its path, since others may be called so too."""
    name = str(record.axes.get(group) or "")
    if not (path := record.axes.get(f"{group}.path")):
        return name
    given = os.path.normpath(str(path).strip("'\""))
    stem, which = (
        re.sub(r"[^\w.]+", "_", Path(given).stem),
        hashlib.sha256(given.encode()).hexdigest(),
    )
    return f"{name}-{stem}-{which[:6]}"


def find_sweeps(places: Places, experiment: str) -> tuple[list[Sweep], list[str]]:
    """The newest sweep of each scope (partial first, full last), suite and backbone (the experiment's own
    first), and one line per unusable record.
    """
    kept = places.records(experiment)
    folders = [kept, *sorted(kept.parent.glob(f"{experiment}-*")), places.runs]
    listings = [find_records(folder, experiment) for folder in folders]
    pages: dict[tuple[bool, str], list[Sweep]] = {}
    for sweep in group_sweeps(cell for listing in listings for cell in listing.found):
        pages.setdefault((sweep.full, sweep.name), []).append(sweep)
    newest = [_with_older(pages[page][-1], pages[page], places) for page in sorted(pages)]
    return newest, [problem for listing in listings for problem in listing.problems]


def group_sweep(places: Places, cells: Sequence[Found]) -> Sweep:
    """The sweep that `cells` (of one group) are, with what it supersedes among the other records.

    Cells that differ in scope make separate sweeps: the newest is returned. Raises RecordError without cells.
    """
    if not cells:
        raise RecordError("no records to write a page from; run an experiment first")
    sweep = group_sweeps(cells)[-1]
    if sweep.experiment is None:
        return sweep
    others = [*find_records(places.records(sweep.name), sweep.experiment).found]
    others += find_records(places.runs, sweep.experiment).found
    page = (sweep.full, sweep.name)
    same = [other for other in group_sweeps(others) if (other.full, other.name) == page]
    return _with_older(sweep, same, places)


def group_sweeps(found: Iterable[Found]) -> list[Sweep]:
    """Records by group and scope, oldest sweep first; of one cell only the newest try counts.

    Cells from before a change (reflex/reporting/tries.py) are an older sweep of their group, beside the one that
    has not run them yet.
    """
    groups: dict[tuple[str, bool], list[Found]] = {}
    for cell in found:
        groups.setdefault((cell.record.group, is_partial(cell.record)), []).append(cell)
    sweeps = []
    for cells in groups.values():
        while cells:
            newest, stale = newest_tries(cells)
            now = [cell for cell in newest if cell not in stale]
            sweeps.append(_sweep(now, stale))
            hashes = {cell.record.hash for cell in now}
            cells = [cell for cell in cells if cell.record.hash not in hashes] if stale else []
    return sorted(sweeps, key=lambda sweep: (sweep.newest, sweep.group))


def _sweep(cells: Sequence[Found], stale: Sequence[Found]) -> Sweep:
    """The sweep of `cells`, which has to run the `stale` ones again."""
    ordered = sorted(cells, key=_place)
    first = ordered[0].record
    missing = dict.fromkeys([*_not_run(ordered), *(cell.record.name for cell in stale)])
    done = any(cell.record.status == "finished" for cell in cells)
    full = done and not is_partial(first) and not missing
    return Sweep(first.experiment, first.group, full, ordered, missing=list(missing))


def is_partial(record: RunRecord) -> bool:
    """Whether a record proves the mechanism rather than the hypothesis."""
    return record.limited or record.debug or record.experiment is None


def verdict_block(sweep: Sweep) -> dict[str, Any] | None:
    """The experiment's decision rule as its newest record kept it.

    A baseline `axis=*` is the first cell of the sweep, and no candidates are all others: for
    experiments over any list of values.
    """
    block = _block(max((cell.record for cell in sweep.cells), key=lambda record: record.finished))
    if block is None:
        return None
    axis, star, rest = str(block.get("baseline", "")).partition("=*")
    values = (cell.record.axes.get(axis) for cell in sweep.cells)
    names = list(dict.fromkeys(f"{axis}={value}" for value in values if value is not None))
    if star and not rest and names:
        block["baseline"] = names[0]
        block["candidates"] = block.get("candidates") or names[1:]
    return block


def read_manifest(folder: Path) -> dict[str, Any]:
    """What the last full page wrote about its sweep; empty if there is none or it is unreadable."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _not_run(cells: Sequence[Found]) -> list[str]:
    """Cells that the newest rule names and none of `cells` is: the sweep was ended before them."""
    records = [cell.record for cell in cells]
    block = _block(max(records, key=lambda record: record.finished)) or {}
    names = [block.get("baseline"), *(block.get("candidates") or [])]
    wanted = [name for name in names if isinstance(name, str) and "=*" not in name]
    return [name for name in wanted if not any(matches(record, name) for record in records)]


def matches(record: RunRecord, name: str) -> bool:
    """Whether a rule's cell name (`orders=two`, `orders=two,prompt=chat`) means this cell."""
    if record.name == name:
        return True
    pairs = named_axes(name)
    return bool(pairs) and all(str(record.axes.get(key)) == value for key, value in pairs.items())


def named_axes(name: str) -> dict[str, str]:
    """Axis → value of a rule's cell name."""
    parts = [part.partition("=") for part in name.split(",")]
    return {key.strip(): value.strip() for key, equals, value in parts if equals}


def _block(record: RunRecord) -> dict[str, Any] | None:
    block = record.config.get("verdict")
    return dict(block) if isinstance(block, dict) else None


def _place(cell: Found) -> tuple[int, str, str, str]:
    """Baseline, then candidates in the rule's order, then the rest as the sweep ran them."""
    record = cell.record
    block = _block(record) or {}
    names = [block.get("baseline"), *(block.get("candidates") or [])]
    rank = names.index(record.name) if record.name in names else len(names)
    return rank, record.started, record.name, record.hash


def _with_older(sweep: Sweep, same: Sequence[Sweep], places: Places) -> Sweep:
    """`sweep` with the list of those it replaces; the manifest remembers what is no longer there."""
    manifest = read_manifest(places.records(sweep.name)) if sweep.full else {}
    known = manifest.get("superseded", [])
    older = {entry["group"]: entry for entry in known if "group" in entry}
    for other in same:
        older[other.group] = {
            "group": other.group,
            "cells": len(other.cells),
            "finished": other.newest,
        }
    older.pop(sweep.group, None)
    listed = sorted(older.values(), key=lambda entry: str(entry["finished"]), reverse=True)
    return replace(sweep, superseded=listed)
