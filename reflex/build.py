"""A resolved configuration to objects: the one place where `_target_`s of a model are instantiated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from reflex.errors import ConfigError
from reflex.remote.remote import remote_model

if TYPE_CHECKING:
    from reflex.backbones.backbone import Backbone
    from reflex.decider import Decider
    from reflex.model import DecisionModel


def to_object(node: DictConfig) -> Any:
    """A typed config group as its dataclass (validated by `__post_init__`)."""
    return OmegaConf.to_object(node)


def build_backbone(cfg: DictConfig, *, as_stored: bool = False) -> Backbone:
    """Load `cfg.backbone` onto `cfg.device`. as_stored: see `load_backbone`."""
    from reflex.backbones.backbone import load_backbone

    device = to_object(cfg.device)
    _set_threads(device.threads)
    return load_backbone(to_object(cfg.backbone), device, as_stored=as_stored)


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


def build_model(
    cfg: DictConfig, backbone: Backbone | None = None, *, as_stored: bool = False
) -> DecisionModel:
    """The decision model of `cfg`; checks the cheap axes before weights are loaded. as_stored: see `load_backbone`."""
    from reflex.prompts.orders import check_orders

    if remote_model(cfg):
        raise ConfigError("model=remote: this needs the model itself; use model=local")
    orders = to_object(cfg.orders)
    check_orders(orders)
    style = instantiate(cfg.prompt)
    readouts = to_object(cfg.readout)
    forward = to_object(cfg.forward)
    from reflex.model import DecisionModel

    backbone = backbone or build_backbone(cfg, as_stored=as_stored)
    return DecisionModel(backbone, style, orders, readouts, forward)


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
