"""One finished W&B run per cell. The record is the truth: whatever fails here costs one warning.

Imports of wandb and Lightning happen when a run is opened, so the config dataclass is free.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reflex.errors import RecordError, brief
from reflex.tracking.config import WandbTracker, has_account, project_of, resolve_mode
from reflex.tracking.wandb_payload import run_config, summary_of

if TYPE_CHECKING:
    import pandas as pd
    from lightning.pytorch.loggers import WandbLogger

    from reflex.tracking.record import RunIdentity, RunRecord, WandbInfo

__all__ = ["Tracker", "wandb_run"]

log = logging.getLogger(__name__)

RELIABILITY_BINS = 15


_unreachable: str | None = None
"""Why going online failed in this process: later cells of a sweep do not wait for it again."""

_warned: set[str] = set()


@contextmanager
def wandb_run(
    config: WandbTracker | None, identity: RunIdentity, run_dir: Path | str
) -> Iterator[Tracker]:
    """Open the cell's W&B run and finish it however the block ends.

    The block gives `tracker.logger` to Lightning, writes the record with `tracker.info`, and then
    calls `tracker.log_result`. An exception in the block passes through and marks the run failed; a
    failure of W&B never raises: it warns once and ends up in the record's `wandb.error`.
    Raises ConfigError for a `WANDB_MODE` that does not exist.
    """
    mode = "disabled" if config is None else resolve_mode(config)
    tracker = Tracker(None if mode == "disabled" else config, identity, Path(run_dir))
    if mode != "disabled":
        tracker.open("online" if mode == "online" else "offline")
    try:
        yield tracker
    except BaseException:
        tracker.failed = True
        raise
    finally:
        tracker.close()


class Tracker:
    """A cell's run in W&B, or the absence of one: every method works in both cases.

    `info` is what the record keeps (None when tracking is off), `logger` is for
    `Trainer(logger=tracker.logger or False)`.
    """

    def __init__(self, config: WandbTracker | None, identity: RunIdentity, run_dir: Path) -> None:
        self.config = config
        self.identity = identity
        self.run_dir = run_dir
        self.info: WandbInfo | None = None
        self.logger: WandbLogger | None = None
        self.failed = False
        self._run: Any = None
        self._recorded: WandbInfo | None = None
        self._logged = False

    def open(self, mode: Literal["online", "offline"]) -> None:
        """Start the run; an online one that cannot start becomes an offline one."""
        global _unreachable
        from reflex.tracking.record import WandbInfo

        self.info = WandbInfo(mode=mode)
        reason = None
        if mode == "online":
            reason = _unreachable or (None if has_account() else "no API key (wandb login)")
            if reason is None:
                try:
                    self._start("online")
                except Exception as error:
                    reason = _unreachable = _line(error)
                    _reset_service()
            if reason is not None:
                self.info = WandbInfo(mode="offline")
                self._trouble(f"not online: {reason}; kept offline, `wandb sync` uploads it later")
        if self._run is None:
            try:
                self._start("offline")
            except Exception:
                # A service that died under an earlier cell is replaced once.
                _reset_service()
                try:
                    self._start("offline")
                except Exception as error:
                    self._trouble(f"no run: {_line(error)}")

    def log_result(self, record: RunRecord, extra_files: Mapping[str, Path] | None = None) -> None:
        """Send a written record: numbers as summary, reliability table and plot, one artifact.

        Call it after `write_record`, whose files are what is sent. `extra_files` (name in the
        artifact → file or folder: weights, heads, calibration) join the record and its predictions.
        """
        self._logged, self._recorded = True, record.wandb
        self.failed = self.failed or record.status == "failed"
        if self._run is None:
            return
        from reflex.tracking.predictions import read_predictions

        try:
            frame = None
            if record.predictions is not None:
                frame = read_predictions(self.run_dir)
            summary = summary_of(record, frame)
            self._run.summary.update(summary)
            if frame is not None:
                self._log_reliability(frame, summary.get("word"))
            self._log_record(record, extra_files or {})
        except Exception as error:
            self._trouble(f"result not sent: {_line(error)}")

    def log_training(self, files: Mapping[str, Path]) -> None:
        """Send what a training made (name in the artifact → file or folder) as the run's artifact."""
        if self._run is None:
            return
        try:
            self._log_artifact("trained", {}, files)
        except Exception as error:
            self._trouble(f"trained files not sent: {_line(error)}")

    def close(self) -> None:
        """Finish the run; where W&B failed after the record was written, the record says so."""
        from reflex.tracking.record import update_wandb

        if self._run is not None:
            try:
                self._run.finish(exit_code=1 if self.failed else 0)
            except Exception as error:
                self._trouble(f"run not finished: {_line(error)}")
                _reset_service()
            self._run, self.logger = None, None
        if self._logged and self.info != self._recorded:
            try:
                update_wandb(self.run_dir, self.info)
            except RecordError as error:
                log.warning("%s", error)

    def _start(self, mode: Literal["online", "offline"]) -> None:
        import wandb
        from lightning.pytorch.loggers import WandbLogger

        assert self.config is not None
        assert self.info is not None
        who = self.identity
        folder = Path(os.environ.get("WANDB_DIR") or self.run_dir.parent)
        folder.mkdir(parents=True, exist_ok=True)
        run_id = secrets.token_hex(6)
        settings = wandb.Settings(
            silent=True,
            console="off",
            init_timeout=self.config.init_timeout,
            finish_timeout=self.config.finish_timeout,
            finish_timeout_raises=True,
        )
        tags = [*map(str, self.config.tags), who.experiment, *_switches(who)]
        # Quiet from here on: `silent` of the run alone still lets wandb report the key it found.
        wandb.setup(settings=wandb.Settings(silent=True))
        try:
            run = wandb.init(
                project=project_of(self.config.project, who.debug),
                entity=self.config.entity,
                # An id of our own and `create_new`: no cell can slip into the run of another one.
                id=run_id,
                reinit="create_new",
                group=who.group,
                job_type=who.task,
                name=who.name,
                tags=list(dict.fromkeys(tag[:64] for tag in tags if tag)),
                config=run_config(who),
                dir=str(folder),
                mode=mode,
                settings=settings,
            )
        except Exception:
            # What did not start leaves a folder that would look like a run of this cell.
            for started in (folder / "wandb").glob(f"*run-*-{run_id}"):
                shutil.rmtree(started, ignore_errors=True)
            raise
        self._run = run
        self.info = self.info.model_copy(update={"id": run.id, "mode": mode})
        self.logger = WandbLogger(experiment=run, save_dir=str(self.run_dir))

    def _log_reliability(self, predictions: pd.DataFrame, word: str | None) -> None:
        import wandb

        from reflex.metrics.ece import reliability

        frame = reliability(predictions, bins=RELIABILITY_BINS)
        if frame.empty:
            return
        table = wandb.Table(dataframe=frame)
        title = f"Reliability ({word})" if word else "Reliability"
        plot = wandb.plot.line(table, "confidence", "accuracy", title=title)
        self._run.log({"reliability": table, "reliability_plot": plot})

    def _log_record(self, record: RunRecord, extra_files: Mapping[str, Path]) -> None:
        from reflex.calibration.fitted import FILE
        from reflex.tracking.record import PREDICTIONS, RECORD

        names = [RECORD]
        if record.predictions is not None:
            names.append(PREDICTIONS)
            if (self.run_dir / FILE).is_file():  # a run that is served from here needs it
                names.append(FILE)
        self._log_artifact("run-record", {name: self.run_dir / name for name in names}, extra_files)

    def _log_artifact(
        self, kind: str, files: Mapping[str, Path], referenced: Mapping[str, Path]
    ) -> None:
        import wandb

        who = self.identity
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", f"{who.experiment or 'run'}-{who.hash[:12]}")
        artifact = wandb.Artifact(name, type=kind, metadata={"hash": who.hash})
        for inside, path in files.items():
            artifact.add_file(str(path), name=inside)
        for inside, path in referenced.items():
            # Weights are large: referenced where they are, not copied to the staging folder.
            if path.is_dir():
                artifact.add_dir(str(path), name=inside, policy="immutable")
            else:
                artifact.add_file(str(path), name=inside, policy="immutable")
        self._run.log_artifact(artifact)

    def _trouble(self, message: str) -> None:
        assert self.info is not None
        if self.info.error is None:
            self.info = self.info.model_copy(update={"error": message})
        if message not in _warned:
            _warned.add(message)
            log.warning("wandb: %s (the record is complete without it)", message)


def _switches(identity: RunIdentity) -> list[str]:
    pairs = {"debug": identity.debug, "limited": identity.limited}
    return [name for name, on in pairs.items() if on]


def _reset_service() -> None:
    # wandb keeps one service process per Python process; after it died or hung, only a teardown
    # lets the next cell have a new one.
    import wandb

    try:
        wandb.teardown()
    except Exception as error:
        log.debug("wandb.teardown: %s", error)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {brief(error)}" if str(error) else type(error).__name__
