"""Shared shape of paraphrase sources: do two texts mean the same?"""

from __future__ import annotations

from reflex.data.sources.base import Ask, Item, OptionSet

WORDINGS = (
    "Do the two texts mean the same?",
    "Is the second text a paraphrase of the first?",
    "Do both sentences say the same thing? Sentences that share words can still differ in meaning.",
    "Are these two equivalent in meaning?",
)
NEGATED = (
    "Do the two texts differ in meaning?",
    "Is there a difference in meaning between the two sentences?",
)
SETS: tuple[OptionSet, ...] = (
    {},
    {
        "true": ("", "They describe the same facts about the same people and things."),
        "false": ("", "They differ in some fact, such as who did what, when, where or how many."),
    },
)


def paraphrase_item(identity: str, first: str, second: str, same: bool, group: str = "") -> Item:
    ask = Ask("noul", WORDINGS, "true" if same else "false", SETS, negated=NEGATED)
    states = (
        {"sentence_1": first, "sentence_2": second},
        {"text_1": first, "text_2": second},
        f"1. {first}\n2. {second}",
    )
    return Item(identity, states, {"same": ask}, group or first)
