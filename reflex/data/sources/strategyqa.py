"""strategyqa: yes/no questions with the facts that answer them. MIT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source
from reflex.data.sources.nli import ANSWER_NEGATED, ANSWER_SETS, ANSWER_WORDINGS


def item(raw: Mapping[str, Any]) -> Item:
    label = "true" if raw["label"] else "false"
    ask = Ask("noul", ANSWER_WORDINGS, label, ANSWER_SETS, negated=ANSWER_NEGATED)
    facts = raw["facts"]
    passage = facts if isinstance(facts, str) else " ".join(facts)
    states = (
        {"passage": passage, "question": raw["question"]},
        f"Passage: {passage}\nQuestion: {raw['question']}",
    )
    return Item(str(raw["id"]), states, {"answer": ask}, raw["question"])


SOURCE = Source(
    name="strategyqa",
    family="fact",
    item=item,
    files={"train/strategyqa_train.jsonl": "hash"},
    hub=(HubSet("ChilleD/StrategyQA", rename={"answer": "label"}),),
    licence="MIT",
)
