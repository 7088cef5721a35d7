"""`task=gate run=RUN`: check a candidate against what is stable; only if it passes, make it stable.

    python -m reflex.run task=gate run=releases/embedded
    python -m reflex.run task=gate run=1a2b3c profile=gpu gate.margin=0.02

Both are asked the gate suites through the forward that serves. What was read is kept in `runs/gate`, so a
gate that was interrupted goes on. Exit status 1 when the candidate is refused; the manifest is then untouched.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from reflex.checks import check_limit, check_not_negative
from reflex.errors import (
    ConfigError,
    MissingAssetError,
    MissingDataError,
    RecordError,
)
from reflex.readouts.base import head_weights

if TYPE_CHECKING:
    import pandas as pd

    from reflex.benchmarks.base import Suite
    from reflex.metrics.gate import Judgement
    from reflex.tracking.record import RunRecord

log = logging.getLogger(__name__)


@dataclass
class GateConfig:
    """margin: how much worse (NLL in nats, accuracy as a share) a candidate may be on any set.

    suites: benchmarks (files of conf/benchmark) that are asked; one whose data is not here is left out and
    named. limit: rows of each set. name: folder in releases/ for a run that is no release yet.
    """

    margin: float = 0.05
    suites: list[str] = field(
        default_factory=lambda: ["external", "tickets", "human_ratings", "question_sensitivity"]
    )
    limit: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_not_negative("gate.margin", self.margin)
        check_limit("gate.limit", self.limit)


@dataclass
class Gate:
    """Everything it needs is in `gate.*` and `run`."""

    _target_: str = "reflex.tasks.gate.Gate"
    name: str = "gate"
    batch_tokens: int | None = None

    def run(self, cfg: DictConfig) -> int:
        """Prints each check and the verdict. Raises ConfigError, RecordError, BackboneError, DataError."""
        from hydra.core.hydra_config import HydraConfig

        from reflex.build import to_object
        from reflex.loading import run_folder
        from reflex.stable import (
            entry_for,
            read_stable,
            release_folder,
            stable_folder,
            write_stable,
        )
        from reflex.tracking.record import finished_local

        if cfg.run is None:
            raise ConfigError(
                "task=gate needs a candidate: run=RUN (a release folder or a recorded run)"
            )
        config: GateConfig = to_object(cfg.gate)
        profile = HydraConfig.get().runtime.choices["profile"]
        folder = run_folder(cfg.run, Path(cfg.runs_dir))
        record = finished_local(folder)
        check_servable(folder, record)
        current = stable_folder(profile) if read_stable(profile) else None
        if current is not None and current[1].get("run") == record.hash:
            print(f"run {record.hash[:16]} is stable for profile={profile} already")
            return 0
        suites, missing = load_suites(config)
        kept = Path(cfg.runs_dir) / "gate"
        candidate = self._answers(folder, record, suites, kept)
        evidence: dict[str, Any] = {
            "margin": config.margin,
            "limit": config.limit,
            "left_out": missing,
            "suites": {name: _suite_facts(suite) for name, suite in suites.items()},
            "measured": {name: _measured(frame, cfg.seed) for name, frame in candidate.items()},
            "against": None,
            "checks": [],
        }
        for name, reason in missing.items():
            print(f"left out: {name} ({reason})")
        if current is None:
            print(f"first entry for profile={profile}: nothing to compare with")
        else:
            before = finished_local(current[0])
            stable = self._answers(current[0], before, suites, kept)
            judgement = judged(suites, stable, candidate, config.margin, cfg.seed)
            tell(judgement)
            if not judgement.passed:
                return 1
            evidence |= {
                "against": before.hash,
                "checks": [check.to_dict() for check in judgement.checks],
            }
        write_stable(
            profile, entry_for(release_folder(folder, record, config.name), record, evidence)
        )
        print(f"stable for profile={profile}: run {record.hash[:16]}")
        return 0

    def _answers(
        self, folder: Path, record: RunRecord, suites: dict[str, Suite], kept: Path
    ) -> dict[str, pd.DataFrame]:
        """Predictions of each suite, asked where they are not kept from an earlier try."""
        from reflex.build import build_decider
        from reflex.evaluation.suite import run_suite
        from reflex.files import write_atomic
        from reflex.loading import check_loaded, recorded_config
        from reflex.release import hashes_of
        from reflex.tasks.cells import free_memory
        from reflex.tracking.predictions import predictions_bytes, read_predictions

        files = {
            name: kept / f"{answers_key(folder, suite)}.parquet" for name, suite in suites.items()
        }
        tried = {name: kept_answers(file) for name, file in files.items()}
        found = {name: frame for name, frame in tried.items() if frame is not None}
        if todo := [name for name in files if name not in found]:
            decider = build_decider(recorded_config(folder))
            check_loaded(decider, record.hash[:16], hashes_of(record))
            for name in todo:
                log.info("%s: asking %s", record.hash[:16], name)
                answered = run_suite(decider, suites[name].rows, self.batch_tokens).predictions
                write_atomic(files[name], predictions_bytes(answered))
                found[name] = read_predictions(files[name])
            del decider
            free_memory()
        return {name: found[name] for name in files}


# -- what may be a candidate -----------------------------------------------------------------------


def check_servable(folder: Path, record: RunRecord) -> None:
    """Raise ConfigError for a run whose weights lie elsewhere: the manifest could not pin them."""
    from reflex.release import check_backbone, manifest_of

    if manifest_of(folder) is not None:
        return
    if record.config["backbone"].get("adapter") or head_weights(record.config["readout"]):
        raise ConfigError(
            f"run {record.hash[:16]}: its adapter or heads lie outside its folder; put them together "
            "first with task=release, and give run=<that folder>"
        )
    if record.config["calibration"].get("path"):
        raise ConfigError(
            f"run {record.hash[:16]}: its calibration lies outside its folder; put them together first "
            "with task=release, or evaluate with the calibration fitted in the run"
        )
    check_backbone(record)


# -- suites and what is kept -----------------------------------------------------------------------


def load_suites(config: GateConfig) -> tuple[dict[str, Suite], dict[str, str]]:
    """The suites that are here, each with the rows that figures are over, and for the others why not.

    Raises ConfigError when none is, and DataError for one that is here and broken: a gate without it is none.
    """
    from hydra.utils import instantiate

    from reflex.benchmarks.base import measured
    from reflex.loading import compose
    from reflex.messages import one_line

    suites: dict[str, Suite] = {}
    missing: dict[str, str] = {}
    for name in config.suites:
        benchmark = compose([f"benchmark={name}"]).benchmark  # a name that is none raises here
        if config.limit is not None:
            benchmark.limit = config.limit
        try:
            suite = instantiate(benchmark).load()
        except (MissingDataError, MissingAssetError) as error:
            missing[name] = one_line(error)
            continue
        # What a temperature may have been fitted on is no evidence for it.
        suites[name] = replace(suite, rows=measured(suite.rows))
    if not suites:
        raise ConfigError(f"gate.suites={config.suites}: none of them is here: {missing}")
    return suites, missing


def kept_answers(file: Path) -> pd.DataFrame | None:
    """Predictions of an earlier try; None where there are none that can be read."""
    from reflex.tracking.predictions import read_predictions

    if not file.is_file():
        return None
    try:
        return read_predictions(file)
    except RecordError:
        log.warning("%s: cannot be read; asked again", file)
        return None


def answers_key(folder: Path, suite: Suite) -> str:
    """What predictions of a suite depend on, as the name they are kept under."""
    from reflex.assets import sha256_of
    from reflex.data.rows import rows_sha256
    from reflex.tasks.identity import NUMERICS, digest
    from reflex.tracking.environment import HASHED_PACKAGES, package_versions

    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix == ".json")
    own = [[path.name, sha256_of(path)] for path in files]
    packages = package_versions(HASHED_PACKAGES)
    return digest([own, rows_sha256(suite.rows), NUMERICS, packages])[:24]


def _suite_facts(suite: Suite) -> dict[str, Any]:
    from reflex.data.rows import items_sha256, rows_sha256

    data = {"data_sha256": rows_sha256(suite.rows), "items_sha256": items_sha256(suite.rows)}
    return {"rows": len(suite.rows), **data}


def _measured(frame: pd.DataFrame, seed: int) -> dict[str, Any]:
    from reflex import metrics

    found = metrics.compute(frame, seed)
    return {
        name: {key: found[name].get(key) for key in ("value", "n", "low", "high")}
        for name in ("nll", "accuracy", "brier")
        if name in found
    }


def judged(
    suites: dict[str, Suite],
    stable: dict[str, pd.DataFrame],
    candidate: dict[str, pd.DataFrame],
    margin: float,
    seed: int,
) -> Judgement:
    """The rule of `reflex.metrics.gate` on the predictions of both, by suite."""
    from reflex.metrics.gate import judge

    pairs = {
        name: suite.facts["question_pairs"]
        for name, suite in suites.items()
        if "question_pairs" in suite.facts
    }
    frames = {name: (stable[name], candidate[name]) for name in suites}
    return judge(frames, pairs, margin, seed)


def tell(judgement: Judgement) -> None:
    """One line for each check: what it was, what it is, and whether that is allowed; then what refuses it."""
    width = max((len(check.set) for check in judgement.checks), default=0)
    for check in judgement.checks:
        d = check.difference
        word = "better" if check.better else "within the margin" if check.allowed else "not allowed"
        print(
            f"{check.set:{width}}  {check.metric:16} {d.baseline:8.4f} → {d.candidate:8.4f}  "
            f"{d.value:+.4f} ({d.interval}), n {d.n}: {word}"
        )
    for reason in judgement.reasons:
        print(f"refused: {reason}")
