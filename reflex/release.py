"""Release folders: everything a served model needs in one place, with a hash of every file.

`task=release` writes one (reflex/tasks/release.py). Whoever loads a folder with a `manifest.json` calls
`released`: it refuses a folder whose files are not the ones that were released, and points the recorded
configuration at the files in the folder, wherever it lies now. Imports no torch.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflex.assets import sha256_of
from reflex.errors import ConfigError, RecordError

if TYPE_CHECKING:
    from reflex.tracking.record import RunRecord

MANIFEST = "manifest.json"
SCHEMA = 1


def manifest_of(folder: Path) -> dict[str, Any] | None:
    """The folder's manifest, None when it is no release. Raises RecordError when it cannot be read."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        files = dict(manifest["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(
            f"{path}: not a release manifest ({error}); fetch the release again"
        ) from None
    if manifest.get("schema") != SCHEMA:
        raise RecordError(f"{path}: schema {manifest.get('schema')!r}, this version reads {SCHEMA}")
    return {**manifest, "files": files}


def verify(folder: Path, manifest: dict[str, Any]) -> None:
    """Raise RecordError naming the first file that is missing or not what was released."""
    for name, wanted in sorted(manifest["files"].items()):
        path = folder / name
        # By its name alone: the hub's cache keeps every file as a link to where its content lies.
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise RecordError(f"{folder / MANIFEST}: {name} lies outside the release")
        if not path.is_file():
            raise RecordError(f"{folder}: {name} is missing; fetch the release again")
        if sha256_of(path) != wanted:
            raise RecordError(
                f"{path}: not the file that was released (its sha256 differs from {MANIFEST}); "
                "not loaded. Fetch the release again"
            )


def released(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """`config` for this folder: unchanged for a plain run; for a verified release with the paths of its
    parts set to the files here. Raises RecordError."""
    manifest = manifest_of(folder)
    if manifest is None:
        return config
    verify(folder, manifest)
    found = copy.deepcopy(config)
    for key, name in manifest["parts"].items():
        node = found
        *groups, last = key.split(".")
        for group in groups:
            node = node.setdefault(group, {})
        node[last] = str(folder / name)
    return found


def file_hashes(folder: Path) -> dict[str, str]:
    """sha256 of every file of `folder`, by its path there."""
    return {
        path.relative_to(folder).as_posix(): sha256_of(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def hashes_of(record: RunRecord) -> dict[str, str | None]:
    """What has to be loaded for it to be what the record measured (see `loading.check_loaded`)."""
    weights = {name: record.backbone.get(name) for name in ("weights_sha256", "adapter_sha256")}
    return {**weights, "prompt_hash": record.prompt_hash}


def check_backbone(record: RunRecord) -> None:
    """Raise ConfigError for a run whose backbone no other machine could load."""
    source = record.config["backbone"]["source"]
    if source in ("folder", "gguf"):
        raise ConfigError(
            f"run {record.hash[:16]}: backbone.source={source} exists only on this machine; the weights "
            "under a release or a stable run come from a registry or the hub"
        )
