"""commonsense_qa: five everyday answers. MIT."""

from __future__ import annotations

from reflex.data.sources.base import HubSet, Source, multiple_choice

SOURCE = Source(
    name="commonsense_qa",
    family="knowledge",
    item=multiple_choice,
    files={"train/commonsense_qa_dev.jsonl": "hash"},
    hub=(HubSet("tau/commonsense_qa"), HubSet("tau/commonsense_qa", split="validation")),
    licence="MIT",
)
