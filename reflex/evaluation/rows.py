"""What is kept of a decided row: one prediction per question. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reflex.contract import question_is_described
from reflex.data.rows import Row

if TYPE_CHECKING:
    import pandas as pd

    from reflex.decider import Decision


def row_predictions(row: Row, decisions: Mapping[str, Decision]) -> list[dict[str, Any]]:
    """One prediction per question, with the columns of reflex.tracking.predictions.SCHEMA."""
    found = []
    for question_id, question in row.questions.items():
        decision = decisions[question_id]
        target = [row.labels[question_id][key] for key in decision.keys]
        top = max(target)
        found.append(
            {
                "item_id": row.id,
                "question_id": question_id,
                "type": question.type,
                "source": row.source,
                "family": row.family,
                "split": row.split,
                "group": row.group,
                "keys": list(decision.keys),
                "target": target,
                "gold": target.index(top) if target.count(top) == 1 else -1,
                "readout": decision.readout,
                "order_keys": [list(keys) for keys in decision.order_keys],
                "scores": [list(scores) for scores in decision.scores],
                "order_probabilities": [list(row) for row in decision.order_probabilities],
                "probabilities": list(decision.probabilities),
                "bucket": decision.bucket,
                "state_tokens": decision.state_tokens,
                "question_tokens": decision.question_tokens,
                "described": question_is_described(question),
            }
        )
        if decision.wordings > 1:
            found[-1]["wordings"] = decision.wordings
        if decision.notes:
            found[-1]["route"] = decision.notes["x_route"]
    return found


def routes(predictions: pd.DataFrame) -> dict[str, dict[str, dict[str, int]]]:
    """`{"routes": {readout: {why: questions}}}` of what a router decided; empty without one."""
    if "route" not in predictions:
        return {}
    routed = predictions.dropna(subset="route")
    found: dict[str, dict[str, int]] = {}
    for readout, why in sorted(zip(routed["readout"], routed["route"], strict=True)):
        counts = found.setdefault(readout, {})
        counts[why] = counts.get(why, 0) + 1
    return {"routes": found}
