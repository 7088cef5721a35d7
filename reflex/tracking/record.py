"""The run record: everything that identifies a result, beside its item-level predictions. Imports
no torch.

A run folder holds `predictions.parquet`, then `record.json`; the record is the last to appear, so a
folder with a readable record whose predictions match its hash is a finished cell and anything else
is not.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from reflex.errors import RecordError
from reflex.files import write_atomic, write_atomic_all
from reflex.tracking.schema import (
    SCHEMA_VERSION,
    Membership,
    PredictionsInfo,
    RunIdentity,
    RunRecord,
    WandbInfo,
    json_text,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = [  # of the schema; what is defined here is public as it is
    "SCHEMA_VERSION",
    "Membership",
    "PredictionsInfo",
    "RunIdentity",
    "RunRecord",
    "WandbInfo",
    "json_text",
]

RECORD = "record.json"
PREDICTIONS = "predictions.parquet"
FIT_PREDICTIONS = "fit_predictions.parquet"
"""Beside `predictions.parquet`: what was read of the rows of split `fit`, for further fits."""


@dataclass(frozen=True)
class Found:
    """A readable record and the folder it lies in."""

    path: Path
    record: RunRecord


@dataclass
class Listing:
    """Records of a folder, in order of folder name, and one line for each that cannot be used."""

    found: list[Found] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def write_record(
    folder: Path,
    record: RunRecord,
    predictions: pd.DataFrame | None = None,
    files: Mapping[str, bytes] | None = None,
) -> RunRecord:
    """Write a cell's further `files` (by name), its predictions, then its record, all whole or not at
    all; returns the record as written.

    The returned record carries the predictions' hash. A failed cell has no predictions (`None`),
    and those of an earlier try are removed. Raises RecordError (one line) for a full disk, a frame
    that does not fit the schema or a value that JSON cannot carry; the files of an earlier run are
    then untouched.
    """
    if record.status == "finished" and predictions is None:
        raise RecordError(f"{folder}: a finished record needs its predictions")
    contents = {folder / name: data for name, data in (files or {}).items()}
    info = None
    if predictions is not None:
        from reflex.tracking.predictions import predictions_bytes

        data = predictions_bytes(predictions)
        info = PredictionsInfo(sha256=hashlib.sha256(data).hexdigest(), rows=len(predictions))
        contents[folder / PREDICTIONS] = data
    written = record.model_copy(update={"predictions": info})
    contents[folder / RECORD] = _encode(folder, written)
    write_atomic_all(contents)
    if predictions is None:
        with contextlib.suppress(OSError):
            (folder / PREDICTIONS).unlink(missing_ok=True)
    return written


def update_wandb(folder: Path, info: WandbInfo | None) -> None:
    """Rewrite only the `wandb` entry of a written record; raises RecordError as `write_record`
    does.
    """
    _rewrite(folder, read_record(folder), wandb=info)


def update_facts(folder: Path, facts: Mapping[str, Any]) -> None:
    """Rewrite what a written record says of its suite (`data.facts`) where that is told otherwise now.

    Raises RecordError as `write_record` does.
    """
    record = read_record(folder)
    told = json.loads(json_text(facts))
    if record.data.get("facts") != told:
        _rewrite(folder, record, data={**record.data, "facts": told})


def join_sweep(folder: Path, identity: RunIdentity) -> None:
    """Note in a finished cell's record that the sweep of `identity` needs it too, instead of running it.

    Raises RecordError as `write_record` does.
    """
    record = read_record(folder)
    wanted = identity.membership()
    if not any(wanted.is_same_cell(known) for known in (record.membership(), *record.also)):
        _rewrite(folder, record, also=[*record.also, wanted])


def _rewrite(folder: Path, record: RunRecord, **changes: Any) -> None:
    changed = record.model_copy(update=changes)
    write_atomic(folder / RECORD, _encode(folder, changed))


def other_sweeps(folder: Path, identity: RunIdentity) -> list[Membership]:
    """The sweeps, other than that of `identity`, that a recorded cell belongs to; none without one."""
    try:
        record = read_record(folder)
    except RecordError:
        return []
    own = identity.membership()
    return [m for m in (record.membership(), *record.also) if not own.is_same_cell(m)]


def read_record(path: Path) -> RunRecord:
    """The record of a run folder or a `record.json`. Raises RecordError: one line with the file and
    the fix.
    """
    file = path if path.name == RECORD else path / RECORD
    fix = f"delete the folder {file.parent} and run the cell again"
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RecordError(f"{file}: no such record; the cell has not finished") from None
    except OSError as error:
        raise RecordError(f"{file}: cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise RecordError(f"{file}: not a whole record ({error}); {fix}") from error
    version = raw.get("schema") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise RecordError(
            f"{file}: record schema {version!r}, but this version reads {SCHEMA_VERSION}; {fix}"
        )
    try:
        return RunRecord.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RecordError(f"{file}: key '{where}': {first['msg']}; {fix}") from error


def is_finished(folder: Path) -> bool:
    """Whether the cell need not run again: record readable and finished, predictions the ones it
    names.
    """
    try:
        return problem_of(folder, read_record(folder)) is None
    except RecordError:
        return False


def problem_of(folder: Path, record: RunRecord) -> str | None:
    """Why a readable record does not stand for a finished cell (one line), or None. A failed cell
    says so.
    """
    if record.status == "failed":
        return f"{folder / RECORD}: the cell failed: {record.error}"
    return _predictions_problem(folder, record)


def finished_local(folder: Path) -> RunRecord:
    """The record of a finished run whose model was loaded here, so that it can be loaded again.

    Raises RecordError for a cell that failed and for answers that came from a server. Predictions are not looked
    at: a release has none.
    """
    record = read_record(folder)
    if record.status != "finished":
        raise RecordError(f"{folder}: it failed ({record.error}); take a run that finished")
    if record.served is not None:
        raise RecordError(
            f"{folder}: its answers came from {record.served['base_url']} (model=remote), so there is no model "
            "here; take the run that is served there"
        )
    return record


def find_records(root: Path, experiment: str | None = None, group: str | None = None) -> Listing:
    """Records in the folders directly under `root`, optionally of one experiment or group.

    A cell that several sweeps share is listed once for each.
    Never raises for a bad record: it is left out and becomes one line of `problems` (a record that
    cannot be read has no known experiment, so it is named in every listing).
    """
    listing = Listing()
    for file in sorted(root.glob(f"*/{RECORD}")):
        folder = file.parent
        try:
            record = read_record(folder)
        except RecordError as error:
            listing.problems.append(str(error))
            continue
        views = [record, *(record.seen_from(other) for other in record.also)]
        wanted = [
            view
            for view in views
            if experiment in (None, view.experiment) and group in (None, view.group)
        ]
        if not wanted:
            continue
        problem = _predictions_problem(folder, record)
        if problem is not None:
            listing.problems.append(problem)
            continue
        listing.found += [Found(folder, view) for view in wanted]
    return listing


def _predictions_problem(folder: Path, record: RunRecord) -> str | None:
    if record.status == "failed":
        return None
    fix = f"run the cell again with force=true, or delete the folder {folder}"
    file = folder / PREDICTIONS
    if record.predictions is None:
        return f"{folder / RECORD}: a finished record that names no predictions; {fix}"
    try:
        data = file.read_bytes()
    except OSError as error:
        return f"{file}: cannot be read ({error.strerror or error}); {fix}"
    if hashlib.sha256(data).hexdigest() != record.predictions.sha256:
        return f"{file}: not the predictions its record was written with; {fix}"
    return None


def _encode(folder: Path, record: RunRecord) -> bytes:
    try:
        return record.to_json().encode("utf-8")
    except (TypeError, ValueError) as error:
        raise RecordError(
            f"{folder / RECORD}: a value cannot be stored as JSON: {error}"
        ) from error
