"""What to serve: command-line arguments to a resolved configuration and where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf, open_dict

from reflex.errors import ConfigError, RecordError
from reflex.loading import check_loaded, compose, leaves, recorded_values, run_folder, typed
from reflex.places import conf_dir
from reflex.serving.engine import Source
from reflex.serving.fetch import from_hub, from_wandb
from reflex.stable import stable_folder
from reflex.tracking.record import RECORD, RunRecord, finished_local

if TYPE_CHECKING:
    from reflex.decider import Decider

SERVED = ("backbone", "device", "prompt", "readout", "orders", "calibration", "forward", "seed")
"""Keys of a run's configuration that shape an answer."""


@dataclass(frozen=True)
class ServedRun:
    """A source and what must be true of the loaded model for it to be that run.

    expected: fact → value (`weights_sha256`, `adapter_sha256`, `prompt_hash`); facts whose configuration
    the command line replaced are left out.
    """

    source: Source
    expected: dict[str, str | None] = field(default_factory=dict)


def resolve(arguments: Sequence[str]) -> tuple[DictConfig, ServedRun]:
    """Configuration and source of `python -m reflex.serve <arguments>`.

    Raises ConfigError, RecordError or Hydra's own errors for what does not exist.
    """
    runs = [argument.partition("=")[2] for argument in arguments if argument.startswith("run=")]
    overrides = [argument for argument in arguments if not argument.startswith("run=")]
    for argument in overrides:
        if "=" not in argument:
            raise ConfigError(f"{argument}: not understood; write key=value (see --help)")
    if not any(argument.startswith("serve=") for argument in overrides):
        overrides = ["serve=default", *overrides]
    cfg = compose(overrides)
    if not runs:
        served = ServedRun(Source())
    else:
        record, folder, hashes = locate(runs[-1], overrides)
        # Of `run=stable` a profile chooses the entry and replaces nothing of it.
        aside = _profiles(overrides) if runs[-1] == "stable" else []
        cfg, replaced = onto_record(cfg, overrides, record, folder, aside)
        served = ServedRun(Source(record.hash, _about(record)), _expected(record, hashes, replaced))
    with open_dict(cfg):
        if cfg.forward.reuse_tokens == 0:
            cfg.forward.reuse_tokens = cfg.serve.reuse_tokens
    return cfg, served


def locate(run: str, overrides: Sequence[str] = ()) -> tuple[RunRecord, Path, dict[str, str]]:
    """The record a `run=` means, its folder, and the hashes its manifest pins.

    A folder, hash, hash prefix or release; `stable` of the chosen profile; `wandb:entity/project/run`;
    or a hub id whose repository holds a record.json. Raises RecordError where there is none, and for one that has
    no model here (`finished_local`).
    """
    hashes: dict[str, str] = {}
    if run == "stable":
        folder, hashes = _stable(overrides)
    elif run.startswith("wandb:"):
        folder = from_wandb(run.removeprefix("wandb:"))
    elif (Path("releases") / run / RECORD).is_file():
        folder = Path("releases") / run
    else:
        try:
            folder = run_folder(run)
        except RecordError:
            if run.count("/") != 1 or run.startswith((".", "/")) or Path(run).exists():
                raise
            folder = from_hub(run)
    return finished_local(folder), folder, hashes


def onto_record(
    cfg: DictConfig,
    overrides: Sequence[str],
    record: RunRecord,
    folder: Path,
    aside: Sequence[str] = (),
) -> tuple[DictConfig, set[str]]:
    """The record's configuration with what the command line set on top of it.

    `group=option` replaces a whole group, `group.key=value` one value; a profile or an experiment
    counts as every value in which it differs from the defaults, unless it is among the overrides `aside`.
    Returns the groups that were touched.
    """
    merged = OmegaConf.create(OmegaConf.to_container(cfg, resolve=False))
    assert isinstance(merged, DictConfig)
    recorded = recorded_values(folder)
    for key in SERVED:
        if key in recorded:
            merged[key] = recorded[key]
    plain = compose(["serve=default", *aside])
    touched = set()
    for argument in overrides:
        name, _, _ = argument.lstrip("+~").partition("=")
        top = name.partition(".")[0].partition("@")[0]
        if top not in SERVED:
            continue
        touched.add(top)
        if name == top and (conf_dir() / top).is_dir():
            merged[top] = cfg[top]
        else:
            OmegaConf.update(merged, name, OmegaConf.select(cfg, name), force_add=True)
    for key, value in leaves(cfg):
        top = key.partition(".")[0]
        if top in SERVED and _get(plain, key) != value:
            OmegaConf.update(merged, key, value, force_add=True)
            touched.add(top)
    return typed(cfg, merged, SERVED), touched


def checked(decider: Decider, run: ServedRun) -> Decider:
    """The decider, if it is what the record says. Raises BackboneError naming the hash that differs."""
    check_loaded(decider, run.source.run, run.expected)
    return decider


# -- pieces ----------------------------------------------------------------------------------------


def _expected(
    record: RunRecord, hashes: dict[str, str], replaced: set[str]
) -> dict[str, str | None]:
    expected: dict[str, str | None] = {}
    if "backbone" not in replaced:
        for name in ("weights_sha256", "adapter_sha256"):
            if name in record.backbone:
                expected[name] = record.backbone[name]
    if "prompt" not in replaced and record.prompt_hash:
        expected["prompt_hash"] = record.prompt_hash
    return expected | {name: value for name, value in hashes.items() if name in expected}


def _about(record: RunRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "experiment": record.experiment,
        "released": record.finished[:10],
        "commit": record.git.get("commit"),
    }


def _stable(overrides: Sequence[str]) -> tuple[Path, dict[str, str]]:
    profiles = _profiles(overrides)
    folder, entry = stable_folder(profiles[-1].partition("=")[2] if profiles else "laptop")
    return folder, dict(entry.get("hashes") or {})


def _profiles(overrides: Sequence[str]) -> list[str]:
    return [override for override in overrides if override.startswith("profile=")]


def _get(cfg: DictConfig, key: str) -> Any:
    try:
        return OmegaConf.select(cfg, key, throw_on_missing=False)
    except Exception:  # a key of another schema is simply absent here
        return None
