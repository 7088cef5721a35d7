"""What is wrong with a composed configuration, said before anything is loaded."""

from __future__ import annotations

import dataclasses

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from reflex.build import to_object
from reflex.config import RootConfig
from reflex.contract import TYPES
from reflex.errors import ConfigError
from reflex.prompts.orders import check_orders
from reflex.remote.remote import remote_model
from reflex.tasks.clean import check_names

READ_BY = {
    "run": ("gate", "serve it (python -m reflex.serve run=…) and measure it with model=remote"),
    "a": ("compare", "leave it out or add task=compare"),
    "b": ("compare", "leave it out or add task=compare"),
}
"""Keys of the root that one task alone reads, and what else to do: ignored, they would mislead."""


def check_config(cfg: DictConfig) -> None:
    """Raise ConfigError naming the key for what composing could not refuse; cheap, loads nothing.

    That is a key added with `+` that no schema has, a value still `???`, a value that a group's own checks
    refuse, a seed that no generator takes, and (ContaminationError) a calibration that would be fitted on
    benchmark data.
    """
    unknown = _unknown_key(cfg, RootConfig)
    if unknown:
        raise ConfigError(f"{unknown}: no such key; remove it from the command line")
    check_complete(cfg)
    if not 0 <= cfg.seed < 2**32:
        raise ConfigError(f"seed={cfg.seed}: must be in 0..{2**32 - 1}")
    for key in ("runs_dir", "results_dir"):
        if not cfg[key]:
            raise ConfigError(f"{key}= has no value; leave the key out for its default")
    for key, (task, otherwise) in READ_BY.items():
        if cfg[key] is not None and cfg.task.name != task:
            raise ConfigError(f"{key}={cfg[key]}: only task={task} reads it; {otherwise}")
    check_orders(to_object(cfg.orders))
    for group in ("backbone", "device", "readout", "forward", "tracker"):
        to_object(cfg[group])
    remote_model(cfg)
    for kind in TYPES:
        if cfg.readout[kind] not in cfg.readout:
            known = [name for name in cfg.readout if isinstance(cfg.readout[name], DictConfig)]
            raise ConfigError(
                f"readout.{kind}={cfg.readout[kind]}: no such readout; use one of {', '.join(known)}"
            )
    for group in ("prompt", "calibration", "benchmark"):
        instantiate(cfg[group])
    check_names(cfg)


def _unknown_key(node: DictConfig, schema: type) -> str | None:
    """The first key below `node` that its dataclass does not have."""
    for key in node:
        if key not in {field.name for field in dataclasses.fields(schema)}:
            return str(node._get_full_key(key))
        if OmegaConf.is_missing(node, key) or not OmegaConf.is_dict(node[key]):
            continue
        kind = OmegaConf.get_type(node[key])
        unknown = _unknown_key(node[key], kind) if dataclasses.is_dataclass(kind) else None
        if unknown:
            return unknown
    return None


def check_complete(cfg: DictConfig) -> None:
    """Raise ConfigError naming the first key that still is `???`."""
    missing = OmegaConf.missing_keys(cfg)
    if missing:
        raise ConfigError(f"{min(missing)}: no value given; set it on the command line")
