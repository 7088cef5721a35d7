"""A calibration applied to recorded predictions: the same numbers the server would answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reflex.calibration.scored import expansion
from reflex.readouts import merge

if TYPE_CHECKING:
    import pandas as pd

    from reflex.calibration.none import Calibrator


def apply(frame: pd.DataFrame, calibrator: Calibrator) -> pd.DataFrame:
    """A copy with `order_probabilities`, `probabilities` and `bucket` under `calibrator`; raw scores stay."""
    order_probabilities: list[Any] = []
    probabilities: list[Any] = []
    found: list[Any] = []
    names = ("type", "readout", "keys", "order_keys", "scores")
    for kind, readout, keys, order_keys, raw in zip(*(frame[name] for name in names)):
        temperature, bucket = calibrator.temperature(kind, readout, len(keys))
        scores = calibrator.adjust(kind, readout, keys, order_keys, raw)
        per_order = merge.order_distributions(
            scores, order_keys, keys, temperature, _expand(readout, order_keys[0], keys)
        )
        order_probabilities.append(per_order.tolist())
        probabilities.append(merge.merge(per_order).tolist())
        found.append(bucket)
    return frame.assign(
        order_probabilities=order_probabilities, probabilities=probabilities, bucket=found
    )


def _expand(readout: str, labels: Any, keys: Any) -> list[list[float]] | None:
    weights = expansion(readout)
    if weights is None:
        return None
    return [[weights[label].get(key, 0.0) for key in keys] for label in labels]
