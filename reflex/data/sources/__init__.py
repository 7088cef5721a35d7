"""Labelled data sources, one file each. A module here holds one `SOURCE`; a new file is a new source."""

from __future__ import annotations

from functools import cache

from reflex.data.sources.base import Ask, HubSet, Item, Source
from reflex.discover import modules
from reflex.errors import ConfigError

__all__ = ["Ask", "HubSet", "Item", "Source", "source", "source_names"]


@cache
def _registry() -> dict[str, Source]:
    found = (getattr(module, "SOURCE", None) for _, module in modules("reflex.data.sources"))
    return {each.name: each for each in found if each is not None}


def source_names() -> tuple[str, ...]:
    """Every source, in name order."""
    return tuple(sorted(_registry()))


def source(name: str) -> Source:
    """The source called `name`. Raises ConfigError listing the names."""
    try:
        return _registry()[name]
    except KeyError:
        raise ConfigError(
            f"source {name}: unknown; use one of {', '.join(source_names())}"
        ) from None
