"""halueval: does a model response contain made-up or false statements? MIT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source

WORDINGS = (
    "Does the response contain made-up or false information?",
    "Is anything in the response invented?",
)
NEGATED = ("Is the response free of false information?", "Can the response be trusted?")


def item(raw: Mapping[str, Any]) -> Item:
    invented = raw["label"] in (True, "yes")
    ask = Ask("noul", WORDINGS, "true" if invented else "false", negated=NEGATED)
    state = {"query": raw["user_query"], "response": raw["response"]}
    return Item(str(raw["id"]), (state,), {"invented": ask})


SOURCE = Source(
    name="halueval",
    family="fact",
    item=item,
    files={"train/halueval_general.jsonl": "hash"},
    hub=(
        HubSet(
            "pminervini/HaluEval",
            "general",
            "data",
            rename={"chatgpt_response": "response", "hallucination": "label"},
        ),
    ),
    licence="MIT",
)
