"""Read an offline W&B run back, without a network or an account. Only the tests do: results come from records."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reflex.errors import RecordError

_OURS = "_wandb"


def offline_runs(folder: Path | str) -> list[Path]:
    """The `.wandb` files under `folder` (a runs folder, its `wandb/`, one run's), by name."""
    return sorted(path for path in Path(folder).rglob("*.wandb") if not path.is_symlink())


def read_offline(path: Path | str) -> dict[str, Any]:
    """What one offline run holds.

    `path` is a `.wandb` file or the folder of one run. Keys: `id`, `name`, `project`, `group`,
    `job_type`, `tags`, `config`, `summary` (W&B's own `_…` keys left out), `state` (`finished`,
    `failed`, or what wandb calls an open one), `exit_code`, `artifacts` (name → file names).
    Raises RecordError where the file cannot be read.
    """
    file = _log_file(Path(path))
    summary = json.loads(_inspect(file, "--summary"))
    run: dict[str, Any] = {}
    artifacts: dict[str, list[str]] = {}
    for record in _records(_inspect(file)):
        if record.get("type") == "run":
            run = {**run, **record["run"]}
        elif record.get("type") == "artifact":
            contents = record["artifact"].get("manifest", {}).get("contents", [])
            artifacts[record["artifact"]["name"]] = sorted(entry["path"] for entry in contents)
    return {
        "id": summary["run_id"],
        "name": summary["name"],
        "project": summary["project"],
        "group": run.get("run_group"),
        "job_type": run.get("job_type"),
        "tags": list(summary["tags"]),
        "config": {key: value for key, value in summary["config"].items() if key != _OURS},
        "summary": {k: v for k, v in summary["summary"].items() if not k.startswith("_")},
        "state": summary["state"],
        "exit_code": summary["exit_code"],
        "artifacts": artifacts,
    }


def _log_file(path: Path) -> Path:
    if path.is_file():
        return path
    found = offline_runs(path)
    if len(found) != 1:
        raise RecordError(f"{path}: holds {len(found)} .wandb files, name one of them")
    return found[0]


def _inspect(file: Path, *options: str) -> str:
    # The command line is wandb's public door to this format; its Python reader is private and
    # moves.
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", *options, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = " ".join((done.stderr or done.stdout).split())[:300]
        raise RecordError(
            f"{file}: `wandb leet inspect` cannot read it (needs wandb 0.31): {words}"
        )
    return done.stdout


def _records(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)
