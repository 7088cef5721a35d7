"""qqp: question pairs (hub only). Quora terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source
from reflex.data.sources.paraphrase import paraphrase_item


def item(raw: Mapping[str, Any]) -> Item:
    return paraphrase_item(str(raw["id"]), raw["sentence_1"], raw["sentence_2"], bool(raw["label"]))


SOURCE = Source(
    name="qqp",
    family="paraphrase",
    item=item,
    files={},
    hub=(HubSet("SetFit/qqp", rename={"text1": "sentence_1", "text2": "sentence_2"}),),
    licence="Quora terms of service",
    use="non-commercial",
)
