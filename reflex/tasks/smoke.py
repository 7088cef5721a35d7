"""`debug=smoke`: what a YAML cannot say, so that any experiment ends in seconds.

The command line still wins: `debug=smoke benchmark.limit=8 backbone=smollm2_135m` is eight rows of the
real model.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from reflex.tasks.identity import given_keys

if TYPE_CHECKING:
    from reflex.benchmarks.base import Suite
    from reflex.data.rows import Row

ROWS = 4
"""Rows of a suite (of each of its sources, where the benchmark has no `limit` of its own)."""

OPTIONS = 40
"""Options of a choice: more than letters, fewer than the tiny backbones have codes for."""

HALVED_ROWS = 16
"""The same for a suite cut into rows to fit on and rows to measure, where chance decides the halves."""


SOURCES = ("emotion", "mrpc", "sst5", "banking77")
"""Training sources that stay: one of each question type, and a large taxonomy."""

TRAINING_ROWS = 24


def shrink(cfg: DictConfig) -> None:
    """With `smoke`, make every axis small that the command line does not set. Changes `cfg`."""
    if not cfg.smoke:
        return
    given = given_keys()
    if "limit" in cfg.benchmark and "benchmark.limit" not in given:
        halved = cfg.benchmark.get("split") == "all"
        cfg.benchmark.limit = HALVED_ROWS if halved else ROWS
        if "sources" in cfg.benchmark:  # many of them, and a limit is of each
            cfg.benchmark.limit = 1
    if cfg.get("mixture") is not None and cfg.get("train") is not None:
        _shrink_training(cfg, given)
    if any(key.startswith("backbone") for key in given):
        return
    _drop_trained(cfg, given)
    # A backbone that the experiment sweeps arrives as an override and would beat debug=smoke.
    if cfg.backbone.source != "random":
        name = str(cfg.backbone.name)
        family = "qwen3_5" if "qwen3_5" in name else "qwen3" if "qwen3" in name else "llama"
        cfg.backbone.source, cfg.backbone.path = "random", family
        cfg.backbone.revision = None
        cfg.backbone.seed = zlib.crc32(name.encode())


def _drop_trained(cfg: DictConfig, given: set[str]) -> None:
    """A tiny stand-in fits no adapter or head that was trained on the real backbone."""
    cfg.backbone.adapter = None
    for name, readout in cfg.readout.items():
        trained = isinstance(readout, DictConfig) and readout.get("weights") is not None
        if trained and f"readout.{name}.weights" not in given:
            readout.weights = None


def _shrink_training(cfg: DictConfig, given: set[str]) -> None:
    """Few rows of few sources; budgets that an experiment sweeps stay different from each other.

    An experiment's name for its training is of the real one.
    """
    if "train.name" not in given:
        cfg.train.name = None
    if "mixture.sources" not in given:
        kept = {name: cfg.mixture.sources[name] for name in SOURCES if name in cfg.mixture.sources}
        cfg.mixture.sources = kept or cfg.mixture.sources
    if "mixture.rows" not in given:
        cfg.mixture.rows = TRAINING_ROWS
    if "train.max_tokens" not in given:
        cfg.train.max_tokens = max(3000, (cfg.train.max_tokens or 0) // 50)


def shrink_rows(cfg: DictConfig, suite: Suite) -> Suite:
    """With `smoke`, at most `ROWS` rows of each source of a benchmark that has no `limit`, and short lists."""
    from reflex.benchmarks.base import limited

    if cfg.smoke:
        rows = suite.rows if "limit" in cfg.benchmark else limited(suite.rows, ROWS)
        suite.rows = [_few_options(row) for row in rows]
    return suite


def _few_options(row: Row) -> Row:
    """The row with at most `OPTIONS` options of each choice: the possible ones, then the first others."""
    from reflex.contract import Choice

    questions, labels = dict(row.questions), dict(row.labels)
    for name, question in row.questions.items():
        if not isinstance(question, Choice) or len(question.criteria) <= OPTIONS:
            continue
        ranked = sorted(question.criteria, key=lambda key: labels[name][key] == 0)[:OPTIONS]
        kept = {key: text for key, text in question.criteria.items() if key in set(ranked)}
        questions[name] = question.model_copy(update={"criteria": kept})
        whole = sum(labels[name][key] for key in kept)  # 1 but for labels spread over all options
        labels[name] = {key: labels[name][key] / whole for key in kept}
    return replace(row, questions=questions, labels=labels)
