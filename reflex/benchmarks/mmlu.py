"""MMLU: n random test items by seed, one multiple-choice question each; the family is the subject.

The test split is cut into halves `fit` and `report` by hash, so that a temperature can be fitted and
judged on different items; the halves are this project's, not MMLU's (docs/decisions/021-mmlu.md).
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reflex.assets import sha256_of
from reflex.benchmarks.base import Suite, limited, row_counts
from reflex.benchmarks.files import (
    FETCH,
    HubFile,
    download,
    hub_objects,
    local_objects,
    need,
)
from reflex.benchmarks.mmlu_subjects import categories
from reflex.checks import check_choice, check_limit
from reflex.contract import Choice
from reflex.data.root import data_root
from reflex.data.rows import Row
from reflex.data.splits import HALVES, split_of
from reflex.errors import DataError, MissingDataError

NAME = "mmlu"
TEST_ITEMS = 14042
LICENCE = "MIT"
HUB = HubFile("cais/mmlu", "all/test-00000-of-00001.parquet")
QUESTION = "answer"
SHARED = "This question refers to the following information"
"""How items start that share a passage; they are kept in one group."""

NOTES = {
    "splits": "fit and report are halves of the test split, by hash of the group: test rows are "
    "relabelled by the loader so that a fit never sees what is reported",
    "word": "exact: drawn from the whole test split; stand-in: from a part of it",
    "options": "option keys are the option texts; a repeated text gets a number",
}


@dataclass
class MMLU:
    """`n` items by `seed` (null: all there are). `rows`: `local`, `hub`, or `auto` (local where
    REFLEX_DATA is set). `file`: a JSON Lines file instead. `split`: `all` (both halves),
    `fit`, `report`, or `whole`: not halved, every item is measured and none can be fitted on.
    `limit`: the first N in hash order, over both halves.
    """

    _target_: str = "reflex.benchmarks.mmlu.MMLU"
    name: str = NAME
    n: int | None = 1200
    seed: int = 0
    rows: str = "auto"
    file: str | None = None
    split: str = "all"
    limit: int | None = None

    def __post_init__(self) -> None:
        check_limit("benchmark.n", self.n)
        check_limit("benchmark.limit", self.limit)
        check_choice("benchmark.rows", self.rows, ("auto", "local", "hub"))
        check_choice("benchmark.split", self.split, ("all", "whole", *HALVES))

    def load(self) -> Suite:
        """Raises DataError naming file and row, MissingDataError with what to set when there is no file."""
        path, where, objects = self._source()
        seen: Counter[str] = Counter()
        places: dict[str, str] = {}
        rows = []
        for place, raw in objects:
            row = to_row(place, raw, seen[str(raw.get("subject"))])
            if row.id in places:
                first = places[row.id]
                raise DataError(
                    f"{place}: id {row.id!r} was already used in {first}; make it unique"
                )
            places[row.id] = place
            seen[row.family] += 1
            rows.append(row)
        if not rows:
            raise DataError(f"{where}: no items; fetch the file again")
        order = list(range(len(rows)))
        random.Random(self.seed).shuffle(order)
        drawn = [rows[index] for index in sorted(order[: self.n])]
        if self.split == "whole":
            drawn = [replace(row, split="test") for row in drawn]
        kept = [row for row in drawn if self.split in ("all", "whole", row.split)]
        scored = limited(kept, self.limit)
        subjects = Counter(row.family for row in scored)
        return Suite(
            name=self.name,
            rows=scored,
            facts={
                "data_sha256": sha256_of(path),
                "sources": {
                    NAME: {
                        "word": "exact" if len(rows) == TEST_ITEMS else "stand-in",
                        "reason": f"{len(drawn)} of {len(rows)} items of {where}",
                        **row_counts(scored),
                        "n_asked": self.n,
                        "n_available": len(rows),
                        "subjects": len(subjects),
                        "licence": LICENCE,
                        "published": {},
                    }
                },
                "families": dict(sorted(subjects.items())),
                "categories": categories(subjects),
                "licences": {NAME: LICENCE},
                "notes": NOTES,
            },
        )

    def _source(self) -> tuple[Path, str, Iterator[tuple[str, dict[str, Any]]]]:
        if self.file is not None:
            path = Path(self.file).expanduser()
            return path, path.name, local_objects(path)
        root = None if self.rows == "hub" else data_root()
        if root is None and self.rows == "local":
            raise MissingDataError(
                "benchmark.rows=local: REFLEX_DATA is not set; set it, or rows=hub"
            )
        if root is None:
            return download(HUB), str(HUB), hub_objects(HUB)
        found = [path for path in (root / NAME).glob("test*.jsonl") if path.is_file()]
        if not found:
            raise MissingDataError(f"{root / NAME}: no test*.jsonl; {FETCH}")
        path = max(found, key=lambda path: (path.stat().st_size, path.name))
        return path, path.name, local_objects(path)


def to_row(where: str, raw: dict[str, Any], number: int) -> Row:
    """One item, the `number`-th of its subject. The hub's rows carry `answer` and no id.

    Raises DataError naming `where`.
    """
    need(raw, ("subject", "question", "choices"), where)
    choices = raw["choices"]
    if not isinstance(choices, list) or len(choices) < 2:
        raise DataError(f"{where}: choices must be a list of at least two texts")
    gold = raw.get("label", raw.get("answer"))
    if not isinstance(gold, int) or isinstance(gold, bool) or not 0 <= gold < len(choices):
        raise DataError(
            f"{where}: label {gold!r} must be the number of a choice, 0 to {len(choices) - 1}"
        )
    subject, text = str(raw["subject"]), str(raw["question"]).strip()
    keys = option_names([str(choice) for choice in choices])
    topic = subject.replace("_", " ")
    question = Choice(
        instructions=f"Answer this multiple-choice question about {topic}.",
        criteria=dict.fromkeys(keys),
    )
    identity = str(raw.get("id", f"mmlu-test-{subject}-{number}"))
    group = identity
    if text.startswith(SHARED):
        passage = f"{subject}\n{text[:240]}"
        group = f"{subject}/{hashlib.sha256(passage.encode()).hexdigest()[:16]}"
    return Row(
        id=identity,
        state=text,
        questions={QUESTION: question},
        labels={QUESTION: {key: float(index == gold) for index, key in enumerate(keys)}},
        source=NAME,
        family=subject,
        split=split_of(group, NAME),
        group=group,
    )


def option_names(choices: list[str]) -> list[str]:
    """The texts, stripped, made unique by a number where they repeat, and never empty."""
    names: list[str] = []
    for choice in choices:
        text = choice.strip() or "(empty)"
        name, count = text, 1
        while name in names:
            count += 1
            name = f"{text} ({count})"
        names.append(name)
    return names
