"""Multiple choice recast: only "is the proposed answer correct?" of another source's questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reflex.data.sources.base import Item, Source


def recast(of: Source) -> Source:
    """`of` as a source of yes/no questions, NAME_yesno. Its texts are split as in `of`."""

    def item(raw: Mapping[str, Any]) -> Item | None:
        made = of.item(raw)
        return made and replace(made, asks={"check": made.asks["check"]})

    return replace(of, name=f"{of.name}_yesno", item=item, texts=of.texts or of.name)
