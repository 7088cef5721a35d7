"""anli: adversarial inference over encyclopedia passages, as fact checking. CC BY-NC 4.0."""

from __future__ import annotations

from reflex.data.sources.base import HubSet, Source
from reflex.data.sources.nli import judged
from reflex.data.sources.sentences import PASSAGES

SOURCE = Source(
    name="anli",
    family="fact",
    item=judged,
    texts=PASSAGES,
    files={"train/anli_test.jsonl": "hash"},
    hub=(
        HubSet(
            "facebook/anli", split="train_r3", rename={"premise": "evidence", "hypothesis": "claim"}
        ),
    ),
    licence="CC BY-NC 4.0",
    use="non-commercial",
)
