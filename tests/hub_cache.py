"""Repositories in the hub's own cache layout, so that its real client serves them without a network."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def put(
    cache: Path,
    repository: str,
    files: Mapping[str, bytes],
    kind: str = "model",
    revision: str = "main",
) -> Path:
    """The snapshot's folder: every file in it is a link to a blob named by its content."""
    root = cache / f"{kind}s--{repository.replace('/', '--')}"
    snapshot = root / "snapshots" / COMMIT
    ref = root / "refs" / revision
    ref.parent.mkdir(parents=True, exist_ok=True)
    ref.write_text(COMMIT)
    (root / "blobs").mkdir(exist_ok=True)
    for name, data in files.items():
        blob = root / "blobs" / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        link = snapshot / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
    return snapshot
