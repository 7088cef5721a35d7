"""Shared shape of sources that ask of a text whether it is toxic. Any text answers that."""

from __future__ import annotations

from reflex.data.sources.base import Ask, Item, OptionSet

WORDINGS = (
    "Is the text toxic?",
    "Would the text hurt or demean people?",
    "Is this message rude, hateful or otherwise harmful?",
)
NEGATED = ("Is the text free of toxicity?", "Is this message harmless?")
SETS: tuple[OptionSet, ...] = (
    {},
    {
        "true": (
            "",
            "It insults, demeans, threatens or is sexually abusive, openly or by implication.",
        ),
        "false": ("", "It does not, even where its topic is sensitive."),
    },
)


def toxic_item(identity: str, text: str, toxic: bool) -> Item:
    label = "true" if toxic else "false"
    ask = Ask("noul", WORDINGS, label, SETS, negated=NEGATED, abstains=False)
    return Item(identity, (text, {"text": text}, {"message": text}), {"toxic": ask})
