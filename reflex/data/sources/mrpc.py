"""mrpc: sentence pairs from news. Research licence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source
from reflex.data.sources.paraphrase import paraphrase_item
from reflex.data.sources.sentences import PASSAGES


def item(raw: Mapping[str, Any]) -> Item:
    return paraphrase_item(str(raw["id"]), raw["sentence_1"], raw["sentence_2"], bool(raw["label"]))


SOURCE = Source(
    name="mrpc",
    family="paraphrase",
    item=item,
    texts=PASSAGES,
    files={"train/mrpc_train.jsonl": "hash", "train/mrpc_test.jsonl": "hash"},
    hub=(HubSet("SetFit/mrpc", rename={"text1": "sentence_1", "text2": "sentence_2"}),),
    licence="Microsoft Research data licence",
    use="non-commercial",
)
