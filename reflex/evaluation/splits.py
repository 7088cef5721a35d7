"""The metrics of a suite's parts: by question type, family, source, and category where a suite has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reflex import metrics
from reflex.benchmarks.words import categories_of

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("type", "family", "source")


def metrics_by(
    predictions: pd.DataFrame, facts: Mapping[str, Any], seed: int
) -> dict[str, dict[str, Any]]:
    """Column → its value → metrics. `facts["categories"]` (family → category) adds the column `category`."""
    found: dict[str, dict[str, Any]] = {}
    for column in COLUMNS:
        # Suites whose families are their sources are measured once.
        same = next((name for name in found if _same(predictions, name, column)), None)
        found[column] = found[same] if same else metrics.compute_by(predictions, column, seed)
    if facts.get("categories"):
        named = predictions.assign(category=categories_of(predictions, facts))
        found["category"] = metrics.compute_by(named, "category", seed)
    return found


def _same(predictions: pd.DataFrame, a: str, b: str) -> bool:
    return bool((predictions[a].astype(str) == predictions[b].astype(str)).all())
