"""`task=release task.run_id=<evaluated run> task.out=releases/<name>`: one folder that serves.

    python -m reflex.run task=release task.run_id=1a2b3c task.out=releases/embedded
    python -m reflex.serve run=releases/embedded

The run is an evaluation (with its calibration) of a trained model: its record says what the model is and
how good it is, its configuration says where adapter and heads lie.
"""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from reflex.contract import TYPES
from reflex.errors import ConfigError, ContaminationError, RecordError, brief
from reflex.readouts.base import head_weights

if TYPE_CHECKING:
    from reflex.tracking.record import RunRecord

log = logging.getLogger(__name__)

TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json"),
    *("vocab.json", "merges.txt", "tokenizer.model", "added_tokens.json"),
)


@dataclass
class Release:
    """run_id: the evaluated run (folder, hash or prefix). out: the folder to write, which must not exist
    unless `replace`. title: of the card, instead of the folder's name. push: a hub repository to upload it to."""

    _target_: str = "reflex.tasks.release.Release"
    name: str = "release"
    run_id: str = "???"
    out: str = "???"
    title: str | None = None
    push: str | None = None
    replace: bool = False

    def run(self, cfg: DictConfig) -> int:
        """Prints the folder and its size. Raises RecordError or ConfigError for a run without a model."""
        from reflex.files import write_folder
        from reflex.loading import run_folder
        from reflex.release import check_backbone
        from reflex.tracking.record import finished_local

        source = run_folder(self.run_id, Path(cfg.runs_dir))
        record = finished_local(source)
        check_backbone(record)
        out = Path(self.out)
        if out.exists() and not self.replace:
            raise ConfigError(f"task.out={out}: exists; choose another folder or task.replace=true")
        with write_folder(out) as work:
            manifest = fill(work, source, record, self.title or out.name, out)
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        if self.push is not None:
            push(out, self.push)
        print(f"{len(manifest['files'])} files, {size / 1e6:.1f} MB")
        print(f"release: {out}")
        return 0


def fill(work: Path, source: Path, record: RunRecord, title: str, out: Path) -> dict[str, Any]:
    """Put every file of the release that will lie in `out` into `work`; returns its manifest."""
    from reflex.calibration.fitted import FILE as CALIBRATION
    from reflex.release import MANIFEST, SCHEMA, file_hashes
    from reflex.tasks.lineage import read_json
    from reflex.tasks.release_card import card
    from reflex.tracking.predictions import read_predictions
    from reflex.tracking.record import RECORD

    parts, training = copy_parts(work, source, record)
    shutil.copyfile(source / RECORD, work / RECORD)
    calibration = read_json(work / CALIBRATION)
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "name": title,
        "run": record.hash,
        "base": {key: record.config["backbone"].get(key) for key in ("name", "source", "path")}
        | {key: record.backbone.get(key) for key in ("revision", "weights_sha256")},
        "adapter_sha256": record.backbone.get("adapter_sha256"),
        "prompt": {"sha256": record.prompt_hash, **record.config["prompt"]},
        "readout": {kind: record.config["readout"][kind] for kind in TYPES},
        "orders": record.config["orders"],
        "training": training,
        "contamination": contamination(training, calibration),
        "guard": guard_report(record),
        "suite": {key: record.data.get(key) for key in ("suite", "sha256", "n_rows")},
        "measured_splits": read_predictions(source)["split"].value_counts().to_dict(),
        "metrics": record.metrics,
        "by": record.by,
        "parts": parts,
    }
    (work / "README.md").write_text(card(manifest, calibration, out), encoding="utf-8")
    manifest["files"] = file_hashes(work)
    text = json.dumps(manifest, indent=1, ensure_ascii=False, default=str)
    (work / MANIFEST).write_text(text + "\n", encoding="utf-8")
    return manifest


def guard_report(record: RunRecord) -> dict[str, Any]:
    """The benchmark rows that the guard knows here, and the rows of the trainings that the released parts come from
    held against them again (all that were prepared: a plan may end before the last one). `trainings_checked`: how many
    trainings these are, where it is not one.

    Raises ContaminationError naming a row that shares text with one of them.
    """
    from reflex.data.guard import held_against, overlapping_ids, row_texts
    from reflex.data.rows import read_jsonl
    from reflex.tasks.lineage import ROWS, part_folders

    found: dict[str, Any] = {"benchmark_rows": held_against(), "trained_rows_checked": 0}
    files = [folder / ROWS for folder in part_folders(record.config)]
    files = [rows for rows in files if rows.is_file()]
    for rows in files:
        prepared = {row.id: row_texts(row) for row in read_jsonl(rows)}
        if shared := overlapping_ids(prepared):
            raise ContaminationError(
                f"{rows}: row {min(shared)} and {len(shared) - 1} more share text with a benchmark row; train "
                "again without them"
            )
        found["trained_rows_checked"] += len(prepared)
    if len(files) > 1:
        found["trainings_checked"] = len(files)
    return found


