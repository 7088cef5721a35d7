"""word_swaps: pairs that share nearly all words. Two words traded places (another meaning) or the sentence
was reworded by rule (the same meaning). Made from sentences of other sources; nothing from PAWS.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reflex.data.sources.base import Item, Source
from reflex.data.sources.paraphrase import paraphrase_item
from reflex.data.sources.sentences import LICENCE, PASSAGES, reword, sentences, swap_words


def derive(read: Callable[[str], Iterator[Mapping[str, Any]]]) -> Iterator[Mapping[str, Any]]:
    for number, (_, sentence, group) in enumerate(sentences(read)):
        rng = random.Random(f"word-swaps:{sentence}")
        same = reword(sentence, rng)
        base = same if same is not None and rng.random() < 0.5 else sentence
        other = swap_words(base, rng)
        made = ((same, True), (other if other not in (base, sentence) else None, False))
        for text, label in made:
            # Rewording rules fit fewer sentences than swaps do: keep the two labels about as frequent.
            if text is not None and (label or same is not None or rng.random() < 0.25):
                pair = (sentence, text) if rng.random() < 0.5 else (text, sentence)
                yield {"id": f"{number}-{label}", "pair": pair, "same": label, "group": group}


def item(raw: Mapping[str, Any]) -> Item:
    first, second = raw["pair"]
    return paraphrase_item(raw["id"], first, second, raw["same"], raw["group"])


SOURCE = Source(
    name="word_swaps",
    family="paraphrase",
    item=item,
    texts=PASSAGES,
    derive=derive,
    licence=LICENCE,
    use="non-commercial",
)
