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
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reflex.errors import RecordError
from reflex.tracking.files import write_atomic, write_atomic_all

if TYPE_CHECKING:
    import pandas as pd

RECORD = "record.json"
PREDICTIONS = "predictions.parquet"
SCHEMA_VERSION: Literal[1] = 1


class WandbInfo(BaseModel):
    """Where the run is in W&B. `error` is why it is incomplete there, or null; the record does not
    depend on it.
    """

    model_config = ConfigDict(extra="forbid")

    id: str | None = None
    mode: Literal["online", "offline"]
    error: str | None = None


class PredictionsInfo(BaseModel):
    """Which predictions belong to the record: their bytes' sha256 and the number of rows."""

    model_config = ConfigDict(extra="forbid")

    sha256: str
    rows: int


class RunIdentity(BaseModel):
    """What is known of a cell before it runs."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    schema_version: Literal[1] = Field(SCHEMA_VERSION, alias="schema")
    hash: str
    experiment: str | None = None
    task: str = "evaluate"
    group: str
    name: str
    """The axes in which the cell differs from its neighbours, e.g. `orders=two`."""
    axes: dict[str, Any] = Field(default_factory=dict)
    config: dict[str, Any] = Field(default_factory=dict)
    seed: int = 0
    limited: bool = False
    debug: bool = False
    command: str | None = None


class RunRecord(RunIdentity):
    """A cell's outcome. Metric entries: `value`, `n`, `low`, `high` and extras, all JSON-safe."""

    status: Literal["finished", "failed"]
    error: str | None = None
    git: dict[str, Any] = Field(default_factory=dict)
    backbone: dict[str, Any] = Field(default_factory=dict)
    prompt_hash: str | None = None
    data: dict[str, Any] = Field(default_factory=dict)
    metric_definitions: dict[str, str] = Field(default_factory=dict)
    metrics: dict[str, dict[str, Any]] = Field(default_factory=dict)
    by: dict[str, dict[str, dict[str, Any]]] = Field(default_factory=dict)
    cost: dict[str, Any] = Field(default_factory=dict)
    hardware: dict[str, Any] = Field(default_factory=dict)
    packages: dict[str, str | None] = Field(default_factory=dict)
    numerics: int = 0
    started: str
    finished: str
    wall_s: float = 0.0
    predictions: PredictionsInfo | None = None
    wandb: WandbInfo | None = None

    def to_json(self) -> str:
        """The text of `record.json`; what is not finite is null."""
        return json_text(self.model_dump(by_alias=True))


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
    run_dir: Path | str, record: RunRecord, predictions: pd.DataFrame | None = None
) -> RunRecord:
    """Write a cell's predictions, then its record, both whole or not at all; returns the record as
    written.

    The returned record carries the predictions' hash. A failed cell has no predictions (`None`),
    and those of an earlier try are removed. Raises RecordError (one line) for a full disk, a frame
    that does not fit the schema or a value that JSON cannot carry; the files of an earlier run are
    then untouched.
    """
    folder = Path(run_dir)
    if record.status == "finished" and predictions is None:
        raise RecordError(f"{folder}: a finished record needs its predictions")
    contents: dict[Path, bytes] = {}
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


def update_wandb(run_dir: Path | str, info: WandbInfo | None) -> RunRecord:
    """Rewrite only the `wandb` entry of a written record; raises RecordError as `write_record`
    does.
    """
    folder = Path(run_dir)
    record = read_record(folder).model_copy(update={"wandb": info})
    write_atomic(folder / RECORD, _encode(folder, record))
    return record


def read_record(path: Path | str) -> RunRecord:
    """The record of a run folder or a `record.json`. Raises RecordError: one line with the file and
    the fix.
    """
    file = Path(path)
    if file.name != RECORD:
        file = file / RECORD
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


def is_finished(run_dir: Path | str) -> bool:
    """Whether the cell need not run again: record readable and finished, predictions the ones it
    names.
    """
    try:
        return problem_of(Path(run_dir), read_record(run_dir)) is None
    except RecordError:
        return False


def problem_of(folder: Path, record: RunRecord) -> str | None:
    """Why a readable record does not stand for a finished cell (one line), or None. A failed cell
    says so.
    """
    if record.status == "failed":
        return f"{folder / RECORD}: the cell failed: {record.error}"
    return _predictions_problem(folder, record)


def find_records(
    root: Path | str, experiment: str | None = None, group: str | None = None
) -> Listing:
    """Records in the folders directly under `root`, optionally of one experiment or group.

    Never raises for a bad record: it is left out and becomes one line of `problems` (a record that
    cannot be read has no known experiment, so it is named in every listing).
    """
    listing = Listing()
    for folder in _folders(Path(root)):
        if not (folder / RECORD).exists():
            continue
        try:
            record = read_record(folder)
        except RecordError as error:
            listing.problems.append(str(error))
            continue
        if experiment is not None and record.experiment != experiment:
            continue
        if group is not None and record.group != group:
            continue
        problem = _predictions_problem(folder, record)
        if problem is not None:
            listing.problems.append(problem)
            continue
        listing.found.append(Found(folder, record))
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


def _folders(root: Path) -> Iterator[Path]:
    if root.is_dir():
        yield from sorted(path for path in root.iterdir() if path.is_dir())


def _encode(folder: Path, record: RunRecord) -> bytes:
    try:
        return record.to_json().encode("utf-8")
    except (TypeError, ValueError) as error:
        raise RecordError(
            f"{folder / RECORD}: a value cannot be stored as JSON: {error}"
        ) from error


def json_text(value: Any) -> str:
    """`value` as indented JSON; numpy numbers, enums and paths unwrapped, what is not finite null.

    Raises TypeError for anything else that JSON cannot carry.
    """
    # Imported here so that composing a config, which knows this room, does not pay for scipy.
    from reflex.metrics.intervals import plain

    text = json.dumps(
        plain(value), indent=2, ensure_ascii=False, allow_nan=False, default=_jsonable
    )
    return text + "\n"


def _jsonable(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{value!r} of type {type(value).__name__}")
