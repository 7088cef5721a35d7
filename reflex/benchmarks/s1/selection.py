"""Which of the rows at hand are the subset's items, and the word that says how sure that is.

`exact`: the pinned ids and label counts, all of them. `rebuilt`: no ids to check, but the documented draw,
or a file that is already drawn or marks its pinned rows, gives the pinned label counts. `stand-in`: another
split, copy or draw, or a part of the items. `missing`: no rows. `withheld`: not scored, because it was
trained on.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reflex.benchmarks.s1.definitions import Definition
from reflex.benchmarks.s1.items import Item, boolq_id

WORDS = ("exact", "rebuilt", "stand-in", "missing", "withheld")
"""From strongest to weakest."""

SEED = 20260918

FILTERED = ("aegis2", "helpsteer2")
"""Subsets whose rule drops the rows of over 2,048 tokens of another model's prompt before it draws (1 and 4
rows; it names both summeval too, and drops none there). That prompt is not here, and one row more or less
shuffles the families into another order: what is drawn from all rows is another draw."""


@dataclass(frozen=True)
class Selection:
    items: list[Item]
    word: str
    reason: str


def select(definition: Definition, items: Sequence[Item]) -> Selection:
    """The items to score, the word and why. Deterministic; looks at no label to choose an item."""
    if not items:
        return Selection([], "missing", "no rows")
    if definition.ids is not None:
        own = [item for item in items if item.id in definition.ids and item.pinned is not False]
        if 2 * len(own) >= definition.n or len(own) == len(items):
            return _pinned(definition, own)
    flagged = [item for item in items if item.pinned]
    if _counts_match(definition, flagged):
        if definition.ids is None:
            return Selection(flagged, "rebuilt", "marked as pinned by the file; no ids to check")
        return Selection(
            flagged,
            "stand-in",
            "marked as pinned by the file and the label counts match, but the ids are not the "
            "pinned ones: another copy of the text",
        )
    drawn = draw(items, definition.limit)
    other = any(item.pinned is False for item in drawn)
    unfiltered = definition.name in FILTERED and len(drawn) < len(items)
    if definition.ids is None and not (other or unfiltered) and _counts_match(definition, drawn):
        return Selection(drawn, "rebuilt", "drawn by the documented rule; label counts match")
    ours, theirs = len(drawn), definition.n
    if other:
        reason = "rows of another split or copy"
    elif unfiltered:
        reason = "drawn without the documented length filter"
    else:
        reason = "label counts differ from the pinned"
    return Selection(drawn, "stand-in", f"{reason} ({ours} rows, S1Bench has {theirs})")


def _pinned(definition: Definition, own: list[Item]) -> Selection:
    if len(own) < definition.n:
        return Selection(own, "stand-in", f"{len(own)} of {definition.n} pinned items are here")
    if not _counts_match(definition, own):
        return Selection(own, "stand-in", "pinned ids, but other label counts")
    if definition.name == "boolq" and any(boolq_id(item.state) != item.id for item in own):
        return Selection(own, "stand-in", "pinned ids, but the texts do not hash to them")
    return Selection(own, "exact", f"all {definition.n} pinned ids; label counts match")


def draw(items: Iterable[Item], limit: int) -> list[Item]:
    """Whole families in seeded order until the next one would pass `limit` (S1Bench's documented rule).

    The items keep the order of their families in the draw, and inside a family their own.
    """
    families: dict[str, list[Item]] = {}
    for item in items:
        families.setdefault(item.family, []).append(item)
    keys = sorted(families)
    random.Random(SEED).shuffle(keys)
    drawn: list[Item] = []
    for key in keys:
        if len(drawn) + len(families[key]) > limit:
            break
        drawn += families[key]
    return drawn


def weakest(words: Iterable[str]) -> str:
    """The weakest of the words."""
    return max(words, key=WORDS.index)


def _counts_match(definition: Definition, items: Sequence[Item]) -> bool:
    counts = Counter(item.label for item in items)
    return {key: counts[key] for key in definition.labels} == dict(definition.labels)
