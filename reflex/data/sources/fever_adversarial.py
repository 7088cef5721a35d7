"""fever_adversarial: hard claims (FEVER 2.0), two outcomes. CC BY-SA 3.0."""

from __future__ import annotations

from reflex.data.sources.base import Source
from reflex.data.sources.nli import judged_claim
from reflex.data.sources.sentences import PASSAGES

SOURCE = Source(
    name="fever_adversarial",
    family="fact",
    item=judged_claim,
    texts=PASSAGES,
    files={"train/fever_adversarial.jsonl": "hash"},
    licence="CC BY-SA 3.0",
)
