"""passage_questions: several yes/no questions about one passage. Supported and refuted claims of fact-checking
sources, and the same claims negated by rule, so that the words of a claim do not give its answer away.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reflex.data.sources.base import Ask, Item, Source
from reflex.data.sources.fact_questions import LICENCE, claims
from reflex.data.sources.nli import ANSWER_SETS, as_question
from reflex.data.sources.sentences import PASSAGES, negate

MOST = 4
"""Questions of one passage."""
SHAPES = (
    "{question}",
    "According to the passage: {question}",
    "{query}",
    "{claim} Does the passage say or imply so?",
)


def derive(read: Callable[[str], Iterator[Mapping[str, Any]]]) -> Iterator[Mapping[str, Any]]:
    passages: dict[str, list[tuple[str, bool]]] = {}
    for raw in claims(read):
        passages.setdefault(raw["passage"], []).append((raw["claim"], raw["supported"]))
    for number, (passage, judged) in enumerate(passages.items()):
        rng = random.Random(f"passage-questions:{passage}")
        asked = []
        for claim, supported in judged:
            opposite = negate(claim)
            asked.append((claim, supported))
            if opposite is not None and rng.random() < 0.5:
                asked.append((opposite, not supported))
        rng.shuffle(asked)
        yield {"id": str(number), "passage": passage, "asked": asked[:MOST]}


def item(raw: Mapping[str, Any]) -> Item:
    asks = {}
    for number, (claim, supported) in enumerate(raw["asked"], 1):
        question = as_question(claim)
        query = question.rstrip("?").lower()
        wordings = tuple(
            shape.format(question=question, query=query, claim=claim) for shape in SHAPES
        )
        # The claim is in the question, so a foreign passage answers it: it does not say so.
        label = "true" if supported else "false"
        asks[f"q{number}"] = Ask("noul", wordings, label, ANSWER_SETS, abstains=False)
    states = (raw["passage"], {"passage": raw["passage"]})
    return Item(raw["id"], states, asks, group=raw["passage"])


SOURCE = Source(
    name="passage_questions",
    family="fact",
    item=item,
    texts=PASSAGES,
    derive=derive,
    licence=LICENCE,
    use="non-commercial",
)
