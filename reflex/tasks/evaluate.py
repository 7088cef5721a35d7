"""`task=evaluate`: a suite through the one forward, to item-level predictions, metrics and a record."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
from hydra.utils import instantiate
from omegaconf import DictConfig

from reflex.errors import ReflexError
from reflex.tasks import outcome
from reflex.tasks.identity import NUMERICS, run_identity

if TYPE_CHECKING:
    import pandas as pd

    from reflex.benchmarks.base import Suite
    from reflex.decider import Decider
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
        from reflex.tracking.record import is_finished

        suite = instantiate(cfg.benchmark).load()
        identity = run_identity(cfg, self.facts(cfg, suite))
        outcome.groups.append(identity.group)
        folder = Path(cfg.runs_dir) / identity.hash[:16]
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / ".lock"):
            if is_finished(folder) and not cfg.force:
                log.info("%s: already recorded in %s", identity.name, folder)
                return 0
            return self._run(cfg, suite, identity, folder)

    def facts(self, cfg: DictConfig, suite: Suite) -> dict[str, Any]:
        """What the configuration alone does not pin: weights, dtype, data. No weights are loaded."""
        from reflex.backbones.dtype import resolve_dtype
        from reflex.backbones.locate import locate
        from reflex.build import to_object
        from reflex.data.rows import items_sha256, rows_sha256
        from reflex.prompts.orders import check_orders

        check_orders(to_object(cfg.orders))
        files = locate(to_object(cfg.backbone))
        return {
            "weights": files.weights_sha256,
            "adapter": files.adapter_sha256,
            "dtype": resolve_dtype(to_object(cfg.device)),
            "prompt": instantiate(cfg.prompt).fingerprint(),
            "data": rows_sha256(suite.rows),
            "items": items_sha256(suite.rows),
        }

    def _run(self, cfg: DictConfig, suite: Suite, identity: RunIdentity, folder: Path) -> int:
        from reflex.build import to_object
        from reflex.tracking.environment import git_state, hardware, now_utc, package_versions
        from reflex.tracking.record import RunRecord, write_record
        from reflex.tracking.wandb_run import wandb_run

        started, clock = now_utc(), time.perf_counter()
        common: dict[str, Any] = {
            **identity.model_dump(),
            "git": git_state(),
            "packages": package_versions(),
            "numerics": NUMERICS,
            "started": started,
        }
        with wandb_run(to_object(cfg.tracker), identity, folder) as tracker:
            try:
                measured, predictions = self._measure(cfg, suite, tracker.logger)
                record = RunRecord(status="finished", **measured, **common, finished="")
            except (Exception, KeyboardInterrupt) as error:
                predictions = None
                record = RunRecord(
                    status="failed", error=one_line(error), **common, finished="", wandb=tracker.info
                )
                if isinstance(error, KeyboardInterrupt):
                    raise
                log.error("%s failed: %s", identity.name, record.error)
                if not isinstance(error, ReflexError):
                    log.debug("traceback", exc_info=error)
            record = record.model_copy(
                update={
                    "finished": now_utc(),
                    "wall_s": round(time.perf_counter() - clock, 3),
                    "hardware": hardware(),
                    "wandb": tracker.info,
                }
            )
            tracker.log_result(write_record(folder, record, predictions))
        return 0 if record.status == "finished" else 1

    def _measure(
        self, cfg: DictConfig, suite: Suite, logger: Any
    ) -> tuple[dict[str, Any], pd.DataFrame]:
        """Everything a finished record says beyond its identity, and the predictions."""
        from reflex import metrics
        from reflex.build import build_decider
        from reflex.data.rows import items_sha256, rows_sha256
        from reflex.evaluation.suite import run_suite

        decider = build_decider(cfg)
        result = run_suite(decider, suite.rows, self.batch_tokens, logger)
        predictions = result.predictions
        facts = asdict(decider.model.backbone.facts)
        return {
            "backbone": {**facts, "strategy": cfg.forward.strategy, "used": result.strategies},
            "prompt_hash": decider.model.style.fingerprint(),
            "data": {
                "suite": suite.name,
                "sha256": rows_sha256(suite.rows),
                "items_sha256": items_sha256(suite.rows),
                "n_rows": len(suite.rows),
                "facts": suite.facts,
            },
            "metric_definitions": metrics.DEFINITIONS,
            "metrics": metrics.compute(predictions, cfg.seed),
            "by": {
                column: metrics.compute_by(predictions, column, cfg.seed)
                for column in ("type", "family")
            },
            "cost": result.cost(decider),
        }, predictions


def record_failure(cfg: DictConfig, error: Exception) -> None:
    """A sweep's cell that failed before it could be identified: recorded under its configuration."""
    from reflex.tracking.environment import now_utc
    from reflex.tracking.record import RunRecord, write_record

    identity = run_identity(cfg, {"failed": one_line(error)})
    now = now_utc()
    record = RunRecord(
        status="failed", error=one_line(error), started=now, finished=now, **identity.model_dump()
    )
    write_record(Path(cfg.runs_dir) / identity.hash[:16], record)


def one_line(error: BaseException) -> str:
    """An error as one line; a class name in front unless it is one of ours."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ReflexError) else f"{type(error).__name__}: {text}"


