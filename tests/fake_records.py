"""Records and predictions made up for the tests of tracking and reporting: no model, no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from reflex.metrics import DEFINITIONS, compute, compute_by
from reflex.tracking.record import RunRecord

TYPES = {
    "noul": ["true", "false"],
    "choice": ["negative", "neutral", "positive"],
    "score": [str(level) for level in range(9)],
}


def fake_predictions(items: int = 40, seed: int = 0, quality: float = 1.5) -> pd.DataFrame:
    """One row per item × question type; a higher `quality` makes the gold option more probable.

    Labels depend on the item alone, so frames of the same size answer the same questions.
    """
    truth, noise = np.random.default_rng(7), np.random.default_rng([seed, 1])
    rows = []
    for item in range(items):
        for kind, keys in TYPES.items():
            gold = int(truth.integers(len(keys)))
            target = np.full(len(keys), 0.1 / (len(keys) - 1))
            target[gold] = 0.9
            orders = [list(keys), list(reversed(keys))]
            scores, mapped = [], []
            for order in orders:
                score = noise.normal(size=len(keys)) + quality * np.array(
                    [key == keys[gold] for key in order]
                )
                p = np.exp(score) / np.exp(score).sum()
                scores.append(score.tolist())
                mapped.append([float(p[order.index(key)]) for key in keys])
            rows.append(
                {
                    "item_id": f"item-{item}",
                    "question_id": kind,
                    "type": kind,
                    "source": "ratings",
                    "family": ("tweets", "news")[item % 2],
                    "split": "report",
                    "group": f"item-{item}",
                    "keys": keys,
                    "target": target.tolist(),
                    "gold": gold,
                    "readout": "label_tokens",
                    "order_keys": orders,
                    "scores": scores,
                    "order_probabilities": mapped,
                    "probabilities": np.mean(mapped, axis=0).tolist(),
                    "bucket": None,
                    "state_tokens": 30 + item,
                    "question_tokens": 100,
                    "described": False,
                }
            )
    return pd.DataFrame(rows)


_measured: dict[int, tuple[pd.DataFrame, dict[str, Any]]] = {}


def measured(frame: pd.DataFrame) -> dict[str, Any]:
    """The record's metrics of a frame; computed once per frame object, which is kept alive."""
    if id(frame) not in _measured:
        numbers = {
            "metrics": compute(frame),
            "by": {column: compute_by(frame, column) for column in ("type", "family")},
        }
        _measured[id(frame)] = (frame, numbers)
    return _measured[id(frame)][1]


def fake_record(
    orders: str = "one", predictions: pd.DataFrame | None = None, **changes: Any
) -> RunRecord:
    """A finished cell `orders=<orders>` of the sweep `averaging`; `changes` replace its fields."""
    frame = fake_predictions() if predictions is None else predictions
    fields: dict[str, Any] = {
        "hash": f"{orders}0123456789abcdef",
        "experiment": "averaging",
        "group": "averaging-1",
        "name": f"orders={orders}",
        "axes": {"backbone": "smollm2_135m", "readout": "label_tokens", "orders": orders},
        "config": {
            "orders": {"permutations": orders},
            "verdict": {
                "metric": "nll",
                "baseline": "orders=one",
                "candidates": ["orders=two", "orders=four"],
                "margin": 0.0,
                "comparison": "paired_bootstrap",
            },
        },
        "seed": 1,
        "command": "python -m reflex.run experiment=averaging",
        "status": "finished",
        "git": {"commit": "c0ffee" * 6 + "cafe", "dirty": False},
        "backbone": {"name": "tiny_llama", "revision": None, "dtype": "float32", "device": "cpu"},
        "prompt_hash": "ab12cd34",
        "data": {"suite": "ratings", "sha256": "00ff", "items_sha256": "11ee", "n_rows": 40},
        "metric_definitions": DEFINITIONS,
        **measured(frame),
        "cost": {
            "tokens_per_decision": 51.25,
            "ms_per_decision": 3.5,
            "decisions": len(frame),
            "wall_s": 0.42,
            "cache": {"hits": 0, "misses": 40},
        },
        "hardware": {"cpu": "a CPU", "cores": 2, "memory_gib": 8.0, "gpus": [], "python": "3.11.7"},
        "packages": {"torch": "2.13.0", "transformers": "5.24.0", "peft": None},
        "numerics": 1,
        "started": "2026-01-02T03:04:05Z",
        "finished": "2026-01-02T03:05:05Z",
        "wall_s": 60.0,
    }
    return RunRecord(**{**fields, **changes})
