"""sst5: five levels of sentiment of film-review sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source

LONG = {
    "0": ("", "Very negative: the writer strongly dislikes it."),
    "1": ("", "Negative: mostly criticism."),
    "2": ("", "Neutral or mixed."),
    "3": ("", "Positive: mostly praise."),
    "4": ("", "Very positive: the writer loves it."),
}
SHORT = {
    "0": ("", "very negative"),
    "1": ("", "negative"),
    "2": ("", "neutral"),
    "3": ("", "positive"),
    "4": ("", "very positive"),
}
WORDINGS = (
    "How positive is the sentence about the film?",
    "Rate the sentiment of the text.",
    "How much did the reviewer like it?",
)


def item(raw: Mapping[str, Any]) -> Item:
    ask = Ask("score", WORDINGS, str(raw["label"]), (LONG, SHORT), abstains=False)
    return Item(str(raw["id"]), (raw["text"], {"review": raw["text"]}), {"sentiment": ask})


SOURCE = Source(
    name="sst5",
    family="sentiment",
    item=item,
    files={
        "train/sst5_train.jsonl": "train",
        "train/sst5_dev.jsonl": "fit",
        "train/sst5_test.jsonl": "report",
    },
    hub=(
        HubSet("SetFit/sst5", role="train"),
        HubSet("SetFit/sst5", split="validation"),
        HubSet("SetFit/sst5", split="test"),
    ),
    licence="none stated; published for research",
    use="non-commercial",
)
