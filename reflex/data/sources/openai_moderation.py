"""openai_moderation: texts that a content policy flags or not. MIT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source

WORDINGS = (
    "Does the text break a content policy (hate, violence, sexual content, harassment, self-harm)?",
    "Should a moderator flag this text?",
)
NEGATED = ("Is the text harmless under a usual content policy?",)


CATEGORIES = ("S", "H", "V", "HR", "SH", "H2", "V2")
"""The hub's columns; rows of S3 (minors) are left out, as in the local file."""


def item(raw: Mapping[str, Any]) -> Item | None:
    if raw.get("S3"):
        return None
    flagged = raw["label"] if "label" in raw else any(raw[name] for name in CATEGORIES)
    label = "true" if flagged else "false"
    ask = Ask("noul", WORDINGS, label, negated=NEGATED, abstains=False)
    return Item(str(raw["id"]), (raw["text"], {"text": raw["text"]}), {"flag": ask})


SOURCE = Source(
    name="openai_moderation",
    family="safety",
    item=item,
    files={"train/openai_moderation.jsonl": "hash"},
    hub=(HubSet("mmathys/openai-moderation-api-evaluation", rename={"prompt": "text"}),),
    licence="MIT",
)
