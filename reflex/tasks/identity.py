"""Which cell this is: everything that can change a number goes into its hash, nothing else does.

But for the last bits: the machine, and how many threads torch takes where `device.threads` leaves that to it,
move no more than those. They are recorded (`hardware`) and not hashed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from reflex.contract import TYPES
from reflex.readouts.base import used_options
from reflex.tracking.environment import HASHED_PACKAGES, command_line, package_versions
from reflex.tracking.record import RunIdentity

NUMERICS = 6
"""Raised when the forward or a metric changes its numbers (golden predictions in the tests say when)."""

NOT_HASHED = (
    *("runs_dir", "results_dir", "tracker", "serve", "force", "verdict", "a", "b", "run", "gate"),
    "launcher",  # never a key of a configuration, but an override
    *("mixture", "train", "trainer"),  # but see READ
)
"""Keys that say where results go or how they are told, not what they are. (`smoke` is hashed: a debug
record must never stand in for a result.)"""

PINNED = {
    "backbone": ("source", "path", "revision", "adapter", "seed"),
    "device": ("dtype",),
    "benchmark": ("path",),
    "calibration": ("path", "force"),
    "model": ("base_url", "concurrency", "timeout_s", "retries", "retry_s", "max_failures"),
    "train": ("name", "fresh", "checkpoint_minutes", "keep", "log_steps"),
}
"""Keys that only say where something comes from (`facts` hold the hash of what was found there) or how it
is watched."""

NOT_READ = {
    "train": ("benchmark", "calibration"),  # what is measured afterwards trains nothing else
}
"""Task → further groups and keys it does not look at."""

READ = {"train_evaluate": ("mixture", "train")}
"""Task → groups that are a part of its cells all the same. (task=train adds what matters to its facts.)"""

FROZEN = {"method": "frozen"}

SWEEP = "REFLEX_SWEEP"
"""Environment variable with the sweep a cell belongs to, for cells run by other processes."""

NAMED = ("experiment", "profile", "benchmark", "backbone")
"""Groups by which pages are told apart (reflex/reporting/sweep.py): other choices make another page."""

AXES = ("backbone", "device", "prompt", "readout", "orders", "calibration", "benchmark", "profile")


@dataclass(frozen=True)
class Sweep:
    """A sweep's swept keys, all its overrides, the keys that the command line set, that command, and when it was
    `started` (seconds since the epoch).

    `group` is the same when the sweep is started again.
    """

    keys: tuple[str, ...]
    overrides: tuple[str, ...]
    given: tuple[str, ...]
    experiment: str | None
    command: str = ""
    started: float = field(default_factory=time.time)

    @property
    def group(self) -> str:
        return self.group_of(self.experiment)

    def group_of(self, experiment: str | None) -> str:
        """The group of its cells of `experiment` (`-m experiment=a,b` has one group for each)."""
        return f"{experiment or 'sweep'}-{self.digest}"

    @property
    def digest(self) -> str:
        """What all groups of the sweep end with."""
        return digest(sorted(o for o in self.overrides if not apart(o)))[:10]

    def to_env(self) -> None:
        os.environ[SWEEP] = json.dumps(asdict(self))

    @classmethod
    def from_env(cls) -> Sweep | None:
        raw = os.environ.get(SWEEP)
        if raw is None:
            return None
        facts = json.loads(raw)
        keys, overrides, given = (tuple(facts[name]) for name in ("keys", "overrides", "given"))
        return cls(keys, overrides, given, facts["experiment"], facts["command"], facts["started"])

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
    task = config["task"]["name"]
    aside = {*NOT_HASHED, *NOT_READ.get(task, ())} - {*READ.get(task, ())}
    kept = {key: value for key, value in config.items() if key not in aside and value is not None}
    if "train" in kept and kept["train"]["method"] == "frozen":
        kept["train"] = FROZEN  # nothing is trained, whatever the mixture
        kept.pop("mixture", None)
    precision = (config.get("trainer") or {}).get("precision")
    if precision is not None and task in ("train", *READ) and kept.get("train") != FROZEN:
        kept["precision"] = precision  # the only key of `trainer` that changes a number
    if kept.get("model", {}).get("name") == "local":
        del kept["model"]  # what every cell was before there was a choice
    for group, keys in PINNED.items():
        if group not in kept:
            continue
        kept[group] = {key: value for key, value in kept[group].items() if key not in keys}
    if "benchmark" in kept:
        kept["benchmark"] = _without_files(kept["benchmark"])
    if not kept.get("calibration", {}).get("allow", True):
        del kept["calibration"]["allow"]  # came later than the first recorded cells
    if "readout" not in kept:
        return kept
    # Options of readouts that no question type uses: a new readout must not rename recorded cells.
    names = {kind: config["readout"][kind] for kind in TYPES}
    own = used_options(config["readout"])
    for options in own.values():
        options.pop("weights", None)  # pinned by content, as above
    kept["readout"] = {**names, **own}
    return kept


def _without_files(benchmark: dict[str, Any]) -> dict[str, Any]:
    """A benchmark's configuration as if no file were given: the rows found there are in `facts`."""
    kept = {
        key: _without_files(value) if isinstance(value, dict) else value
        for key, value in benchmark.items()
    }
    none: dict[str, Any] = {"path": None, "file": None, "files": {}}
    return kept | {key: nothing for key, nothing in none.items() if key in kept}


