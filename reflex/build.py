"""A resolved configuration to objects: the one place where `_target_`s of a model are instantiated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from reflex.errors import ConfigError

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
    if device.threads is not None:
        import torch

        torch.set_num_threads(device.threads)
    return load_backbone(to_object(cfg.backbone), device)


def build_model(cfg: DictConfig, backbone: Backbone | None = None) -> DecisionModel:
    """The decision model of `cfg`; checks the cheap axes before weights are loaded."""
    from reflex.prompts.orders import check_orders

    orders = to_object(cfg.orders)
    check_orders(orders)
    style = instantiate(cfg.prompt)
    readouts = to_object(cfg.readout)
    forward = to_object(cfg.forward)
    from reflex.model import DecisionModel

    return DecisionModel(backbone or build_backbone(cfg), style, orders, readouts, forward)


def build_decider(cfg: DictConfig, backbone: Backbone | None = None) -> Decider:
    """Model and calibration of `cfg`, ready to answer."""
    from reflex.decider import Decider

    calibrator = instantiate(cfg.calibration)
    return Decider(build_model(cfg, backbone), calibrator, cfg.backbone.name)


def check_complete(cfg: DictConfig) -> None:
    """Raise ConfigError naming the first key that still is `???`."""
    missing = OmegaConf.missing_keys(cfg)
    if missing:
        raise ConfigError(f"{min(missing)}: no value given; set it on the command line")
