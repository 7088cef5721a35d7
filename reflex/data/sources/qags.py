"""qags: is a one-sentence summary consistent with its article? (soft labels)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, Item, Source

WORDINGS = (
    "Is the summary consistent with the article?",
    "Is everything in the summary supported by the article?",
)
NEGATED = ("Does the summary say something the article does not support?",)


def item(raw: Mapping[str, Any]) -> Item:
    share = float(raw["human_consistency"])
    ask = Ask("noul", WORDINGS, {"true": share, "false": 1 - share}, negated=NEGATED)
    state = {"article": raw["article"], "summary": raw["summary"]}
    return Item(str(raw["id"]), (state,), {"consistent": ask}, raw["article"])


SOURCE = Source(
    name="qags",
    family="fact",
    item=item,
    files={"train/qags_cnndm.jsonl": "hash"},
    licence="none stated",
    use="unstated",
)
