"""`debug=smoke`: what a YAML cannot say, so that any experiment ends in seconds.

The command line still wins: `debug=smoke benchmark.limit=8 backbone=smollm2_135m` is eight rows of the
real model.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from reflex.tasks.identity import given_keys

if TYPE_CHECKING:
    from reflex.benchmarks.base import Suite

ROWS = 4
"""Rows of a suite (of each of its sources, where the benchmark has no `limit` of its own)."""


def shrink(cfg: DictConfig) -> None:
    """With `smoke`, make every axis small that the command line does not set. Changes `cfg`."""
    if not cfg.smoke:
        return
    given = given_keys()
    if "limit" in cfg.benchmark and "benchmark.limit" not in given:
        cfg.benchmark.limit = ROWS
    # A backbone that the experiment sweeps arrives as an override and would beat debug=smoke.
    if cfg.backbone.source != "random" and "backbone" not in given:
        name = str(cfg.backbone.name)
        family = "qwen3_5" if "qwen3_5" in name else "qwen3" if "qwen3" in name else "llama"
        cfg.backbone.source, cfg.backbone.path = "random", family
        cfg.backbone.revision = cfg.backbone.adapter = None
        cfg.backbone.seed = zlib.crc32(name.encode())


def shrink_rows(cfg: DictConfig, suite: Suite) -> Suite:
    """With `smoke`, at most `ROWS` rows of each source of a benchmark that has no `limit`."""
    from reflex.benchmarks.base import limited

    if cfg.smoke and "limit" not in cfg.benchmark:
        suite.rows = limited(suite.rows, ROWS)
    return suite
