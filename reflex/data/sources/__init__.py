"""Labelled data sources, one file each. A module here holds one `SOURCE`; a new file is a new source."""

from __future__ import annotations

from functools import cache

from reflex.data.contamination import blocked_subsets
from reflex.data.sources.base import Ask, HubSet, Item, Source
from reflex.discover import modules
from reflex.errors import ConfigError, ContaminationError

__all__ = ["Ask", "HubSet", "Item", "Source", "source", "source_names"]


@cache
def _registry() -> dict[str, Source]:
    found = (getattr(module, "SOURCE", None) for _, module in modules("reflex.data.sources"))
    return {each.name: each for each in found if each is not None}


def source_names() -> tuple[str, ...]:
    """Every source, in name order."""
    return tuple(sorted(_registry()))


def source(name: str) -> Source:
    """The source called `name`. Raises ConfigError listing the names, ContaminationError for a benchmark's."""
    try:
        return _registry()[name]
    except KeyError:
        if subsets := blocked_subsets(name):
            raise ContaminationError(
                f"source {name}: benchmark data ({' and '.join(subsets)}) must not be trained or calibrated "
                "on; measure it with benchmark=s1bench"
            ) from None
        raise ConfigError(
            f"source {name}: unknown; use one of {', '.join(source_names())}"
        ) from None
