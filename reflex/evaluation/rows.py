"""What is kept of a decided row: one prediction per question. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reflex.contract import question_is_described
from reflex.data.rows import Row

if TYPE_CHECKING:
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
    return found
