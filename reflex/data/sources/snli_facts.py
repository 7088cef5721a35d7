"""snli_facts: snli pairs asked as evidence and claim, so that the answer names vary. CC BY-SA 4.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Item, Source
from reflex.data.sources.nli import judged
from reflex.data.sources.sentences import PASSAGES


def item(raw: Mapping[str, Any]) -> Item | None:
    return judged(raw, fields=("premise", "hypothesis"))


SOURCE = Source(
    name="snli_facts",
    family="fact",
    item=item,
    texts=PASSAGES,
    files={"train/snli_dev.jsonl": "hash"},
    licence="CC BY-SA 4.0",
)
