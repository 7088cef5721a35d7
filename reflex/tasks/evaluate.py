"""`task=evaluate`: a suite through the one forward, to item-level predictions, metrics and a record."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass
from functools import partial
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
from reflex.tasks.facts import cell_facts, load_suite, told_facts
from reflex.tasks.identity import NUMERICS, run_identity

if TYPE_CHECKING:
    import pandas as pd

    from reflex.benchmarks.base import Suite
    from reflex.tracking.record import RunIdentity

log = logging.getLogger(__name__)


@dataclass
class Evaluate:
    """`batch_tokens`: unique tokens of the requests that go through one forward; null: 8,192."""

    _target_: str = "reflex.tasks.evaluate.Evaluate"
    name: str = "evaluate"
    batch_tokens: int | None = None

    def run(self, cfg: DictConfig) -> int:
        """Run the cell unless its record is already there. Returns 1 if the cell failed.

        A mistake found before the cell is identified raises ReflexError; later failures are recorded.
        """
        from reflex.tracking.record import is_finished, join_sweep, read_record, update_facts

        suite, identity, folder = self.prepare(cfg)
        with cell_lock(folder, identity.name):
            outcome.ran(identity.group, folder)
            forget_failure(cfg)
            if is_finished(folder) and not cfg.force:
                join_sweep(folder, identity)
                # Words and notes may be corrected while the rows stay.
                update_facts(folder, told_facts(suite, read_record(folder)))
                log.info("%s: already recorded in %s", identity.name, folder)
                return 0
            clear_leftovers(folder)
            return self._run(cfg, suite, identity, folder)

    def prepare(self, cfg: DictConfig) -> tuple[Suite, RunIdentity, Path]:
        """The suite, which cell this is, and the folder it is recorded in. Loads no weights."""
        from reflex.remote.remote import remote_model

        suite = self.read_suite(cfg)
        if remote_model(cfg):
            from reflex.tasks.remote import remote_identity

            identity = remote_identity(cfg, suite)
        else:
            identity = run_identity(cfg, cell_facts(cfg, suite))
        return suite, identity, cell_folder(cfg, identity)

    def read_suite(self, cfg: DictConfig) -> Suite:
        """What is measured, and fitted on where the calibration fits."""
        return load_suite(cfg)

    failed = staticmethod(record_failure)
    """Records a sweep's cell for which `run` raised: it was not identified yet."""

    def _run(self, cfg: DictConfig, suite: Suite, identity: RunIdentity, folder: Path) -> int:
        from reflex.build import to_object
        from reflex.remote.remote import remote_model
        from reflex.tasks.fitting import remove_others
        from reflex.tasks.trained_files import trained_files
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
                measured, predictions, files = self._measure(cfg, suite, folder, tracker.logger)
                record = RunRecord(status="finished", **measured, **common, finished="")
            except Exception as error:
                predictions, files = None, {}
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
            record = write_record(folder, record, predictions, files)
            remove_others(folder, files)
            sent = record.status == "finished" and not remote_model(cfg)
            tracker.log_result(record, trained_files(cfg) if sent else None)
        if record.status == "failed":
            return 1
        decisions, seconds = record.cost["decisions"], record.wall_s
        log.info(
            "%s: %d decisions in %.1f s, recorded in %s", identity.name, decisions, seconds, folder
        )
        return 0

    def _measure(
        self, cfg: DictConfig, suite: Suite, folder: Path, logger: Any
    ) -> tuple[dict[str, Any], pd.DataFrame, dict[str, bytes]]:
        """Everything a finished record says beyond its identity, the predictions, and further files."""
        from reflex.build import build_decider, build_uncalibrated
        from reflex.evaluation.rows import routes
        from reflex.evaluation.suite import run_suite
        from reflex.remote.remote import remote_model
        from reflex.tasks.fitting import Raw, read_content_free, recorded_scores, settle
        from reflex.tasks.numbers import data_facts, finished

        if remote_model(cfg):
            from reflex.tasks.remote import measure

            return measure(cfg, suite, folder)
        calibration = instantiate(cfg.calibration)
        raw, content_free = recorded_scores(cfg, suite, calibration), None
        if raw is None:
            decider = (build_uncalibrated if calibration.fits else build_decider)(cfg)
            result = run_suite(decider, suite.rows, self.batch_tokens, logger)
            facts = asdict(decider.model.backbone.facts)
            facts |= {"strategy": cfg.forward.strategy, "used": result.strategies}
            facts |= routes(result.predictions)
            prompt_hash = decider.model.style.fingerprint()
            raw = Raw(result.predictions, facts, prompt_hash, result.cost(decider))
            content_free = partial(
                read_content_free, calibration, decider, suite.rows, self.batch_tokens
            )
        data = data_facts(suite)
        fitted_on = {
            "suite": suite.name,
            "data_sha256": data["sha256"],
            "items_sha256": data["items_sha256"],
        }
        settled = settle(cfg, calibration, raw, fitted_on, content_free)
        if settled.facts:
            data["calibration"] = settled.facts
        return finished(raw, settled, suite, data, cfg.seed)
