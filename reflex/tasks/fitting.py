"""A run that fits its own calibration: fit rows apart from measured rows, fitted, applied, kept beside it.

Scores are recorded before temperature, so a cell that differs from a recorded one in its calibration alone
takes its scores from there: the model is not asked the same thing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from reflex.calibration.temperature import CONTENT_FREE
from reflex.tracking.record import FIT_PREDICTIONS

if TYPE_CHECKING:
    import pandas as pd

    from reflex.benchmarks.base import Suite
    from reflex.calibration.fitted import Calibration
    from reflex.data.rows import Row
    from reflex.decider import Decider


@dataclass(frozen=True)
class Raw:
    """What a model answered at temperature 1 (or under a loaded calibration), and what it was."""

    predictions: pd.DataFrame
    backbone: dict[str, Any]
    prompt_hash: str | None
    cost: dict[str, Any]


@dataclass
class Settled:
    """`measured`: the predictions that count; `facts` go into the record, `files` beside it."""

    measured: pd.DataFrame
    facts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)


def settle(
    cfg: DictConfig,
    calibration: Any,
    raw: Raw,
    fitted_on: dict[str, Any],
    content_free: Callable[[], pd.DataFrame] | None = None,
) -> Settled:
    """Rows of split `fit` are never measured together with others; where `calibration` has to be fitted,
    they are what it is fitted on. `content_free` reads what a content-free prior is estimated from.
    Raises CalibrationError, ContaminationError."""
    from reflex.calibration.apply import apply
    from reflex.calibration.fit import SPLIT
    from reflex.calibration.fitted import FILE, identity
    from reflex.tasks.clean import check_fit, check_parts
    from reflex.tracking.predictions import predictions_bytes
    from reflex.tracking.record import json_text

    of_fit = raw.predictions["split"] == SPLIT
    fit_rows, measured = raw.predictions[of_fit], raw.predictions[~of_fit]
    if not calibration.fits:
        if not len(measured) or not len(fit_rows):
            return Settled(raw.predictions)
        return Settled(
            measured.reset_index(drop=True),
            files={FIT_PREDICTIONS: predictions_bytes(fit_rows)},
        )
    check_parts(calibration.name, raw.predictions["split"])
    let = check_fit(cfg.benchmark, calibration, fit_rows)
    probes = None
    if calibration.prior == CONTENT_FREE and content_free is not None:
        probes = content_free()
    readout, orders = (OmegaConf.to_container(cfg[group]) for group in ("readout", "orders"))
    of = identity(raw.backbone, raw.prompt_hash, readout, orders)  # type: ignore[arg-type]
    marks = {"contamination": dict(let)} if let else {}
    found: Calibration = calibration.fit(fit_rows, {**of, **fitted_on, **marks}, probes)
    return Settled(
        apply(measured, found).reset_index(drop=True),
        facts=summary(found),
        files={
            FIT_PREDICTIONS: predictions_bytes(apply(fit_rows, found)),
            FILE: json_text(found.to_json()).encode(),
        },
    )


def remove_others(folder: Path, files: Collection[str]) -> None:
    """Remove what an earlier try left beside a record that `files` do not name."""
    from reflex.calibration.fitted import FILE

    for name in {FIT_PREDICTIONS, FILE} - set(files):
        (folder / name).unlink(missing_ok=True)


def uncalibrated(cfg: DictConfig) -> DictConfig:
    """The same cell at temperature 1."""
    cell: DictConfig = cfg.copy()
    OmegaConf.set_struct(cell, False)
    cell.calibration = {"_target_": "reflex.calibration.none.NoCalibration", "name": "none"}
    return cell


def recorded_scores(cfg: DictConfig, suite: Suite, calibration: Any) -> Raw | None:
    """Scores of the recorded cell that differs in its calibration alone; None where there is none, or where
    the model is needed anyway (`force`, a content-free prior, a calibration that is loaded)."""
    from reflex.tasks.cells import cell_folder
    from reflex.tasks.facts import cell_facts
    from reflex.tasks.identity import run_identity
    from reflex.tracking.record import is_finished, read_record

    if cfg.force or not calibration.fits or calibration.prior == CONTENT_FREE:
        return None
    import pandas as pd

    cell = uncalibrated(cfg)
    folder = cell_folder(cell, run_identity(cell, cell_facts(cell, suite)))
    if not is_finished(folder):
        return None
    record = read_record(folder)
    frame = pd.concat(run_frames(folder), ignore_index=True)
    cost = {**record.cost, "scores_from": record.hash}
    return Raw(frame, record.backbone, record.prompt_hash, cost)


def run_frames(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(rows of split `fit`, the others) of a recorded run."""
    from reflex.calibration.fit import SPLIT
    from reflex.tracking.predictions import read_predictions

    frame = read_predictions(folder)
    if (folder / FIT_PREDICTIONS).is_file():
        return read_predictions(folder / FIT_PREDICTIONS), frame
    of_fit = frame["split"] == SPLIT
    return frame[of_fit], frame[~of_fit]


def summary(found: Calibration) -> dict[str, Any]:
    """The part of a calibration that a record tells."""
    return {
        "name": found.name,
        "rule": found.rule,
        "weighting": found.weighting,
        "temperatures": found.temperatures,
        "fallbacks": found.fallbacks,
        "errors": found.errors,
        "warnings": found.warnings,
        "n": found.fitted_on.get("n"),
        "prior": None if found.prior is None else found.prior.estimator,
    }


def read_content_free(
    calibration: Any, decider: Decider, rows: Sequence[Row], batch_tokens: int | None
) -> pd.DataFrame:
    """Predictions of the suite's questions over states that say nothing, in six orders of sorted options.

    At most `calibration.prior_questions` distinct questions, in a fixed order; labels play no part.
    """
    from reflex.calibration.prior import CONTENT_FREE_STATES, content_free_questions
    from reflex.contract import option_keys, parse_question
    from reflex.data.rows import Row
    from reflex.data.splits import hash_order
    from reflex.evaluation.suite import run_suite

    asked = content_free_questions([item for row in rows for item in row.questions.items()])
    kept = hash_order(asked, lambda item: repr(item), "content-free")[: calibration.prior_questions]
    probes = []
    for i, (question_id, raw) in enumerate(kept):
        question = parse_question(raw)
        keys = option_keys(question)
        label = {key: 1 / len(keys) for key in keys}
        probes += [
            Row(f"{i}/{j}", state, {question_id: question}, {question_id: label}, "content_free")
            for j, state in enumerate(CONTENT_FREE_STATES)
        ]
    model = decider.model
    configured = model.orders
    model.orders = replace(configured, kind="shuffled", permutations=6)
    try:
        return run_suite(decider, probes, batch_tokens).predictions
    finally:
        model.orders = configured
