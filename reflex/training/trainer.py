"""Lightning's trainer as the groups `device` and `trainer` configure it."""

from __future__ import annotations

from typing import Any

import lightning
from lightning.fabric.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig, OmegaConf

from reflex.errors import ConfigError, brief
from reflex.quiet import quiet_lightning

quiet_lightning()


def new_trainer(cfg: DictConfig, **own: Any) -> lightning.Trainer:
    """A trainer with the arguments `own` beside the configured ones. Raises ConfigError for what it refuses."""
    given: Any = OmegaConf.to_container(cfg.trainer, resolve=True) if cfg.get("trainer") else {}
    given.pop("_target_", None)
    try:
        return lightning.Trainer(
            accelerator={"cuda": "gpu"}.get(cfg.device.name, cfg.device.name),
            max_epochs=1,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            **given,
            **{"logger": False, **own},
        )
    except (MisconfigurationException, TypeError, ValueError) as error:
        told = {"device": cfg.device.name, **given}
        asked = ", ".join(f"{key}={value}" for key, value in told.items() if value is not None)
        raise ConfigError(f"trainer ({asked}): {brief(error)}") from None
