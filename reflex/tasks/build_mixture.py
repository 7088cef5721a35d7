"""`task=build_mixture mixture=embedded task.out=data/embedded`: a mixture as files, with its manifest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from reflex.checks import check_limit
from reflex.errors import ConfigError

MANIFEST = "manifest.json"


@dataclass
class BuildMixture:
    """Writes `train.jsonl`, `fit.jsonl`, `report.jsonl` and `manifest.json` below `out`.

    Every file is read back: a row that comes back different, the order of its options included, is
    refused. per_source bounds the held-out rows of each source (null: all).
    """

    _target_: str = "reflex.tasks.build_mixture.BuildMixture"
    name: str = "build_mixture"
    out: str = "???"
    per_source: int | None = 150

    def __post_init__(self) -> None:
        check_limit("task.per_source", self.per_source)

    def run(self, cfg: DictConfig) -> int:
        """Raises ConfigError, ContaminationError or DataError."""
        from reflex.data.mixture import load_mixture
        from reflex.data.mixture_files import write_checked
        from reflex.data.rows import rows_sha256
        from reflex.files import write_atomic
        from reflex.tracking.record import json_text

        if cfg.get("mixture") is None:
            raise ConfigError("mixture: choose what to build, e.g. mixture=embedded")
        mixture = load_mixture(OmegaConf.to_object(cfg.mixture))  # type: ignore[arg-type]
        out = Path(self.out)
        out.mkdir(parents=True, exist_ok=True)
        (out / MANIFEST).unlink(missing_ok=True)  # written last: it never tells of other files
        splits: dict[str, dict[str, Any]] = {}
        for split in ("train", "fit", "report"):
            rows = (
                mixture.train_rows()
                if split == "train"
                else mixture.held_out(split, self.per_source)
            )
            write_checked(out / f"{split}.jsonl", rows)
            kinds = Counter(q.type for row in rows for q in row.questions.values())
            splits[split] = {
                "rows": len(rows),
                "questions": dict(sorted(kinds.items())),
                "sha256": rows_sha256(rows),
            }
            print(f"{split}: {len(rows)} rows, {sum(kinds.values())} questions")
        manifest = {
            **mixture.facts(),
            "config": OmegaConf.to_container(cfg.mixture, resolve=True),
            "splits": splits,
        }
        write_atomic(out / MANIFEST, json_text(manifest).encode())
        print(f"mixture: {out}")
        return 0
