"""A cell's folder: its lock, what a killed try left there, and cells that fail before they have one."""

from __future__ import annotations

import gc
import logging
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock
from omegaconf import DictConfig, OmegaConf

from reflex.errors import RecordError
from reflex.loading import leaves
from reflex.messages import one_line
from reflex.tasks import outcome
from reflex.tasks.identity import apart, run_identity
from reflex.tracking.record import RunIdentity

log = logging.getLogger(__name__)


def cell_folder(cfg: DictConfig, identity: RunIdentity) -> Path:
    """`runs/<first 16 digits of the hash>`."""
    return Path(cfg.runs_dir) / identity.hash[:16]


@contextmanager
def cell_lock(folder: Path, name: str) -> Iterator[None]:
    """Hold the cell: a second process waits, and then finds it recorded. Raises RecordError."""
    lock = filelock.FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            log.info("%s: another process is running this cell; waiting for it", name)
            lock.acquire()
    except OSError as error:
        raise RecordError(
            f"runs_dir: {folder} cannot be written ({error.strerror or error}); "
            "choose another folder with REFLEX_RUNS"
        ) from error
    try:
        yield
    finally:
        lock.release()


def clear_leftovers(folder: Path) -> None:
    """Remove what a killed try wrote and never renamed. Only for who holds the lock."""
    for path in folder.glob(".*.tmp"):
        with suppress(OSError):
            path.unlink()


def record_failure(cfg: DictConfig, error: Exception) -> None:
    """Record a sweep's cell that failed before it could be identified, under its configuration."""
    from reflex.tracking.environment import git_state, now_utc
    from reflex.tracking.record import RunRecord, write_record

    identity = _unidentified(cfg)
    now = now_utc()
    record = RunRecord(
        status="failed",
        error=one_line(error),
        git=git_state(),
        started=now,
        finished=now,
        **identity.model_dump(),
    )
    folder = cell_folder(cfg, identity)
    write_record(folder, record)
    outcome.ran(identity.group, folder)


def forget_failure(cfg: DictConfig) -> None:
    """Remove what `record_failure` wrote for this configuration: it has come further now."""
    folder = cell_folder(cfg, _unidentified(cfg))
    if folder.is_dir():
        shutil.rmtree(folder, ignore_errors=True)


def _unidentified(cfg: DictConfig) -> RunIdentity:
    config = OmegaConf.to_container(cfg, resolve=False)
    assert isinstance(config, dict)
    # What its sweep's group leaves out too: a failure that another tracker met is the same cell's.
    own = {key: value for key, value in leaves(config) if not apart(key)}
    return run_identity(cfg, {"unidentified": own})


def free_memory() -> None:
    """Give a cell's model back before the next one is built."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
