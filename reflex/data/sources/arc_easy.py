"""arc_easy: grade-school science questions. CC BY-SA 4.0."""

from __future__ import annotations

from reflex.data.sources.base import HubSet, Source, multiple_choice

SOURCE = Source(
    name="arc_easy",
    family="knowledge",
    item=multiple_choice,
    files={"train/arc_easy_train.jsonl": "hash", "train/arc_easy_test.jsonl": "hash"},
    hub=(
        HubSet("allenai/ai2_arc", "ARC-Easy"),
        HubSet("allenai/ai2_arc", "ARC-Easy", "test"),
    ),
    licence="CC BY-SA 4.0",
)
