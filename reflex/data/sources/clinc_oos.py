"""clinc_oos: 150 assistant intents and `oos`; also asked for the domain an intent belongs to. CC BY 3.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source, humanised, plain
from reflex.data.sources.labels import CLINC, CLINC_DOMAINS, DOMAIN_TEXTS

WORDINGS = (
    "Which intent does the utterance express?",
    "What is the user asking the assistant to do?",
    "Classify the request by intent.",
    "Pick the intent that fits this request best.",
)
DOMAIN_WORDINGS = (
    "Which part of the assistant should handle this request?",
    "Which domain does the utterance belong to?",
    "Route the request to the right skill. Judge from what is asked for.",
    "Pick the area this request is about.",
)
SETS = (humanised(CLINC), plain(CLINC))
DOMAIN_SETS = (
    {name: (name, text) for name, text in DOMAIN_TEXTS.items()},
    {name: (name.replace("_", " "), text) for name, text in DOMAIN_TEXTS.items()},
)


def item(raw: Mapping[str, Any]) -> Item:
    text, label = raw["text"], raw["label"]
    asks = {"intent": Ask("choice", WORDINGS, label, SETS, large=True)}
    domain = next((name for name, intents in CLINC_DOMAINS.items() if label in intents), None)
    if domain is not None:
        asks["domain"] = Ask("choice", DOMAIN_WORDINGS, domain, DOMAIN_SETS)
    states = (text, {"utterance": text}, {"utterance": text, "locale": "en-US"}, {"request": text})
    return Item(str(raw["id"]), states, asks)


SOURCE = Source(
    name="clinc_oos",
    family="intent",
    item=item,
    files={"train/clinc_oos_train.jsonl": "train", "train/clinc_oos_val.jsonl": "report"},
    hub=(
        HubSet("clinc/clinc_oos", "plus", rename={"intent": "label"}, role="train"),
        HubSet("clinc/clinc_oos", "plus", "validation", rename={"intent": "label"}, role="report"),
    ),
    licence="CC BY 3.0",
)
