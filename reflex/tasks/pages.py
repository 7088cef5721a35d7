"""Hydra callback: knows the sweep before its first cell, and writes the page after its last."""

from __future__ import annotations

from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from reflex.tasks import outcome
from reflex.tasks.identity import Sweep


class PageCallback(Callback):
    """Cells of a sweep learn their group from here; the page is made from records alone."""

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        Sweep.forget()

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        given = OverridesParser.create().parse_overrides(list(config.hydra.overrides.task))
        params = dict(OmegaConf.select(config, "hydra.sweeper.params") or {})
        own = [override.key_or_group for override in given]
        swept = [override.key_or_group for override in given if override.is_sweep_override()]
        overrides = [f"{key}={value}" for key, value in params.items() if key not in own]
        Sweep(
            keys=tuple(dict.fromkeys([*params, *swept])),
            overrides=(*overrides, *(str(override.input_line) for override in given)),
            given=tuple(own),
            experiment=config.hydra.runtime.choices.get("experiment"),
        ).to_env()

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        sweep = Sweep.from_env()
        if sweep is not None:
            for group in dict.fromkeys(outcome.cells.values()) or [sweep.group]:
                outcome.close(config, group)
        Sweep.forget()

    def on_run_end(self, config: DictConfig, **kwargs: Any) -> None:
        for group in list(outcome.cells.values())[-1:]:
            outcome.close(config, group)