def as_trained(cfg: DictConfig) -> DictConfig:
    """`cfg` without what trains nothing: where `train.schema_first` gives every row its layout, `prompt.layout` is
    only that of later answers, and one training serves both layouts."""
    found: DictConfig = cfg.copy()
    if OmegaConf.select(cfg, "train.schema_first") is not None and "layout" in found.prompt:
        found.prompt.layout = "state_first"
    return found


def run_identity(cfg: DictConfig, facts: dict[str, Any]) -> RunIdentity:
    """The identity of the cell `cfg` describes.

    `facts` are the resolved things a config does not say: weight, data and item hashes, dtype.
    """
    config: Any = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=False)
    hydra: Any = HydraConfig.get()
    choices = hydra.runtime.choices
    experiment = choices.get("experiment")
    packages = package_versions(HASHED_PACKAGES)
    cell = digest([hashed_config(config), facts, packages, NUMERICS])
    sweep = Sweep.from_env()
    overrides = [o for o in hydra.overrides.task if not apart(o)]
    swept = swept_overrides()
    task = config["task"]["name"]
    axes = {axis: _choice(choices, axis, config) for axis in (*AXES, *READ.get(task, ()))}
    axes |= {key_of(o): o.partition("=")[2] for o in overrides if key_of(o) != "experiment"}
    limit = config["benchmark"].get("limit")
    params = OmegaConf.select(hydra, "sweeper.params") or {}
    done = sweep.overrides if sweep else hydra.overrides.task
    return RunIdentity(
        hash=cell,
        experiment=experiment,
        task=task,
        group=(sweep.group_of(experiment) if sweep else f"{experiment or task}-{cell[:10]}"),
        name=",".join(swept) or axes["backbone"] or config["model"]["name"],
        axes=axes,
        config=config,
        seed=config["seed"],
        limited=limit is not None or (experiment is not None and not is_whole(params, done)),
        debug=bool(config["smoke"]) or (config["backbone"] or {}).get("source") == "random",
        command=(sweep.command if sweep else "") or command_line(),
    )


def swept_overrides() -> list[str]:
    """The overrides of this job that tell it from the others of its sweep; none outside a sweep."""
    sweep = Sweep.from_env()
    keys = sweep.keys if sweep else ()
    return [o for o in HydraConfig.get().overrides.task if key_of(o) in keys and not apart(o)]


def given_keys() -> set[str]:
    """Keys that the command line sets in this job, not counting what an experiment sweeps."""
    sweep = Sweep.from_env()
    return set(sweep.given) if sweep else {key_of(o) for o in HydraConfig.get().overrides.task}


def key_of(override: str) -> str:
    """The key of `key=value`, `+key=value` or `~key`."""
    return override.partition("=")[0].lstrip("+~")


def apart(override: str) -> bool:
    """Whether an override, or a dotted key, only says where results go or how they are told."""
    group, _, key = key_of(override).partition(".")
    if group in ("mixture", "train"):  # they tell the cells of a sweep over trainings apart
        return key in PINNED["train"]
    if (group, key) == ("trainer", "precision"):
        return False
    return group in NOT_HASHED


def is_whole(params: Mapping[Any, Any], overrides: Iterable[str]) -> bool:
    """Whether a command's overrides are the sweep of an experiment (`params`), all of it and with nothing
    else replaced that a cell depends on, on any suite and backbone."""
    own, done = {f"{key}={value}" for key, value in params.items()}, set(overrides)
    return own <= done and all(apart(o) or _chooses(o) for o in done - own)


def _chooses(override: str) -> bool:
    """Whether it says which suite, backbone or profile, or where a file of rows or a server is."""
    group, _, key = key_of(override).partition(".")
    return (not key and group in NAMED) or (
        group in ("benchmark", "model") and key in PINNED[group]
    )


def _choice(choices: Any, axis: str, config: dict[Any, Any]) -> Any:
    if axis in config and config[axis] is None:
        return None
    if axis == "readout":
        names = {config["readout"][kind] for kind in TYPES}
        return "+".join(sorted(names))
    if axis == "calibration":
        return config["calibration"]["name"]
    return choices.get(axis)
