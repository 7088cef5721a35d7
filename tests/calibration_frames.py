"""Predictions frames with planted temperatures, families and position effects. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from reflex.calibration.scored import expansion
from reflex.readouts import merge


def frame(
    n: int = 400,
    *,
    temperature: float | dict[str, float] = 2.0,
    kind: str = "choice",
    readout: str = "label_tokens",
    keys: Sequence[str] = ("a", "b", "c", "d"),
    orders: int = 1,
    families: Sequence[str] = ("x", "y", "z"),
    hard: bool = True,
    spread: float = 2.0,
    places: Sequence[float] | None = None,
    noise: float = 0.0,
    split: str = "fit",
    seed: int = 0,
) -> pd.DataFrame:
    """Labels come from softmax(u); the stored scores are u × temperature (of the family) + place effects.

    So the temperature is exactly what should be fitted: exactly with soft labels, up to sampling with hard.
    """
    rng = np.random.default_rng(seed)
    k = len(keys)
    rows: list[dict[str, Any]] = []
    for i in range(n):
        family = families[i % len(families)]
        t = temperature[family] if isinstance(temperature, dict) else temperature
        u_k = rng.normal(size=k) * spread
        p_k = np.exp(u_k - u_k.max())
        p_k /= p_k.sum()
        target = (np.arange(k) == rng.choice(k, p=p_k)).astype(float) if hard else p_k
        order_keys, scores = [], []
        for order in range(orders):
            at = np.arange(k) if order == 0 else rng.permutation(k)
            if orders == 2 and k == 2 and order == 1:
                at = np.array([1, 0])
            row = t * u_k[at] + rng.normal(size=k) * noise
            scores.append((row + (0 if places is None else np.asarray(places))).tolist())
            order_keys.append([keys[j] for j in at])
        rows.append(
            row_of(f"{family}-{i}", kind, readout, keys, target, order_keys, scores, family, split)
        )
    return pd.DataFrame(rows)


def row_of(
    item: str,
    kind: str,
    readout: str,
    keys: Sequence[str],
    target: Any,
    order_keys: Sequence[Sequence[str]],
    scores: Sequence[Sequence[float]],
    family: str = "x",
    split: str = "fit",
) -> dict[str, Any]:
    """One row of a Predictions frame at temperature 1."""
    target = [float(value) for value in target]
    weights = expansion(readout)
    expand = None
    if weights is not None:
        expand = [[weights[label].get(key, 0.0) for key in keys] for label in order_keys[0]]
    per_order = merge.order_distributions(scores, order_keys, keys, 1.0, expand)
    return {
        "item_id": item,
        "question_id": "q",
        "type": kind,
        "source": f"set-{family}",
        "family": family,
        "split": split,
        "group": item,
        "keys": list(keys),
        "target": target,
        "gold": int(np.argmax(target)) if target.count(max(target)) == 1 else -1,
        "readout": readout,
        "order_keys": [list(order) for order in order_keys],
        "scores": [list(map(float, row)) for row in scores],
        "order_probabilities": per_order.tolist(),
        "probabilities": merge.merge(per_order).tolist(),
        "bucket": None,
        "state_tokens": 10,
        "question_tokens": 20,
        "described": False,
    }
