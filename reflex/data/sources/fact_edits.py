"""fact_edits: claims made from an evidence sentence by rule. A number is bounded or changed, two names trade
places, or the claim is about another passage (not enough information). Made from sentences of other sources.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reflex.data.sources.base import Item, Source
from reflex.data.sources.nli import pair_item
from reflex.data.sources.sentences import (
    LICENCE,
    PASSAGES,
    numbers,
    reword,
    sentences,
    standing,
    swap_words,
)

ABOVE = ("more than", "over", "at least", "above")
BELOW = ("less than", "fewer than", "under", "below")

_BOUND_BEFORE = re.compile(
    r"\b(?:\w+er than|(?:more|less) than|at (?:least|most)|over|under|above|below|beyond|within|up to|exceed\w*"
    r"|(?:m(?:in|ax)imum|excess) of|as (?:many|much|few|little) as|between(?: \S+ and)?)"
    r"(?: (?:an?|the|about|around|roughly|some|approximately|just|well))?\W*$",
    re.IGNORECASE,
)
_BOUND_BEHIND = re.compile(r"^\W*(?:or|and) (?:more|less|fewer|over|under|above|below|\w+er)\b|^\+")


def derive(read: Callable[[str], Iterator[Mapping[str, Any]]]) -> Iterator[Mapping[str, Any]]:
    known = list(sentences(read))
    kin = _kin(read)
    by_name: dict[str, list[int]] = {}
    for number, (_, sentence, _) in enumerate(known):
        for word in sentence.split()[1:]:
            if word[0].isupper() and word.isalpha():
                by_name.setdefault(word, []).append(number)
    for number, (passage, sentence, group) in enumerate(known):
        rng = random.Random(f"fact-edits:{sentence}")
        made: list[tuple[str | None, str]] = []
        found = [each for each in numbers(sentence) if _editable(sentence, *each)]
        if found:
            made += [_bounded(sentence, found, rng) for _ in range(2)]
        elif rng.random() < 0.35:
            made.append((swap_words(sentence, rng), "no"))
            made.append((reword(sentence, rng), "yes"))
            made.append((_unrelated(passage, sentence, known, by_name, kin, rng), "maybe"))
        for place, (claim, label) in enumerate(made):
            if claim is not None and claim != sentence:
                evidence = sentence if len(passage) > 400 or rng.random() < 0.5 else passage
                yield {
                    "id": f"{number}-{place}",
                    "evidence": evidence,
                    "claim": claim,
                    "label": label,
                    "group": group,
                }


def _unrelated(
    passage: str,
    sentence: str,
    known: list[tuple[str, str, str]],
    by_name: dict[str, list[int]],
    kin: Mapping[str, str],
    rng: random.Random,
) -> str | None:
    """A sentence of another passage that is not kin to it, mostly one that shares a name with this sentence."""
    names = [word for word in sentence.split()[1:] if word in by_name]
    pool = by_name[rng.choice(names)] if names and rng.random() < 0.8 else range(len(known))
    _, claim, _ = known[rng.choice(pool)]
    return claim if kin[claim] != kin[sentence] and claim not in passage else None


def _kin(read: Callable[[str], Iterator[Mapping[str, Any]]]) -> dict[str, str]:
    """Sentence → its kin by one of their groups: sentences of one group, and of groups that share a sentence, are
    about the same thing (a claim and its evidence, both evidences of a claim)."""
    above: dict[str, str] = {}

    def top(node: str) -> str:
        while (up := above.setdefault(node, node)) != node:
            above[node], node = above[up], up
        return node

    first: dict[str, str] = {}
    for _, sentence, group in standing(read):
        above[top(group)] = top(first.setdefault(sentence, group))
    return {sentence: top(group) for sentence, group in first.items()}


def _editable(sentence: str, start: int, end: int, value: int) -> bool:
    """Whether the number may be bounded: it is no year, not too small, and no bound already ("more than 258",
    "20 or more"), of which another bound would say nothing."""
    bound = _BOUND_BEFORE.search(sentence[:start]) or _BOUND_BEHIND.match(sentence[end:])
    return not (1000 <= value <= 2100 or value < 3 or bound)


def _bounded(
    sentence: str, found: list[tuple[int, int, int]], rng: random.Random
) -> tuple[str | None, str]:
    start, end, value = rng.choice(found)
    supported = rng.random() < 0.5
    factor = rng.choice((0.5, 0.8, 0.9, 0.95))
    low, high = _round(value * factor), _round(value / factor) + 1
    if not low < value < high:
        return None, "yes"
    upward = rng.random() < 0.5
    bound = (low if supported else high) if upward else (high if supported else low)
    phrase = f"{rng.choice(ABOVE if upward else BELOW)} {_written(bound, sentence[start:end])}"
    if not supported and rng.random() < 0.3:
        phrase = _written(bound, sentence[start:end])
    return sentence[:start] + phrase + sentence[end:], "yes" if supported else "no"


def _round(value: float) -> int:
    step = 10 ** max(0, len(str(int(value))) - 2)
    return int(value // step * step)


def _written(value: int, like: str) -> str:
    return f"{value:,}" if "," in like else str(value)


def item(raw: Mapping[str, Any]) -> Item:
    made = pair_item(raw["id"], raw["evidence"], raw["claim"], raw["label"])
    return Item(made.id, made.states, made.asks, raw["group"])


SOURCE = Source(
    name="fact_edits",
    family="fact",
    item=item,
    texts=PASSAGES,
    derive=derive,
    licence=LICENCE,
    use="non-commercial",
)
