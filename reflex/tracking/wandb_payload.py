"""What of a record goes to W&B as config and as summary: the same numbers, flat."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

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


def summary_of(record: RunRecord, predictions: pd.DataFrame | None = None) -> dict[str, Any]:
    """The record's numbers as flat W&B summary keys; what is null in the record is left out.

    `nll` is the value, `nll/n`, `nll/low`, `nll/high` and the extras stand beside it; breakdowns
    are `type/noul/nll` and so on, costs `cost/…`. Where the suite has words (exact, rebuilt, stand-in),
    `word` is that of the pooled figures and `source/NAME/word` that of a part; `predictions` (read
    already) give the words of the other breakdowns.
    """
    from reflex.benchmarks.words import ABSENT, combined, sources_of, words_by
    from reflex.tracking.record import json_text

    summary: dict[str, Any] = {"status": record.status}
    if record.error is not None:
        summary["error"] = record.error
    clean = json.loads(json_text({"metrics": record.metrics, "by": record.by, "cost": record.cost}))
    _flatten_metrics(clean["metrics"], "", summary)
    facts = record.data.get("facts")
    if word := combined(sources_of(facts).values()):
        summary["word"] = word
    for axis, values in clean["by"].items():
        words: dict[str, str] = {}
        if axis == "source" or predictions is not None:
            words = words_by(facts, axis, predictions)
        for value, metrics in values.items():
            _flatten_metrics(metrics, f"{axis}/{value}/", summary)
            if value in words:
                summary[f"{axis}/{value}/word"] = words[value]
    # A part without a figure says why there is none.
    for name, source in sources_of(facts).items():
        if source.get("word") in ABSENT:
            summary[f"source/{name}/word"] = source["word"]
    _flatten(clean["cost"], "cost/", summary)
    return summary


def _flatten_metrics(metrics: Mapping[str, Any], prefix: str, into: dict[str, Any]) -> None:
    for name, entry in metrics.items():
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
