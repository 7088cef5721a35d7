"""ag_news: four topics of news items. Non-commercial use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source, plain

LABELS = ("World", "Sports", "Business", "Sci/Tech")
SETS = (
    plain(LABELS),
    {
        "World": ("World", "Politics, conflict, diplomacy and events abroad."),
        "Sports": ("Sports", "Games, athletes, teams and results."),
        "Business": ("Business", "Companies, markets, jobs and the economy."),
        "Sci/Tech": ("Sci/Tech", "Science, computers, the internet and gadgets."),
    },
)
WORDINGS = (
    "Which section does the news item belong to?",
    "What is the article about?",
    "Classify the news item by topic.",
)


def item(raw: Mapping[str, Any]) -> Item:
    if "title" in raw:
        states: tuple[Any, ...] = (
            {"title": raw["title"], "text": raw["text"]},
            f"{raw['title']}\n{raw['text']}",
        )
    else:
        states = (raw["text"],)
    ask = Ask("choice", WORDINGS, raw["label"], SETS, abstains=False)
    return Item(str(raw["id"]), states, {"topic": ask})


SOURCE = Source(
    name="ag_news",
    family="topic",
    item=item,
    files={"train/ag_news.jsonl": "hash"},
    hub=(HubSet("fancyzhx/ag_news"), HubSet("fancyzhx/ag_news", split="test")),
    licence="non-commercial / academic use",
    use="non-commercial",
)
