"""Hydra callback: knows the sweep before its first cell, and writes the page after its last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from reflex.tasks import outcome
from reflex.tasks.identity import Sweep
from reflex.tracking.environment import command_line

_sweeping: DictConfig | None = None
"""The configuration of the sweep that this command runs."""


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
            command=command_line(),
        ).to_env()
        global _sweeping
        _sweeping = config

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        close_sweep()

    def on_run_end(self, config: DictConfig, **kwargs: Any) -> None:
        for group in list(outcome.cells)[-1:]:
            outcome.close(config, group)


def close_sweep() -> None:
    """Table and page of every group of the sweep. Hydra does not call back when a launched cell failed."""
    sweep = Sweep.from_env()
    if sweep is None or _sweeping is None:
        return
    for group in list(outcome.cells) or recorded_groups(Path(_sweeping.runs_dir), sweep):
        outcome.close(_sweeping, group)
    Sweep.forget()


def recorded_groups(runs: Path, sweep: Sweep) -> list[str]:
    """The sweep's groups (one an experiment) by its records, for cells that other processes ran."""
    from reflex.tracking.record import find_records

    groups = (cell.record.group for cell in find_records(runs).found)
    return list(dict.fromkeys(g for g in groups if g.endswith(f"-{sweep.digest}")))