def contamination(training: dict[str, Any] | None, calibration: dict[str, Any] | None) -> str:
    """What the guard did for the training and the calibration of a release, or was told not to do."""
    from reflex.tasks.clean import OWN_HALVES

    let = set((training or {}).get("allow") or [])
    mmlu = "no row of the MMLU test split"
    halves = ""
    if calibration is not None:
        fitted_on = calibration.get("fitted_on", {})
        let |= {*(fitted_on.get("contamination") or {})}
        if OWN_HALVES in fitted_on.get("sources", ()):
            mmlu += " for training"
            halves = (
                " The temperatures were fitted on items of one half of the MMLU test split: figures on that half "
                "say nothing."
            )
    rows = (
        "rows that share a text, a sentence or eight words in a row with a benchmark row found on the training "
        "machine were dropped (counts per source below)"
    )
    if training is None:
        told = "Nothing is known of the data that the adapter or head was trained on."
    elif let:
        told = (
            f"**The contamination guard was told to let {', '.join(sorted(let))} through: figures on benchmarks "
            f"with the same rows say nothing.** Of the other sources {rows}."
        )
    else:
        told = (
            "No source, file or hub repository with a name of any S1Bench subset was used for training or "
            f"calibration, {mmlu}, and {rows}."
        )
    return told + halves


def copy_parts(
    work: Path, source: Path, record: RunRecord
) -> tuple[dict[str, str], dict[str, Any] | None]:
    """Adapter, heads, calibration, tokenizer: (config key → path in the release, facts of the training)."""
    from reflex.calibration.fitted import FILE as CALIBRATION
    from reflex.tasks.lineage import all_trained_on, part_folders

    config = record.config
    parts: dict[str, str] = {}
    adapter = config["backbone"].get("adapter")
    if adapter:
        folder = _existing(adapter, "backbone.adapter")
        shutil.copytree(folder, work / "adapter")
        parts["backbone.adapter"] = "adapter"
    heads = {
        name: _existing(weights, f"readout.{name}.weights")
        for name, weights in head_weights(config["readout"]).items()
    }
    one_file = len({path.resolve() for path in heads.values()}) == 1
    for name, path in heads.items():
        target = "heads.safetensors" if one_file else f"heads-{name}.safetensors"
        shutil.copyfile(path, work / target)
        parts[f"readout.{name}.weights"] = target
    if not parts:
        raise ConfigError(
            f"run {record.hash[:16]}: neither an adapter nor a head; there is nothing to release "
            "(serve it with run=<hash>)"
        )
    calibration = source / CALIBRATION
    configured = config["calibration"].get("path")
    if not calibration.is_file() and configured:
        calibration = _existing(configured, "calibration.path")
        calibration = calibration / CALIBRATION if calibration.is_dir() else calibration
    if calibration.is_file():
        shutil.copyfile(calibration, work / CALIBRATION)
        parts["calibration.path"] = CALIBRATION
    _copy_tokenizer(work / "tokenizer", config)
    return parts, all_trained_on(part_folders(config))


def _copy_tokenizer(target: Path, config: dict[str, Any]) -> None:
    from reflex.backbones.config import BackboneConfig
    from reflex.backbones.locate import locate

    known = {key: value for key, value in config["backbone"].items() if not key.startswith("_")}
    folder = locate(BackboneConfig(**{**known, "adapter": None})).folder
    if folder is None:
        return
    target.mkdir()
    for name in TOKENIZER_FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, target / name)


def _existing(path: str, key: str) -> Path:
    found = Path(path)
    if not found.exists():
        raise ConfigError(
            f"{key}={path}: does not exist any more; train again or point to its copy"
        )
    return found


def push(folder: Path, repository: str) -> None:
    """Upload the folder to a hub repository. Raises RecordError when the hub refuses."""
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        api.create_repo(repository, exist_ok=True)
        api.upload_folder(folder_path=str(folder), repo_id=repository)
    except Exception as error:  # hub errors come in a dozen classes; all mean the same to a user
        raise RecordError(
            f"task.push={repository}: the hub refused ({brief(error)}); the release is complete in {folder}"
        ) from None
