"""`task=calibrate calibration=transfer [task.from_run=RUN]`: fit a calibration and write its file.

It is fitted on the recorded raw scores of a run's rows of split `fit`, so the model is not asked twice;
without `task.from_run` the configured cell is evaluated (or found) first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from reflex.errors import CalibrationError, ConfigError, RecordError

if TYPE_CHECKING:
    import pandas as pd

    from reflex.calibration.fitted import Calibration


@dataclass
class Calibrate:
    """from_run: a recorded run, by folder, hash or prefix. path: where the file goes (default: beside the run)."""

    _target_: str = "reflex.tasks.calibrate.Calibrate"
    name: str = "calibrate"
    from_run: str | None = None
    path: str | None = None

    def run(self, cfg: DictConfig) -> int:
        """Prints what was fitted and how it carries over; the last line names the file."""
        from reflex.calibration.errors import report_error
        from reflex.calibration.fitted import identity
        from reflex.files import write_atomic
        from reflex.tasks.clean import check_fit, withheld
        from reflex.tasks.fitting import run_frames
        from reflex.tracking.record import finished_local, json_text, problem_of

        calibration = instantiate(cfg.calibration)
        if not calibration.fits:
            raise ConfigError(
                f"calibration={calibration.name}: nothing to fit; use one of {', '.join(_rules())} "
                "(without calibration.path)"
            )
        folder = self._folder(cfg)
        record = finished_local(folder)
        if problem := problem_of(folder, record):
            raise RecordError(problem)
        fit_rows, measured = run_frames(folder)
        if not len(fit_rows):
            raise _nothing_to_fit(f"run {folder.name}", measured["split"])
        let = check_fit(record.config.get("benchmark"), calibration, fit_rows)
        measured = measured[[not withheld(source, let) for source in measured["source"]]]
        of = {
            "run": record.hash,
            "suite": record.data.get("suite"),
            "data_sha256": record.data.get("sha256"),
            "items_sha256": record.data.get("items_sha256"),
            **identity(
                record.backbone,
                record.prompt_hash,
                record.config["readout"],
                record.config["orders"],
            ),
            **({"contamination": dict(let)} if let else {}),
        }
        probes = _content_free(calibration, folder, fit_rows, measured)
        found: Calibration = calibration.fit(fit_rows, of, probes)
        if len(measured):
            found.errors["report"] = report_error(measured, found)
        path = Path(self.path) if self.path else folder / f"calibration-{calibration.name}.json"
        write_atomic(path, json_text(found.to_json()).encode())
        print("\n".join(told(found)))
        print(f"calibration: {path}")
        return 0

    def _folder(self, cfg: DictConfig) -> Path:
        from reflex.calibration.fit import SPLIT
        from reflex.loading import run_folder
        from reflex.tasks.clean import check_fit
        from reflex.tasks.evaluate import Evaluate
        from reflex.tasks.fitting import uncalibrated

        if self.from_run is not None:
            return run_folder(self.from_run, Path(cfg.runs_dir))
        cell = uncalibrated(cfg)
        evaluate = Evaluate()
        cell.task = OmegaConf.structured(evaluate)
        suite, _, folder = evaluate.prepare(cell)
        rows = [row for row in suite.rows if row.split == SPLIT]
        if not rows:
            raise _nothing_to_fit(f"benchmark={suite.name}", (row.split for row in suite.rows))
        check_fit(cfg.benchmark, instantiate(cfg.calibration), rows)
        if evaluate.run(cell):
            raise RecordError(f"{folder}: the cell to calibrate failed; see its record.json")
        return folder


def _content_free(calibration: Any, folder: Path, *read: pd.DataFrame) -> pd.DataFrame | None:
    """What a content-free prior is estimated from; None where it needs none.

    Questions are those of the rows that the run has `read`, as in a run that fits its own calibration: rows that
    it left out would make another prior.
    """
    from reflex.calibration.temperature import CONTENT_FREE

    if calibration.prior != CONTENT_FREE:
        return None
    from reflex.build import build_uncalibrated
    from reflex.loading import recorded_config
    from reflex.tasks.evaluate import Evaluate
    from reflex.tasks.fitting import read_content_free
    from reflex.tasks.smoke import shrink_rows

    cfg = recorded_config(folder)
    suite = shrink_rows(cfg, instantiate(cfg.benchmark).load())
    ids = {item for frame in read for item in frame["item_id"]}
    rows = [row for row in suite.rows if row.id in ids]
    decider = build_uncalibrated(cfg)
    return read_content_free(calibration, decider, rows, Evaluate().batch_tokens)


def _rules() -> list[str]:
    """The calibrations of conf/ that fit something."""
    from reflex.calibration.none import NoCalibration
    from reflex.places import conf_dir

    names = {path.stem for path in (conf_dir() / "calibration").glob("*.yaml")}
    return sorted(names - {NoCalibration().name})


def _nothing_to_fit(what: str, splits: Iterable[str]) -> CalibrationError:
    known = ", ".join(sorted(set(splits)))
    return CalibrationError(
        f"{what}: no rows of split fit (only {known}); evaluate a suite that has some "
        "(benchmark.split=fit or all)"
    )


def told(found: Calibration) -> Iterator[str]:
    """The calibration as lines of text."""
    yield f"{'bucket':34} {'T':>8} {'n':>6} {'NLL at 1':>9} {'NLL':>7}  weighting"
    for bucket, detail in found.details.items():
        yield (
            f"{bucket:34} {detail['temperature']:8.3f} {detail['n']:6d} {detail['nll_raw']:9.4f} "
            f"{detail['nll']:7.4f}  {detail['weighting']}"
        )
    for bucket, fallback in found.fallbacks.items():
        yield f"{bucket:34} uses {fallback['to']}: {fallback['why']}"
    names = {
        "raw": "before",
        "fitted": "after, same rows",
        "in_family": "after, other rows of the same families",
        "left_out": "after, a family it was not fitted on",
    }
    for key, name in names.items():
        if key in found.errors:
            yield _error_line(name, found.errors[key])
    for key, error in found.errors.get("report", {}).items():
        yield _error_line(f"measured rows, {'before' if key == 'raw' else 'after'}", error)
    for warning in found.warnings:
        yield f"warning: {warning}"


def _error_line(name: str, error: dict[str, Any]) -> str:
    ece = error["ece_15"]
    return f"{name:40} NLL {error['nll']:.4f}  ECE-15 {'–' if ece is None else f'{ece:.4f}'}  n {error['n']}"
