"""Files that appear whole or not at all: written beside their place, flushed to the disk, then
renamed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from reflex.errors import RecordError


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
        reason = error.strerror or str(error)
        raise RecordError(
            f"{current}: cannot be written ({reason}); free space or choose another folder with "
            "REFLEX_RUNS, then run the same command again"
        ) from error
    finally:
        for temporary, _ in staged:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    # Makes the rename itself durable; some file systems refuse to open a folder, which costs only
    # that.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
