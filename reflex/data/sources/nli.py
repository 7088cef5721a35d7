"""Shared shape of inference and fact-checking sources: does one text support, refute or not settle another?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, Item, OptionSet

OUTCOMES = {
    "SUPPORTS": "yes",
    "REFUTES": "no",
    "NOT ENOUGH INFO": "maybe",
    "entailment": "yes",
    "neutral": "maybe",
    "contradiction": "no",
}
"""An outcome as sources of fact checking and of inference write it → its label."""
LABELS = ("yes", "no", "maybe")
FACT_PAIR = ("evidence", "claim")

FACT_SETS: tuple[OptionSet, ...] = (
    {
        "yes": ("SUPPORTS", "The evidence says so, or it follows directly from the evidence."),
        "no": ("REFUTES", "The evidence says the opposite, or rules the claim out."),
        "maybe": ("NOT ENOUGH INFO", "The evidence does not settle the claim either way."),
    },
    {"yes": ("SUPPORTS", None), "no": ("REFUTES", None), "maybe": ("NOT ENOUGH INFO", None)},
    {
        "yes": ("supported", "The claim is true given the evidence."),
        "no": ("contradicted", "The claim is false given the evidence."),
        "maybe": ("unknown", "A missing fact would be needed to judge the claim."),
    },
    {"yes": ("true", None), "no": ("false", None), "maybe": ("cannot be told", None)},
)
NLI_SETS: tuple[OptionSet, ...] = (
    {
        "yes": ("entailment", "The hypothesis must be true if the premise is."),
        "maybe": ("neutral", "The hypothesis may or may not be true."),
        "no": ("contradiction", "The hypothesis cannot be true if the premise is."),
    },
    {"yes": ("entailment", None), "maybe": ("neutral", None), "no": ("contradiction", None)},
)
FACT_WORDINGS = (
    "Does the evidence support the claim?",
    "Decide how the evidence bears on the claim, from the evidence alone.",
    "What does the evidence say about the claim?",
    "Check the claim against the evidence. Do not use outside knowledge.",
    "Is the claim backed or contradicted by the evidence?",
)
NLI_WORDINGS = (
    "How does the hypothesis relate to the premise?",
    "Take the premise as true. What follows for the hypothesis?",
    "Is the hypothesis entailed by the premise?",
)
YES_WORDINGS = (
    "Is the claim true according to the evidence?",
    "Does the text say or imply that the claim is true?",
    "Does the claim follow from the evidence?",
)
NO_WORDINGS = (
    "Is the claim unsupported or false according to the evidence?",
    "Does the claim fail to follow from the evidence?",
)
ANSWER_WORDINGS = (
    "Does the passage answer the question with yes?",
    "Going by the passage, is the answer to the question yes?",
    "Is the answer yes? Use only what the passage states or implies.",
)
ANSWER_NEGATED = (
    "Does the passage answer the question with no?",
    "Going by the passage, is the answer to the question no?",
)
ANSWER_SETS: tuple[OptionSet, ...] = (
    {},
    {
        "true": ("", "The passage says or implies that the answer is yes."),
        "false": ("", "The passage says or implies that the answer is no."),
    },
)
_AUXILIARIES = {"is", "was", "are", "were", "has", "had", "can", "will", "does", "did"}
_SMALL = frozenset(
    "a an the this that these there some many most all no one two three his her its their".split()
)


def as_question(claim: str) -> str:
    """The claim as a yes/no question, by moving the first auxiliary to the front where there is one early."""
    words = claim.rstrip(" .").split()
    if words and words[0].lower() in _SMALL:
        words[0] = words[0].lower()
    for i, word in enumerate(words[1:7], 1):
        if word in _AUXILIARIES:
            return " ".join([word, *words[:i], *words[i + 1 :]]) + "?"
    return f"Is it true that {' '.join(words)}?"


def pair_item(
    identity: str,
    evidence: str,
    claim: str,
    label: str,
    *,
    labels: tuple[str, ...] = LABELS,
    names: tuple[str, str] = FACT_PAIR,
) -> Item:
    """An item asking about a pair; `label` is yes, no or maybe. `names` are the fields of its state."""
    first, second = names
    fact = tuple({key: shown[key] for key in labels} for shown in FACT_SETS)
    sets = fact
    wordings: tuple[str, ...] = FACT_WORDINGS
    if names == ("premise", "hypothesis"):
        sets, wordings = tuple({key: s[key] for key in labels} for s in NLI_SETS), NLI_WORDINGS
    holds = Ask(
        "noul",
        tuple(text.replace("claim", second).replace("evidence", first) for text in YES_WORDINGS),
        "true" if label == "yes" else "false",
        negated=tuple(
            text.replace("claim", second).replace("evidence", first) for text in NO_WORDINGS
        ),
    )
    asks = {"relation": Ask("choice", wordings, label, sets), "holds": holds}
    states = (
        {first: evidence, second: claim},
        f"{first.capitalize()}: {evidence}\n{second.capitalize()}: {claim}",
    )
    return Item(identity, states, asks, group=evidence)


def judged(
    raw: Mapping[str, Any],
    outcome: str = "label",
    fields: tuple[str, str] = FACT_PAIR,
    names: tuple[str, str] = FACT_PAIR,
    labels: tuple[str, ...] = LABELS,
) -> Item | None:
    """`pair_item` of a row with its texts in `fields` and one of OUTCOMES in `outcome`; None for any other."""
    label = OUTCOMES.get(raw[outcome])
    if label not in labels:
        return None
    first, second = fields
    return pair_item(str(raw["id"]), raw[first], raw[second], label, labels=labels, names=names)


def judged_claim(raw: Mapping[str, Any]) -> Item | None:
    """A row with evidence, claim and a clear outcome; None for what is not settled."""
    return judged(raw, labels=("yes", "no"))


def answer_item(identity: str, passage: str, claim: str, supported: bool) -> Item:
    """The pair as a yes/no question about a passage."""
    label = "true" if supported else "false"
    ask = Ask("noul", ANSWER_WORDINGS, label, ANSWER_SETS, negated=ANSWER_NEGATED)
    question = as_question(claim)
    query = question.rstrip("?").lower()  # as people type it into a search box
    states = (
        {"passage": passage, "question": question},
        f"Passage: {passage}\nQuestion: {question}",
        {"passage": passage, "question": query},
    )
    return Item(identity, states, {"answer": ask}, group=passage)
