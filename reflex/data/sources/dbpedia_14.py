"""dbpedia_14: what kind of thing an encyclopedia entry is about, of 14 (hub only). CC BY-SA 3.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source, plain

NAMES = {
    "Company": "company",
    "EducationalInstitution": "school or university",
    "Artist": "artist",
    "Athlete": "athlete",
    "OfficeHolder": "holder of an office",
    "MeanOfTransportation": "vehicle, ship or aircraft",
    "Building": "building",
    "NaturalPlace": "natural place",
    "Village": "village",
    "Animal": "animal",
    "Plant": "plant",
    "Album": "album",
    "Film": "film",
    "WrittenWork": "written work",
}
SETS = (plain(tuple(NAMES)), {label: (name, None) for label, name in NAMES.items()})
WORDINGS = (
    "What kind of thing is the entry about?",
    "Which category does the described thing belong to?",
    "Classify the subject of the text.",
)


def item(raw: Mapping[str, Any]) -> Item:
    title, text = raw["title"].strip(), raw["content"].strip()
    ask = Ask("choice", WORDINGS, raw["label"], SETS, abstains=False)
    states = ({"title": title, "text": text}, f"{title}\n{text}", text)
    return Item(str(raw["id"]), states, {"kind": ask})


SOURCE = Source(
    name="dbpedia_14",
    family="topic",
    item=item,
    hub=(HubSet("fancyzhx/dbpedia_14", role="train"), HubSet("fancyzhx/dbpedia_14", split="test")),
    licence="CC BY-SA 3.0",
)
