"""nli_fever: claims and evidence of FEVER, with FEVER's own outcomes (hub only). CC BY-SA 3.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source
from reflex.data.sources.nli import judged
from reflex.data.sources.sentences import PASSAGES


def item(raw: Mapping[str, Any]) -> Item | None:
    return judged(raw, outcome="fever_gold_label")


SOURCE = Source(
    name="nli_fever",
    family="fact",
    item=item,
    texts=PASSAGES,
    # The hub's premise is the claim, its hypothesis the evidence.
    hub=(HubSet("pietrolesci/nli_fever", rename={"premise": "claim", "hypothesis": "evidence"}),),
    licence="CC BY-SA 3.0",
)
