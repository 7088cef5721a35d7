"""openbookqa: elementary science that takes a common-sense step. Apache-2.0."""

from __future__ import annotations

from reflex.data.sources.base import HubSet, Source, multiple_choice

SOURCE = Source(
    name="openbookqa",
    family="knowledge",
    item=multiple_choice,
    files={"train/openbookqa_train.jsonl": "hash", "train/openbookqa_test.jsonl": "hash"},
    hub=(
        HubSet("allenai/openbookqa", "additional", rename={"question_stem": "question"}),
        HubSet("allenai/openbookqa", "additional", "test", rename={"question_stem": "question"}),
    ),
    licence="Apache-2.0",
)
