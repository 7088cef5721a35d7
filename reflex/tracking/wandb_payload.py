"""What of a record goes to W&B as config and as summary: the same numbers, flat."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reflex.tracking.record import RunIdentity, RunRecord


def run_config(identity: RunIdentity) -> dict[str, Any]:
    """The W&B config of a cell: its axes flat, then the whole resolved config under `config`."""
    from reflex.tracking.record import json_text

    flat = {
        **identity.axes,
        "experiment": identity.experiment,
        "hash": identity.hash,
        "seed": identity.seed,
        "limited": identity.limited,
        "debug": identity.debug,
        "config": identity.config,
    }
    return dict(json.loads(json_text(flat)))


def summary_of(record: RunRecord) -> dict[str, Any]:
    """The record's numbers as flat W&B summary keys; what is null in the record is left out.

    `nll` is the value, `nll/n`, `nll/low`, `nll/high` and the extras stand beside it; breakdowns
    are `type/noul/nll` and so on, costs `cost/…`.
    """
    from reflex.tracking.record import json_text

    summary: dict[str, Any] = {"status": record.status}
    if record.error is not None:
        summary["error"] = record.error
    clean = json.loads(json_text({"metrics": record.metrics, "by": record.by, "cost": record.cost}))
    _flatten_metrics(clean["metrics"], "", summary)
    for axis, values in clean["by"].items():
        for value, metrics in values.items():
            _flatten_metrics(metrics, f"{axis}/{value}/", summary)
    _flatten(clean["cost"], "cost/", summary)
    return summary


def _flatten_metrics(metrics: Mapping[str, Any], prefix: str, into: dict[str, Any]) -> None:
    for name, entry in metrics.items():
        if not isinstance(entry, Mapping):
            _flatten({name: entry}, prefix, into)
            continue
        if entry.get("value") is not None:
            into[f"{prefix}{name}"] = entry["value"]
        rest = {key: item for key, item in entry.items() if key != "value"}
        _flatten(rest, f"{prefix}{name}/", into)


def _flatten(values: Mapping[str, Any], prefix: str, into: dict[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, Mapping):
            _flatten(value, f"{prefix}{key}/", into)
        elif value is not None:
            into[f"{prefix}{key}"] = value
