"""`task=export task.path=FILE`: writes the suite as a task file, which `benchmark=task_file` reads back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from reflex.errors import ConfigError


@dataclass
class Export:
    """`path`: where the JSON Lines file goes; it appears whole or not at all."""

    _target_: str = "reflex.tasks.export.Export"
    name: str = "export"
    path: str | None = None

    def run(self, cfg: DictConfig) -> int:
        """Prints the path and the number of rows. Raises ConfigError without a path, DataError."""
        from hydra.utils import instantiate

        from reflex.data.rows import rows_sha256, write_jsonl

        if not self.path:
            raise ConfigError("task.path is not set; give task.path=FILE.jsonl")
        path = Path(self.path).expanduser()
        suite = instantiate(cfg.benchmark).load()
        write_jsonl(path, suite.rows)
        print(f"{path}: {len(suite.rows)} rows of {suite.name}, sha256 {rows_sha256(suite.rows)}")
        return 0
