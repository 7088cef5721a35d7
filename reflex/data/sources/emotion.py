"""emotion: six emotions of short first-person texts (hashtag labels). Educational and research use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflex.data.sources.base import Ask, HubSet, Item, Source, plain

LABELS = ("sadness", "joy", "love", "anger", "fear", "surprise")
SETS = (
    plain(LABELS),
    {
        "sadness": ("sadness", "The writer feels down, hurt, lonely or hopeless."),
        "joy": ("joy", "The writer feels happy, content, proud or hopeful."),
        "love": ("love", "The writer feels affection, longing, tenderness or care."),
        "anger": ("anger", "The writer feels annoyed, bitter, jealous or furious."),
        "fear": ("fear", "The writer feels anxious, nervous, unsure or scared."),
        "surprise": ("surprise", "The writer feels amazed, curious, stunned or puzzled."),
    },
)
WORDINGS = (
    "Which emotion does the text express?",
    "What does the writer feel?",
    "Classify the emotion of this message.",
    "Which feeling is dominant in the text?",
)


def item(raw: Mapping[str, Any]) -> Item:
    text = raw["text"]
    asks = {"emotion": Ask("choice", WORDINGS, raw["label"], SETS, abstains=False)}
    return Item(str(raw["id"]), (text, {"text": text}, {"message": text}), asks)


SOURCE = Source(
    name="emotion",
    family="emotion",
    item=item,
    files={
        "train/emotion_train.jsonl": "train",
        "train/emotion_val.jsonl": "fit",
        "train/emotion_test.jsonl": "report",
    },
    hub=(
        HubSet("dair-ai/emotion", role="train"),
        HubSet("dair-ai/emotion", split="validation"),
        HubSet("dair-ai/emotion", split="test"),
    ),
    licence="educational and research use only",
    use="non-commercial",
)
