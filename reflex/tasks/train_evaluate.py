"""`task=train_evaluate`: a cell that trains by its `mixture` and `train` groups and measures what came out.

    python -m reflex.run task=train_evaluate mixture=embedded readout=pointer benchmark=held_out
    python -m reflex.run experiment=readouts

The training is the one of `task=train`: resumable, and done once for all benchmarks. The record is the one of
`task=evaluate` for the trained weights, so pages, comparisons, releases and serving know it already.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from reflex.benchmarks.left_out import without
from reflex.errors import ConfigError, DataError
from reflex.readouts.base import used_readouts
from reflex.tasks.cells import forget_failure, free_memory
from reflex.tasks.clean import check_parts
from reflex.tasks.evaluate import Evaluate
from reflex.tasks.facts import load_suite
from reflex.tasks.identity import as_trained
from reflex.tasks.lineage import MIXTURE, RESULT, part_folders, read_json, trained_rows
from reflex.tasks.train import Train, training_identity

if TYPE_CHECKING:
    import pandas as pd

    from reflex.benchmarks.base import Suite
    from reflex.data.rows import Row

log = logging.getLogger(__name__)

CURVE = 10
"""Points of the training curve that a record keeps."""


@dataclass
class TrainEvaluate(Evaluate):
    """As `evaluate`; with `train=frozen` nothing is trained and the backbone is measured as it is."""

    _target_: str = "reflex.tasks.train_evaluate.TrainEvaluate"
    name: str = "train_evaluate"

    def run(self, cfg: DictConfig) -> int:
        """Train unless that is done, then as `Evaluate.run`. Raises ReflexError; a sweep records it."""
        from reflex.training.processes import is_child

        if not OmegaConf.select(cfg, "train.method"):
            raise ConfigError("train: choose how to train, e.g. train=lora or train=frozen")
        load_suite(cfg)  # what cannot be measured is not worth hours of training
        trained = with_training(cfg)
        if is_child():
            return 0
        forget_failure(cfg)
        return super().run(trained)

    def read_suite(self, cfg: DictConfig) -> Suite:
        """The suite, of whose rows to fit on none was trained on. Raises CalibrationError or DataError where that
        leaves nothing to fit on, or nothing at all."""
        suite = super().read_suite(cfg)
        if (folder := training_folder(cfg)) is None:
            return suite
        kept = without_trained(suite, trained_rows(folder))
        if kept is not suite and instantiate(cfg.calibration).fits:
            check_parts(cfg.calibration.name, {row.split for row in kept.rows})
        if not kept.rows:
            raise DataError(f"benchmark={suite.name}: every row was trained on; measure others")
        return kept

    def _measure(
        self, cfg: DictConfig, suite: Suite, folder: Path, logger: Any
    ) -> tuple[dict[str, Any], pd.DataFrame, dict[str, bytes]]:
        measured, predictions, files = super()._measure(cfg, suite, folder, logger)
        made_in = training_folder(cfg)
        if made_in is not None:
            measured["data"]["training"] = training_facts(made_in)
        return measured, predictions, files


def with_training(cfg: DictConfig) -> DictConfig:
    """`cfg` with the trained parts in place of the untrained ones; trains them first where need be.

    A child process helps to train and gets `cfg` as it was.
    """
    from reflex.training.processes import is_child

    found: DictConfig = cfg.copy()
    if cfg.train.method == "frozen":
        return found
    training = as_trained(cfg)
    OmegaConf.set_struct(training, False)
    training.task = {"_target_": Train._target_, "name": Train.name}
    Train().run(training)
    if is_child():  # of trainer=ddp: the first process is saving still, and measures
        return found
    free_memory()
    folder, _ = training_identity(training)
    result = read_json(folder / RESULT)
    if result["adapter"]:
        found.backbone.adapter = str(folder / result["adapter"])
    elif cfg.train.method == "full":
        found.backbone.source, found.backbone.path = "folder", str(folder / "backbone")
        found.backbone.adapter = None  # its update is in the weights that were saved
    for name in used_readouts(cfg.readout) if result["heads"] else ():
        if "weights" in cfg.readout[name]:
            found.readout[name].weights = str(folder / result["heads"])
    return found


def training_folder(cfg: DictConfig) -> Path | None:
    """Where the trained parts of `cfg` were made; None where it has none."""
    folders = part_folders(cfg)
    if cfg.train.method == "full":
        folders.append(Path(cfg.backbone.path).parent)
    return next((folder for folder in folders if (folder / RESULT).is_file()), None)


def without_trained(suite: Suite, trained: Sequence[Row]) -> Suite:
    """The suite without the fit rows that are items of `trained` or share a text with one; its facts count
    them by source (`trained_on`).

    A temperature fitted on what was trained on is too low. Whatever the calibration is, so that a cell without one
    holds the same rows.
    """
    from reflex.calibration.fit import SPLIT
    from reflex.data.overlap import normalised_texts

    ids = {row.id.partition("#")[0] for row in trained}
    texts = {text for row in trained for text in normalised_texts(row.state)}
    found = {
        row.id
        for row in suite.rows
        if row.split == SPLIT
        and (row.id in ids or not texts.isdisjoint(normalised_texts(row.state)))
    }
    if found:
        log.warning(
            "benchmark=%s: %d rows of split fit were trained on and are left out",
            suite.name, len(found),
        )  # fmt: skip
    return without(suite, found, "trained_on")


def training_facts(folder: Path) -> dict[str, Any]:
    """What a record says of its training: rows, steps, tokens, the mixture's shares, and the loss over time.

    `curve`: [share of the steps done, mean loss since the point before].
    """
    facts: dict[str, Any] = read_json(folder / RESULT)
    kept = {key: facts[key] for key in ("rows", "steps", "tokens", "plan_sha256")}
    if (mixture := read_json(folder / MIXTURE)) is not None:
        sources = mixture["sources"]
        kept["shares"] = {name: each["share"] for name, each in sources.items()}
        kept["families"] = sorted({each["family"] for each in sources.values()})
    return {**kept, "curve": curve(folder / "log.jsonl", facts["steps"])}


def curve(path: Path, steps: int) -> list[list[float]]:
    """At most `CURVE` points; a step that was run again after a restart counts as it was run last.

    A line that a killed process wrote half is left out.
    """
    if not path.is_file():
        return []
    losses = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError, KeyError, TypeError):
            point = json.loads(line)
            losses[int(point["step"])] = float(point["loss"])
    parts: dict[int, list[float]] = {}
    for step, loss in sorted(losses.items()):
        parts.setdefault(max(1, -(-step * CURVE // steps)), []).append(loss)
    return [[part / CURVE, sum(own) / len(own)] for part, own in parts.items()]
