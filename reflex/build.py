"""A resolved configuration to objects: the one place where `_target_`s of a model are instantiated."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from reflex.contract import TYPES
from reflex.errors import ConfigError
from reflex.remote.remote import remote_model

if TYPE_CHECKING:
    from reflex.backbones.backbone import Backbone
    from reflex.decider import Decider
    from reflex.model import DecisionModel


def to_object(node: DictConfig) -> Any:
    """A typed config group as its dataclass (validated by `__post_init__`)."""
    return OmegaConf.to_object(node)


def build_backbone(cfg: DictConfig) -> Backbone:
    """Load `cfg.backbone` onto `cfg.device`."""
    from reflex.backbones.backbone import load_backbone

    device = to_object(cfg.device)
    _set_threads(device.threads)
    return load_backbone(to_object(cfg.backbone), device)


_threads: int | None = None
"""torch's own number of threads, once a cell has asked for another one."""


def _set_threads(wanted: int | None) -> None:
    """`device.threads` of this cell; without one, what torch had before another cell changed it."""
    global _threads
    if wanted is None and _threads is None:
        return
    import torch

    _threads = _threads or torch.get_num_threads()
    torch.set_num_threads(wanted or _threads)


def build_model(cfg: DictConfig, backbone: Backbone | None = None) -> DecisionModel:
    """The decision model of `cfg`; checks the cheap axes before weights are loaded."""
    from reflex.prompts.orders import check_orders

    if remote_model(cfg):
        raise ConfigError("model=remote: this needs the model itself; use model=local")
    orders = to_object(cfg.orders)
    check_orders(orders)
    style = instantiate(cfg.prompt)
    readouts = to_object(cfg.readout)
    forward = to_object(cfg.forward)
    from reflex.model import DecisionModel

    return DecisionModel(backbone or build_backbone(cfg), style, orders, readouts, forward)


def build_decider(cfg: DictConfig, backbone: Backbone | None = None) -> Decider:
    """Model and calibration of `cfg`, ready to answer.

    Raises CalibrationError for a calibration that is not fitted yet or belongs to something else.
    """
    from reflex.decider import Decider

    calibration = instantiate(cfg.calibration)
    if calibration.fits:
        calibration.load({})  # raises, before any weights are read
    model = build_model(cfg, backbone)
    calibrator = calibration.load(calibration_identity(cfg, model))
    return Decider(model, calibrator, cfg.backbone.name)


def build_uncalibrated(cfg: DictConfig, backbone: Backbone | None = None) -> Decider:
    """The model of `cfg` at temperature 1, whatever its calibration: what a fit starts from."""
    from reflex.calibration.none import NoCalibration
    from reflex.decider import Decider

    return Decider(build_model(cfg, backbone), NoCalibration(), cfg.backbone.name)


def calibration_identity(cfg: DictConfig, model: DecisionModel) -> dict[str, Any]:
    """What a calibration of this model belongs to (see reflex.calibration.fitted)."""
    from dataclasses import asdict

    from reflex.calibration.fitted import identity

    readout, orders = (OmegaConf.to_container(cfg[group]) for group in ("readout", "orders"))
    return identity(
        asdict(model.backbone.facts),
        model.style.fingerprint(),
        readout,  # type: ignore[arg-type]
        orders,  # type: ignore[arg-type]
    )


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
    from reflex.config import RootConfig
    from reflex.prompts.orders import check_orders
    from reflex.tasks.clean import check_names

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
