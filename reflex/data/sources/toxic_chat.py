"""toxic_chat: messages of users to a chat assistant, toxic or not (hub only). CC BY-NC 4.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source
from reflex.data.sources.toxic import toxic_item


def item(raw: Mapping[str, Any]) -> Item:
    return toxic_item(str(raw["id"]), raw["user_input"], bool(raw["toxicity"]))


SOURCE = Source(
    name="toxic_chat",
    family="safety",
    item=item,
    hub=(HubSet("lmsys/toxic-chat", "toxicchat0124"),),
    licence="CC BY-NC 4.0",
    use="non-commercial",
)
