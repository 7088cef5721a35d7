"""Files and folders that appear whole or not at all: written beside their place, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from reflex.errors import RecordError

ELSEWHERE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS)
"""Refusals that more space or another folder would end."""


def write_atomic(path: Path, data: bytes) -> None:
    """Write one file; see `write_atomic_all`."""
    write_atomic_all({path: data})


def write_atomic_all(contents: Mapping[Path, bytes]) -> None:
    """Write several files so that a full disk or a kill leaves no half-written one.

    Every file is complete on the disk under a temporary name in its own folder before the first is
    renamed; renames happen in the order given, so the last file is the sign that the others are
    there. Folders are made. Raises RecordError (one line) where the system refuses; the old files
    are then as they were.
    """
    staged: list[tuple[Path, Path]] = []
    current = Path()
    try:
        for path, data in contents.items():
            current = path
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            staged.append((temporary, path))
            with temporary.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        for temporary, path in staged:
            current = path
            os.replace(temporary, path)
        for folder in {path.parent for path in contents}:
            _sync_folder(folder)
    except OSError as error:
        raise not_written(current, error) from error
    finally:
        for temporary, _ in staged:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def not_written(path: Path, error: OSError) -> RecordError:
    """The refusal of a file of a run as one line with the way out."""
    way_out = "free space or choose another folder with REFLEX_RUNS, then "
    return RecordError(
        f"{path}: cannot be written ({error.strerror or error}); "
        f"{way_out if error.errno in ELSEWHERE else ''}run the same command again"
    )


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """A stream whose bytes are in `path` once the block has ended; after an error `path` is as it was.

    For what has its own words for a refusal, or is too large for `write_atomic`. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Return when the file's bytes are on the disk. Raises OSError."""
    with path.open("r+b") as stream:
        os.fsync(stream.fileno())


@contextlib.contextmanager
def write_folder(path: Path) -> Iterator[Path]:
    """An empty folder to fill, which then takes the place of `path`; after an error `path` is as it was.

    A kill between the two renames leaves the old folder beside its place, as `.<name>-….old`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    old = work.with_name(f"{work.name}.old")
    try:
        yield work
        for each in (work, *work.rglob("*")):  # a temporary folder is for its owner alone
            each.chmod(0o755 if each.is_dir() else 0o644)
        if path.exists():
            path.rename(old)
        work.rename(path)
    except BaseException:
        if old.exists():
            old.rename(path)
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def _sync_folder(folder: Path) -> None:
    # Makes the rename itself durable; some file systems refuse to open a folder, which costs only
    # that.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
