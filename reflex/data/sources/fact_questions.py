"""fact_questions: supported and refuted claims turned into yes/no questions about their passage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reflex.data.sources.base import Item, Source
from reflex.data.sources.nli import answer_item
from reflex.data.sources.sentences import PASSAGES

FILES = {
    "train/snli_dev.jsonl": ("premise", "hypothesis", "entailment", "contradiction"),
    "train/anli_test.jsonl": ("evidence", "claim", "SUPPORTS", "REFUTES"),
    "train/fever_symmetric_dev.jsonl": ("evidence", "claim", "SUPPORTS", "REFUTES"),
    "train/fever_adversarial.jsonl": ("evidence", "claim", "SUPPORTS", "REFUTES"),
}

LICENCE = "CC BY-SA 4.0; CC BY-NC 4.0; CC BY-SA 3.0"
"""Of these files."""


def claims(read: Callable[[str], Iterator[Mapping[str, Any]]]) -> Iterator[Mapping[str, Any]]:
    """Every supported or refuted claim of the files, with its passage."""
    for name, (passage, claim, yes, no) in FILES.items():
        for raw in read(name):
            if raw["label"] in (yes, no):
                yield {
                    "id": raw["id"],
                    "passage": raw[passage],
                    "claim": raw[claim],
                    "supported": raw["label"] == yes,
                }


def item(raw: Mapping[str, Any]) -> Item:
    return answer_item(raw["id"], raw["passage"], raw["claim"], raw["supported"])


SOURCE = Source(
    name="fact_questions",
    family="fact",
    item=item,
    texts=PASSAGES,
    derive=claims,
    licence=LICENCE,
    use="non-commercial",
)
