"""`task=export task.path=FILE`: writes the suite as a task file, which `benchmark=task_file` reads back.

Rows of a source with a word carry it, so that figures over the file have the word beside them too. Which questions
belong together is no property of a row: the command says how to give the pairs when the file is read.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from reflex.errors import ConfigError

if TYPE_CHECKING:
    from reflex.benchmarks.base import Suite


@dataclass
class Export:
    """`path`: where the JSON Lines file goes; it appears whole or not at all."""

    _target_: str = "reflex.tasks.export.Export"
    name: str = "export"
    path: str | None = None

    def run(self, cfg: DictConfig) -> int:
        """Prints the path and the number of rows, and the override that gives the suite's question pairs where it
        has some. Raises ConfigError without a path, DataError."""
        from hydra.utils import instantiate

        from reflex.data.jsonl import write_lines
        from reflex.data.rows import rows_sha256

        if not self.path:
            raise ConfigError("task.path is not set; give task.path=FILE.jsonl")
        path = Path(self.path).expanduser()
        suite = instantiate(cfg.benchmark).load()
        words = _words(suite)
        write_lines(path, (row.to_json() | words.get(row.source, {}) for row in suite.rows))
        print(f"{path}: {len(suite.rows)} rows of {suite.name}, sha256 {rows_sha256(suite.rows)}")
        if pairs := suite.facts.get("question_pairs"):
            print(f"question pairs: read it with {shlex.quote(_override(pairs))}")
        return 0


def _override(pairs: Iterable[Mapping[str, str]]) -> str:
    """`benchmark.question_pairs=…` as Hydra reads it: only values may be quoted."""
    given = (
        ",".join(f"{key}:{json.dumps(name, ensure_ascii=False)}" for key, name in pair.items())
        for pair in pairs
    )
    return f"benchmark.question_pairs=[{','.join(f'{{{pair}}}' for pair in given)}]"


def _words(suite: Suite) -> dict[str, dict[str, str | int]]:
    """Source → the fields `word` and `of` of its rows, for sources that have a word."""
    from reflex.benchmarks.words import sources_of, whole_of

    found = {}
    for name, facts in sources_of(suite.facts).items():
        if "word" in facts:
            whole = whole_of(facts)
            found[name] = {"word": facts["word"]} | ({"of": whole} if whole else {})
    return found
