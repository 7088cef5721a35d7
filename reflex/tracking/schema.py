"""What a run record holds. Imports no torch."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import PurePath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

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


class Membership(BaseModel):
    """A further sweep that needed this cell when it was already recorded, and what it is there."""

    model_config = ConfigDict(extra="forbid")

    experiment: str | None = None
    group: str
    name: str
    axes: dict[str, Any] = Field(default_factory=dict)
    limited: bool = False
    command: str | None = None
    verdict: dict[str, Any] | None = None

    def is_same_cell(self, other: Membership) -> bool:
        """Whether both are one cell of one sweep."""
        return (self.group, self.name, self.axes) == (other.group, other.name, other.axes)


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

    def membership(self) -> Membership:
        """What this cell is in its own sweep."""
        own = {key: value for key, value in self if key in Membership.model_fields}
        return Membership(**own, verdict=self.config.get("verdict"))


class RunRecord(RunIdentity):
    """A cell's outcome. Metric entries: `value`, `n`, `low`, `high` and extras, all JSON-safe."""

    status: Literal["finished", "failed"]
    error: str | None = None
    git: dict[str, Any] = Field(default_factory=dict)
    backbone: dict[str, Any] = Field(default_factory=dict)
    served: dict[str, Any] | None = None
    """model=remote: the address, and what its /health said; None for a model in this process."""
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
    also: list[Membership] = Field(default_factory=list)
    """Other sweeps this cell belongs to; `find_records` lists it once in each."""

    def seen_from(self, other: Membership) -> RunRecord:
        """The record as a cell of that sweep."""
        own = other.model_dump()
        verdict = own.pop("verdict")
        return self.model_copy(update={**own, "config": {**self.config, "verdict": verdict}})

    def to_json(self) -> str:
        """The text of `record.json`; what is not finite is null."""
        return json_text(self.model_dump(by_alias=True))


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
