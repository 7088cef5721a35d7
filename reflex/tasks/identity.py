"""Which cell this is: everything that can change a number goes into its hash, nothing else does."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from reflex.tracking.environment import command_line, package_versions
from reflex.tracking.record import RunIdentity

NUMERICS = 1
"""Raised when the forward or a metric changes its numbers (golden predictions in the tests say when)."""

NOT_HASHED = ("runs_dir", "results_dir", "tracker", "force", "verdict", "task")
"""Keys that say where results go or how they are told, not what they are (the task's kind is hashed)."""

SWEEP = "REFLEX_SWEEP"
"""Environment variable with the sweep a cell belongs to, for cells run by other processes."""

AXES = ("backbone", "device", "prompt", "readout", "orders", "calibration", "benchmark", "profile")


@dataclass(frozen=True)
class Sweep:
    """A sweep's swept keys and all its overrides; `group` is the same when it is started again."""

    keys: tuple[str, ...]
    overrides: tuple[str, ...]
    experiment: str | None

    @property
    def group(self) -> str:
        kept = sorted(o for o in self.overrides if not _key(o).startswith(NOT_HASHED))
        return f"{self.experiment or 'sweep'}-{digest(kept)[:10]}"

    def to_env(self) -> None:
        os.environ[SWEEP] = json.dumps([self.keys, self.overrides, self.experiment])

    @classmethod
    def from_env(cls) -> Sweep | None:
        raw = os.environ.get(SWEEP)
        if raw is None:
            return None
        keys, overrides, experiment = json.loads(raw)
        return cls(tuple(keys), tuple(overrides), experiment)


def digest(value: Any) -> str:
    """sha256 of canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def run_identity(cfg: DictConfig, facts: dict[str, Any]) -> RunIdentity:
    """The identity of the cell `cfg` describes.

    `facts` are the resolved things a config does not say: weight, data and item hashes, dtype, strategy.
    """
    config = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    assert isinstance(config, dict)
    hashed = {key: value for key, value in config.items() if key not in NOT_HASHED}
    hydra = HydraConfig.get()
    choices = hydra.runtime.choices
    experiment = choices.get("experiment")
    packages = package_versions(("torch", "transformers", "tokenizers"))
    cell = digest([hashed, config["task"], facts, packages, NUMERICS])
    sweep = Sweep.from_env()
    overrides = [o for o in hydra.overrides.task if not _key(o).startswith(NOT_HASHED)]
    swept = [o for o in overrides if sweep is not None and _key(o) in sweep.keys]
    axes = {axis: _choice(choices, axis, config) for axis in AXES}
    axes |= {_key(o): o.partition("=")[2] for o in overrides if _key(o) not in ("experiment",)}
    return RunIdentity(
        hash=cell,
        experiment=experiment,
        task=config["task"]["name"],
        group=sweep.group if sweep else f"{experiment or config['task']['name']}-{cell[:10]}",
        name=",".join(swept) or axes["backbone"],
        axes=axes,
        config=config,
        seed=config["seed"],
        limited=config["benchmark"].get("limit") is not None,
        debug=bool(config["smoke"]) or config["backbone"]["source"] == "random",
        command=command_line(),
    )


def _choice(choices: Any, axis: str, config: dict[Any, Any]) -> Any:
    if axis == "readout":
        names = {config["readout"][kind] for kind in ("choice", "noul", "score")}
        return "+".join(sorted(names))
    return choices.get(axis)


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+~")
