"""toxigen: statements about groups of people, rated by people from 1 to 5 (hub only; ask for access there)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import HubSet, Item, Source
from reflex.data.sources.toxic import toxic_item

TOXIC = 3
"""The lowest mean rating that counts as toxic."""


def item(raw: Mapping[str, Any]) -> Item:
    return toxic_item(str(raw["id"]), raw["text"], raw["toxicity_human"] >= TOXIC)


SOURCE = Source(
    name="toxigen",
    family="safety",
    item=item,
    hub=(
        HubSet("toxigen/toxigen-data", "annotated", role="train"),
        HubSet("toxigen/toxigen-data", "annotated", "test"),
    ),
    licence="none stated; published for research",
    use="non-commercial",
)
