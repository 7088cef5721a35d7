"""What a training's folder keeps of its beginning, and whether another command may go on with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from reflex.errors import ConfigError
from reflex.files import write_atomic
from reflex.loading import leaves
from reflex.tasks.corrections import corrections
from reflex.tasks.facts import head_hashes
from reflex.tasks.identity import PINNED
from reflex.tasks.lineage import (
    BEGUN,
    CONFIG,
    RESULT,
    ROWS,
    begun_with,
    read_json,
    told_name,
    trained_on,
)
from reflex.tracking.record import json_text

COMPARED = ("seed", "backbone", "prompt", "readout", "orders", "mixture", "train")
"""Groups and keys that a training may depend on, beside the dtype of the device and the trainer's precision."""


def write_begun(folder: Path, cfg: DictConfig) -> None:
    """Write both, before the rows: whoever finds those must find what they were made for. The facts come first: a
    configuration without them is of a training that began before they were kept."""
    if not ((folder / ROWS).is_file() and (folder / CONFIG).is_file()):
        facts = begun_facts(cfg)
        if (begun := begun_with(cfg)) is not None:
            facts["before"] = trained_on(begun.parent)
            facts["went_on_from"] = told_name(begun.parent)
        write_atomic(folder / BEGUN, json_text(facts).encode())
    config = json_text(OmegaConf.to_container(cfg, resolve=True))
    write_atomic(folder / CONFIG, config.encode())


def begun_facts(cfg: DictConfig) -> dict[str, Any]:
    """What `BEGUN` holds. corrections: see reflex/tasks/corrections.py. adapter, heads: hashes of the files that
    the training goes on from; `write_begun` adds what those were trained on."""
    from reflex.backbones.locate import locate
    from reflex.build import to_object

    adapter = None
    if cfg.backbone.adapter is not None:
        adapter = locate(to_object(cfg.backbone)).adapter_sha256
    return {"corrections": corrections(cfg), "adapter": adapter, "heads": head_hashes(cfg)}


def check_same(folder: Path, cfg: DictConfig) -> None:
    """Raise ConfigError when a named folder holds the training of other settings, one that went on from other
    files, or one from before a correction, naming the first."""
    began = read_json(folder / CONFIG)
    if began is None or not any((folder / name).is_file() for name in (ROWS, RESULT)):
        return
    old = _compared(began)
    new = _compared(OmegaConf.to_container(cfg, resolve=True))
    way_out = "train.name=OTHER trains beside it, train.fresh=true sets it aside"
    # A key that only one version knows says nothing.
    for key in old:
        if key in new and old[key] != new[key]:
            raise ConfigError(
                f"{folder}: holds a training with {key}={old[key]}, not {new[key]}; {way_out}"
            )
    known, now = read_json(folder / BEGUN) or {}, begun_facts(cfg)
    for name in now["corrections"]:
        if name not in known.get("corrections", []):
            raise ConfigError(
                f"{folder}: holds a training from before a correction ({name}); {way_out}"
            )
    for key in ("adapter", "heads"):
        if key in known and known[key] != now[key]:
            raise ConfigError(
                f"{folder}: holds a training that went on from other {key} than those files hold now; {way_out}"
            )


def _compared(config: Any) -> dict[str, Any]:
    """Dotted key → value of everything in a resolved configuration that a training may depend on."""
    from reflex.backbones.config import DeviceConfig
    from reflex.backbones.dtype import resolve_dtype

    found = {group: config.get(group) for group in COMPARED}
    if device := config.get("device"):
        found["device"] = {"dtype": resolve_dtype(DeviceConfig(device["name"], device["dtype"]))}
    found["trainer"] = {"precision": (config.get("trainer") or {}).get("precision")}
    watched = PINNED["train"]
    return {key: value for key, value in leaves(found) if key.partition(".")[2] not in watched}
