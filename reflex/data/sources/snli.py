"""snli: image captions and hypotheses about them. CC BY-SA 4.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source
from reflex.data.sources.nli import judged
from reflex.data.sources.sentences import PASSAGES

PAIR = ("premise", "hypothesis")


def item(raw: Mapping[str, Any]) -> Item | None:
    return judged(raw, fields=PAIR, names=PAIR)


SOURCE = Source(
    name="snli",
    family="nli",
    item=item,
    texts=PASSAGES,
    files={"train/snli_dev.jsonl": "hash"},
    hub=(HubSet("stanfordnlp/snli"),),
    licence="CC BY-SA 4.0",
)
