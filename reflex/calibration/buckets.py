"""Which answers share a temperature: bucket keys from the finest that applies to the coarsest."""

from __future__ import annotations

RULES = ("none", "global", "type", "type_readout", "type_readout_band")
BANDS: tuple[tuple[int | None, str], ...] = ((8, "le8"), (26, "le26"), (None, "more"))
"""(largest number of options, name), in order."""


def band(n_options: int) -> str:
    """The option-count band: `le8`, `le26` (one page of letters) or `more`."""
    return next(name for most, name in BANDS if most is None or n_options <= most)


def chain(rule: str, kind: str, readout: str, n_options: int) -> tuple[str, ...]:
    """Bucket keys of a question, finest first; each one is the parent of the one before it.

    `type_readout_band`: `choice:label_tokens:le8`, `choice:label_tokens`, `choice`, `all`.
    """
    keys = ("all", kind, f"{kind}:{readout}", f"{kind}:{readout}:{band(n_options)}")
    return keys[: RULES.index(rule)][::-1]
