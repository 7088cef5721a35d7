"""`task=evaluate`: a suite through the one forward, to item-level predictions, metrics and a record."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.utils import instantiate
from omegaconf import DictConfig

from reflex.messages import one_line, say
from reflex.tasks import outcome
from reflex.tasks.cells import (
    cell_folder,
    cell_lock,
    clear_leftovers,
    forget_failure,
    free_memory,
    record_failure,
)
from reflex.tasks.facts import cell_facts, load_suite
from reflex.tasks.identity import NUMERICS, run_identity

if TYPE_CHECKING:
    import pandas as pd

    from reflex.benchmarks.base import Suite
    from reflex.tracking.record import RunIdentity

log = logging.getLogger(__name__)


@dataclass
class Evaluate:
    """`batch_tokens`: unique tokens of the requests that go through one forward."""

    _target_: str = "reflex.tasks.evaluate.Evaluate"
    name: str = "evaluate"
    batch_tokens: int = 8192

    def run(self, cfg: DictConfig) -> int:
        """Run the cell unless its record is already there. Returns 1 if the cell failed.

        A mistake found before the cell is identified raises ReflexError; later failures are recorded.
        """
        from reflex.tracking.record import is_finished, join_sweep

        suite, identity, folder = self.prepare(cfg)
        with cell_lock(folder, identity.name):
            outcome.ran(identity.group, folder)
            forget_failure(cfg)
            if is_finished(folder) and not cfg.force:
                join_sweep(folder, identity)
                log.info("%s: already recorded in %s", identity.name, folder)
                return 0
            clear_leftovers(folder)
            return self._run(cfg, suite, identity, folder)

    def prepare(self, cfg: DictConfig) -> tuple[Suite, RunIdentity, Path]:
        """The suite, which cell this is, and the folder it is recorded in. Loads no weights."""
        suite = load_suite(cfg)
        identity = run_identity(cfg, cell_facts(cfg, suite))
        return suite, identity, cell_folder(cfg, identity)

    def failed(self, cfg: DictConfig, error: Exception) -> None:
        """Record a sweep's cell for which `run` raised: it was not identified yet."""
        record_failure(cfg, error)

    def _run(self, cfg: DictConfig, suite: Suite, identity: RunIdentity, folder: Path) -> int:
        from reflex.build import to_object
        from reflex.tasks.fitting import write_files
        from reflex.tracking.environment import git_state, hardware, now_utc, package_versions
        from reflex.tracking.record import RunRecord, other_sweeps, write_record
        from reflex.tracking.wandb_run import wandb_run

        started, clock = now_utc(), time.perf_counter()
        common: dict[str, Any] = {
            **identity.model_dump(),
            "git": git_state(),
            "packages": package_versions(),
            "numerics": NUMERICS,
            "started": started,
            "also": other_sweeps(folder, identity),
        }
        with wandb_run(to_object(cfg.tracker), identity, folder) as tracker:
            try:
                measured, predictions, files = self._measure(cfg, suite, tracker.logger)
                write_files(folder, files)
                record = RunRecord(status="finished", **measured, **common, finished="")
            except Exception as error:
                predictions = None
                record = RunRecord(status="failed", error=one_line(error), **common, finished="")
                say(error, f"{identity.name} failed: ")
            finally:
                free_memory()
            record = record.model_copy(
                update={
                    "finished": now_utc(),
                    "wall_s": round(time.perf_counter() - clock, 3),
                    "hardware": hardware(),
                    "wandb": tracker.info,
                }
            )
            tracker.log_result(write_record(folder, record, predictions))
        if record.status == "failed":
            return 1
        decisions, seconds = record.cost["decisions"], record.wall_s
        log.info(
            "%s: %d decisions in %.1f s, recorded in %s", identity.name, decisions, seconds, folder
        )
        return 0

    def _measure(
        self, cfg: DictConfig, suite: Suite, logger: Any
    ) -> tuple[dict[str, Any], pd.DataFrame, dict[str, bytes]]:
        """Everything a finished record says beyond its identity, the predictions, and further files."""
        from reflex import metrics
        from reflex.build import build_decider, build_uncalibrated
        from reflex.data.rows import items_sha256, rows_sha256
        from reflex.evaluation.splits import metrics_by
        from reflex.evaluation.suite import run_suite
        from reflex.metrics import sensitivity
        from reflex.tasks.fitting import settle

        calibration = instantiate(cfg.calibration)
        decider = (build_uncalibrated if calibration.fits else build_decider)(cfg)
        result = run_suite(decider, suite.rows, self.batch_tokens, logger)
        data = {"data_sha256": rows_sha256(suite.rows), "items_sha256": items_sha256(suite.rows)}
        fitted_on = {"suite": suite.name, **data}
        settled = settle(
            cfg, calibration, decider, suite.rows, result.predictions, fitted_on, self.batch_tokens
        )
        predictions = settled.measured
        facts = asdict(decider.model.backbone.facts)
        pairs = suite.facts.get("question_pairs", ())
        return (
            {
                "backbone": {**facts, "strategy": cfg.forward.strategy, "used": result.strategies},
                "prompt_hash": decider.model.style.fingerprint(),
                "data": {
                    "suite": suite.name,
                    "sha256": data["data_sha256"],
                    "items_sha256": data["items_sha256"],
                    "n_rows": len(suite.rows),
                    "facts": suite.facts,
                    **({"calibration": settled.facts} if settled.facts else {}),
                },
                "metric_definitions": {**metrics.DEFINITIONS, **sensitivity.DEFINITIONS},
                "metrics": {
                    **metrics.compute(predictions, cfg.seed),
                    **sensitivity.compute(predictions, pairs),
                },
                "by": metrics_by(predictions, suite.facts, cfg.seed),
                "cost": result.cost(decider),
            },
            predictions,
            settled.files,
        )
