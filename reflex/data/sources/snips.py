"""snips: seven voice-assistant intents. CC0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source

TEXTS = {
    "AddToPlaylist": ("add to playlist", "Adding a song or an artist to a playlist."),
    "BookRestaurant": ("book restaurant", "Reserving a table at a restaurant."),
    "GetWeather": ("get weather", "Asking about the weather somewhere."),
    "PlayMusic": ("play music", "Playing a song, an artist or an album."),
    "RateBook": ("rate book", "Giving a book a rating."),
    "SearchCreativeWork": (
        "search creative work",
        "Finding a film, a game, a show or a book by its name.",
    ),
    "SearchScreeningEvent": ("search screening", "Finding where and when a film is shown."),
}
SETS = (
    {key: (key, None) for key in TEXTS},
    {key: (key, text) for key, (_, text) in TEXTS.items()},
    {key: (name, None) for key, (name, _) in TEXTS.items()},
    {key: (name, text) for key, (name, text) in TEXTS.items()},
)
WORDINGS = (
    "Which intent does the utterance express?",
    "What does the user want the assistant to do?",
    "Which skill should handle this utterance?",
)


def item(raw: Mapping[str, Any]) -> Item:
    text = raw["text"]
    states = (text, {"utterance": text}, {"utterance": text, "locale": "en-US"})
    return Item(str(raw["id"]), states, {"intent": Ask("choice", WORDINGS, raw["label"], SETS)})


SOURCE = Source(
    name="snips",
    family="intent",
    item=item,
    files={"train/snips_train.jsonl": "train", "train/snips_test.jsonl": "report"},
    hub=(HubSet("benayas/snips", rename={"category": "label"}),),
    licence="CC0 1.0",
)
