"""Which cell this is: everything that can change a number goes into its hash, nothing else does."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from reflex.readouts.base import used_readouts
from reflex.tracking.environment import command_line, package_versions
from reflex.tracking.record import RunIdentity

NUMERICS = 2
"""Raised when the forward or a metric changes its numbers (golden predictions in the tests say when)."""

NOT_HASHED = (
    *("runs_dir", "results_dir", "tracker", "serve", "force", "verdict", "a", "b", "run", "gate"),
    *("mixture", "train", "trainer"),  # task=train adds what matters of them to its facts
)
"""Keys that say where results go or how they are told, not what they are. (`smoke` is hashed: a debug
record must never stand in for a result.)"""

PINNED = {
    "backbone": ("source", "path", "revision", "adapter", "seed"),
    "device": ("dtype",),
    "benchmark": ("path",),
    "calibration": ("path", "force"),
    "model": ("base_url", "concurrency", "timeout_s", "retries", "retry_s", "max_failures"),
}
"""Keys that only say where something comes from; `facts` hold the hash of what was found there."""

NOT_READ = {"evaluate": ("mixture", "train", "trainer", "a", "b")}
"""Task → groups and keys it does not look at."""

SWEEP = "REFLEX_SWEEP"
"""Environment variable with the sweep a cell belongs to, for cells run by other processes."""

AXES = ("backbone", "device", "prompt", "readout", "orders", "calibration", "benchmark", "profile")


@dataclass(frozen=True)
class Sweep:
    """A sweep's swept keys, all its overrides, and the keys that the command line set.

    `group` is the same when the sweep is started again.
    """

    keys: tuple[str, ...]
    overrides: tuple[str, ...]
    given: tuple[str, ...]
    experiment: str | None

    @property
    def group(self) -> str:
        return self.group_of(self.experiment)

    def group_of(self, experiment: str | None) -> str:
        """The group of its cells of `experiment` (`-m experiment=a,b` has one group for each)."""
        kept = sorted(o for o in self.overrides if not _apart(o))
        return f"{experiment or 'sweep'}-{digest(kept)[:10]}"

    def to_env(self) -> None:
        os.environ[SWEEP] = json.dumps(asdict(self))

    @classmethod
    def from_env(cls) -> Sweep | None:
        raw = os.environ.get(SWEEP)
        if raw is None:
            return None
        facts = json.loads(raw)
        keys, overrides, given = (tuple(facts[name]) for name in ("keys", "overrides", "given"))
        return cls(keys, overrides, given, facts["experiment"])

    @staticmethod
    def forget() -> None:
        os.environ.pop(SWEEP, None)


def digest(value: Any) -> str:
    """sha256 of canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def hashed_config(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a resolved config that can change a number, beside what `facts` pin by content."""
    # A group that is not chosen is null: one that is added later must not rename recorded cells.
    aside = (*NOT_HASHED, *NOT_READ.get(config["task"]["name"], ()))
    kept = {key: value for key, value in config.items() if key not in aside and value is not None}
    if kept.get("model", {}).get("name") == "local":
        del kept["model"]  # what every cell was before there was a choice
    for group, keys in PINNED.items():
        if group not in kept:
            continue
        kept[group] = {key: value for key, value in kept[group].items() if key not in keys}
    if "readout" not in kept:
        return kept
    # Options of readouts that no question type uses: a new readout must not rename recorded cells.
    names = {kind: config["readout"][kind] for kind in ("choice", "noul", "score")}
    own = {
        name: dict(config["readout"].get(name) or {}) for name in used_readouts(config["readout"])
    }
    for options in own.values():
        options.pop("weights", None)  # pinned by content, as above
    kept["readout"] = {**names, **own}
    return kept


def run_identity(cfg: DictConfig, facts: dict[str, Any]) -> RunIdentity:
    """The identity of the cell `cfg` describes.

    `facts` are the resolved things a config does not say: weight, data and item hashes, dtype.
    """
    config: Any = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=False)
    hydra = HydraConfig.get()
    choices = hydra.runtime.choices
    experiment = choices.get("experiment")
    packages = package_versions(("torch", "transformers", "tokenizers"))
    cell = digest([hashed_config(config), facts, packages, NUMERICS])
    sweep = Sweep.from_env()
    overrides = [o for o in hydra.overrides.task if not _apart(o)]
    swept = [o for o in overrides if sweep is not None and key_of(o) in sweep.keys]
    axes = {axis: _choice(choices, axis, config) for axis in AXES}
    axes |= {key_of(o): o.partition("=")[2] for o in overrides if key_of(o) != "experiment"}
    limit = config["benchmark"].get("limit")
    return RunIdentity(
        hash=cell,
        experiment=experiment,
        task=config["task"]["name"],
        group=(
            sweep.group_of(experiment)
            if sweep
            else f"{experiment or config['task']['name']}-{cell[:10]}"
        ),
        name=",".join(swept) or axes["backbone"] or config["model"]["name"],
        axes=axes,
        config=config,
        seed=config["seed"],
        limited=limit is not None or (experiment is not None and _narrower(hydra, sweep)),
        debug=bool(config["smoke"]) or (config["backbone"] or {}).get("source") == "random",
        command=command_line(),
    )


def given_keys() -> set[str]:
    """Keys that the command line sets in this job, not counting what an experiment sweeps."""
    sweep = Sweep.from_env()
    return set(sweep.given) if sweep else {key_of(o) for o in HydraConfig.get().overrides.task}


def key_of(override: str) -> str:
    """The key of `key=value`, `+key=value` or `~key`."""
    return override.partition("=")[0].lstrip("+~")


def _apart(override: str) -> bool:
    return key_of(override).partition(".")[0] in NOT_HASHED


def _narrower(hydra: Any, sweep: Sweep | None) -> bool:
    """Whether this is less than the experiment's own sweep: one of its cells, or other values."""
    params = OmegaConf.select(hydra, "sweeper.params") or {}
    done = sweep.overrides if sweep else ()
    return any(f"{key}={value}" not in done for key, value in params.items())


def _choice(choices: Any, axis: str, config: dict[Any, Any]) -> Any:
    if axis in config and config[axis] is None:
        return None
    if axis == "readout":
        names = {config["readout"][kind] for kind in ("choice", "noul", "score")}
        return "+".join(sorted(names))
    if axis == "calibration":
        return config["calibration"]["name"]
    return choices.get(axis)
