"""openai_moderation: texts that a content policy flags or not. MIT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, Item, Source

WORDINGS = (
    "Does the text break a content policy (hate, violence, sexual content, harassment, self-harm)?",
    "Should a moderator flag this text?",
)
NEGATED = ("Is the text harmless under a usual content policy?",)


def item(raw: Mapping[str, Any]) -> Item:
    label = "true" if raw["label"] else "false"
    ask = Ask("noul", WORDINGS, label, negated=NEGATED, abstains=False)
    return Item(str(raw["id"]), (raw["text"], {"text": raw["text"]}), {"flag": ask})


SOURCE = Source(
    name="openai_moderation",
    family="safety",
    item=item,
    files={"train/openai_moderation.jsonl": "hash"},
    licence="MIT",
)
