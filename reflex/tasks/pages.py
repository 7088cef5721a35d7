"""Hydra callback: knows the sweep before its first cell, and writes the page after its last."""

from __future__ import annotations

import logging
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from reflex.tasks import outcome
from reflex.tasks.identity import Sweep

log = logging.getLogger(__name__)


class PageCallback(Callback):
    """Cells of a sweep learn their group from here; the page is made from records alone."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        given = OverridesParser.create().parse_overrides(list(config.hydra.overrides.task))
        params = dict(config.hydra.sweeper.params or {})
        keys = list(params)
        overrides = [f"{key}={value}" for key, value in params.items()]
        for override in given:
            overrides = [o for o in overrides if not o.startswith(f"{override.key_or_group}=")]
            overrides.append(str(override.input_line))
            if override.is_sweep_override() and override.key_or_group not in keys:
                keys.append(override.key_or_group)
        experiment = config.hydra.runtime.choices.get("experiment")
        Sweep(tuple(keys), tuple(overrides), experiment).to_env()

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        sweep = Sweep.from_env()
        assert sweep is not None
        outcome.close(config, sweep.group)

    def on_run_end(self, config: DictConfig, **kwargs: Any) -> None:
        if outcome.groups:
            outcome.close(config, outcome.groups[-1])
