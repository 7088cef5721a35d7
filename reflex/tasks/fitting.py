"""A run that fits its own calibration: fit rows apart from measured rows, fitted, applied, kept beside it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from reflex.errors import CalibrationError

if TYPE_CHECKING:
    import pandas as pd

    from reflex.calibration.fitted import Calibration
    from reflex.data.rows import Row
    from reflex.decider import Decider

FIT_PREDICTIONS = "fit_predictions.parquet"
"""Beside `predictions.parquet`: what was read of the rows of split `fit`, for further fits."""


@dataclass
class Settled:
    """`measured`: the predictions that count; `facts` go into the record, `files` beside it."""

    measured: pd.DataFrame
    facts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)


def settle(
    cfg: DictConfig,
    calibration: Any,
    decider: Decider,
    rows: list[Row],
    predictions: pd.DataFrame,
    fitted_on: dict[str, Any],
    batch_tokens: int,
) -> Settled:
    """Rows of split `fit` are never measured together with others; where `calibration` has to be fitted,
    they are what it is fitted on. Raises CalibrationError, ContaminationError."""
    from reflex.calibration.apply import apply
    from reflex.calibration.fit import SPLIT
    from reflex.data.contamination import assert_clean
    from reflex.tracking.predictions import predictions_bytes
    from reflex.tracking.record import json_text

    of_fit = predictions["split"] == SPLIT
    fit_rows, measured = predictions[of_fit], predictions[~of_fit]
    if not calibration.fits:
        if not len(measured) or not len(fit_rows):
            return Settled(predictions)
        return Settled(
            measured.reset_index(drop=True),
            files={FIT_PREDICTIONS: predictions_bytes(fit_rows)},
        )
    for part, other in ((fit_rows, "fit"), (measured, "report")):
        if not len(part):
            raise CalibrationError(
                f"calibration={calibration.name} needs rows of split fit to fit on and others to be "
                f"measured on, but the suite has none of split {other}: load both (benchmark.split=all), or "
                "fit with task=calibrate and set calibration.path"
            )
    assert_clean(set(fit_rows["source"]))
    content_free = None
    if calibration.prior == "content_free":
        content_free = read_content_free(cfg, calibration, decider, rows, batch_tokens)
    found: Calibration = calibration.fit(
        fit_rows, {**here(cfg, decider), **fitted_on}, content_free
    )
    from reflex.calibration.fitted import FILE

    return Settled(
        apply(measured, found).reset_index(drop=True),
        facts=summary(found),
        files={
            FIT_PREDICTIONS: predictions_bytes(apply(fit_rows, found)),
            FILE: json_text(found.to_json()).encode(),
        },
    )


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Files that belong to a record, before the record itself; those of an earlier try are replaced."""
    from reflex.calibration.fitted import FILE
    from reflex.tracking.files import write_atomic_all

    for name in {FIT_PREDICTIONS, FILE} - set(files):
        (folder / name).unlink(missing_ok=True)
    if files:
        write_atomic_all({folder / name: data for name, data in files.items()})


def here(cfg: DictConfig, decider: Decider) -> dict[str, Any]:
    """What a calibration fitted in this run belongs to."""
    from reflex.build import calibration_identity

    return calibration_identity(cfg, decider.model)


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
    cfg: DictConfig, calibration: Any, decider: Decider, rows: list[Row], batch_tokens: int
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
