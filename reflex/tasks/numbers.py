"""What a record says of a suite and of its predictions, wherever the predictions come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reflex.data.rows import items_sha256, rows_sha256

if TYPE_CHECKING:
    import pandas as pd

    from reflex.benchmarks.base import Suite
    from reflex.tasks.fitting import Raw, Settled


def data_facts(suite: Suite) -> dict[str, Any]:
    """The record's `data`: which rows were read."""
    return {
        "suite": suite.name,
        "sha256": rows_sha256(suite.rows),
        "items_sha256": items_sha256(suite.rows),
        "n_rows": len(suite.rows),
        "facts": suite.facts,
    }


def finished(
    raw: Raw, settled: Settled, suite: Suite, data: dict[str, Any], seed: int
) -> tuple[dict[str, Any], pd.DataFrame, dict[str, bytes]]:
    """Everything a finished record says beyond its identity, the predictions that count, and further files.

    `suite` is the one that figures are of, `data` what the record says of the rows that were read.
    """
    return (
        {
            "backbone": raw.backbone,
            "prompt_hash": raw.prompt_hash,
            "data": data,
            **measured(suite, settled.measured, seed),
            "cost": raw.cost,
        },
        settled.measured,
        settled.files,
    )


def measured(suite: Suite, predictions: pd.DataFrame, seed: int) -> dict[str, Any]:
    """The record's metrics, whole and by part, and what they mean."""
    from reflex import metrics
    from reflex.evaluation.splits import metrics_by
    from reflex.metrics import sensitivity

    pairs = suite.facts.get("question_pairs", ())
    return {
        "metric_definitions": {**metrics.DEFINITIONS, **sensitivity.DEFINITIONS},
        "metrics": {
            **metrics.compute(predictions, seed),
            **sensitivity.compute(predictions, pairs),
        },
        "by": metrics_by(predictions, suite.facts, seed),
    }
