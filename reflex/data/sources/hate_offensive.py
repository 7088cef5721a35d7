"""hate_offensive: tweets judged by three or more people (soft labels from their votes). MIT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source

LABELS = ("hate_speech", "offensive_language", "neither")
SETS = (
    {
        "hate_speech": ("hate speech", "Attacks people for what group they belong to."),
        "offensive_language": ("offensive", "Rude or vulgar, but not aimed at a group."),
        "neither": ("neither", "Not offensive."),
    },
    {
        "hate_speech": ("hate_speech", None),
        "offensive_language": ("offensive_language", None),
        "neither": ("neither", None),
    },
)
WORDINGS = ("How would readers judge the message?", "Is the message hateful, offensive or neither?")
RUDE = ("Is the message offensive or hateful?", "Would a reader find this message offensive?")
FINE = ("Is the message free of offence?", "Is this message acceptable?")


def item(raw: Mapping[str, Any]) -> Item:
    counts = raw["votes"] if "votes" in raw else [raw[f"{label}_count"] for label in LABELS]
    votes = dict(zip(LABELS, (float(v) for v in counts), strict=True))
    rude = votes["hate_speech"] + votes["offensive_language"]
    asks = {
        "kind": Ask("choice", WORDINGS, votes, SETS, abstains=False),
        "offensive": Ask(
            "noul", RUDE, {"true": rude, "false": votes["neither"]}, negated=FINE, abstains=False
        ),
    }
    return Item(str(raw["id"]), (raw["text"], {"message": raw["text"]}), asks)


SOURCE = Source(
    name="hate_offensive",
    family="safety",
    item=item,
    files={"train/hate_offensive.jsonl": "hash"},
    hub=(HubSet("tdavidson/hate_speech_offensive", rename={"tweet": "text"}),),
    licence="MIT",
)
