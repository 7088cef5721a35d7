"""`releases/stable.json`: what `run=stable` means, per profile, pinned by hashes. Data, written by `task=gate`.

    {"laptop": {"path": "releases/frozen", "run": "<hash>", "released": "2026-01-31",
                "hashes": {"record_sha256": …, "weights_sha256": …, "adapter_sha256": …, "prompt_hash": …},
                "files": {"record.json": "<sha256>", …}, "gate": {what was checked}}}

`path` is relative to the folder that holds `releases/`. Imports no torch.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import filelock

from reflex.assets import sha256_of
from reflex.calibration.fitted import FILE as CALIBRATION
from reflex.errors import ConfigError, RecordError
from reflex.files import write_atomic, write_folder
from reflex.release import file_hashes, hashes_of
from reflex.tracking.record import RECORD, RunRecord, json_text, read_record

STABLE = Path("releases") / "stable.json"

KEPT = (RECORD, CALIBRATION)
"""What a recorded run without weights of its own needs to be served."""


def read_stable(profile: str) -> dict[str, Any] | None:
    """The entry of `profile`, None without one. Raises RecordError for a manifest that cannot be read."""
    entry = _read().get(profile)
    if entry is None:
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        raise RecordError(f"{STABLE}: no usable entry for profile={profile} (it has no path)")
    return entry


def stable_folder(profile: str) -> tuple[Path, dict[str, Any]]:
    """The verified folder of `profile`'s stable run, and its entry.

    Raises RecordError without an entry, or naming the first file that is missing or not what was released.
    """
    if not STABLE.is_file():
        raise RecordError(
            f"run=stable: no {STABLE} here; `python -m reflex.run task=gate run=…` writes it"
        )
    entry = read_stable(profile)
    if entry is None:
        raise RecordError(
            f"{STABLE}: no usable entry for profile={profile}; "
            f"`python -m reflex.run task=gate run=… profile={profile}` writes one"
        )
    folder = Path(entry["path"])
    if not folder.is_absolute():
        folder = STABLE.parent.parent / folder
    wanted = dict(entry.get("files") or {})
    if record_sha256 := dict(entry.get("hashes") or {}).get("record_sha256"):
        wanted[RECORD] = record_sha256
    for name, sha256 in sorted({RECORD: None, **wanted}.items()):
        if not (folder / name).is_file():
            raise RecordError(f"{STABLE}: {entry['path']} holds no {name}")
        if sha256 is not None and sha256_of(folder / name) != sha256:
            raise RecordError(f"{folder / name}: its sha256 is not the one in {STABLE}; not served")
    return folder, entry


def release_folder(folder: Path, record: RunRecord, name: str | None) -> Path:
    """The run's folder below `releases/`, relative to here; a plain run is copied there first.

    Raises ConfigError for a name that is taken by something else.
    """
    root = STABLE.parent
    if folder.resolve().is_relative_to(root.resolve()):
        return root / folder.resolve().relative_to(root.resolve())
    target = root / (name or f"{record.backbone.get('name', 'run')}-{record.hash[:8]}")
    if target.exists():
        if (target / RECORD).is_file() and read_record(target).hash == record.hash:
            return target
        raise ConfigError(
            f"gate.name={target.name}: {target} holds another run; choose another name"
        )
    with write_folder(target) as work:
        for each in KEPT:
            if (folder / each).is_file():
                shutil.copyfile(folder / each, work / each)
    return target


def entry_for(folder: Path, record: RunRecord, gate: dict[str, Any]) -> dict[str, Any]:
    """The entry that pins every file of `folder` (a release, relative to here) and what is loaded with it."""
    files = file_hashes(folder)
    return {
        "path": folder.as_posix(),
        "run": record.hash,
        "released": record.finished[:10],
        "hashes": {"record_sha256": files[RECORD], **hashes_of(record)},
        "files": files,
        "gate": gate,
    }


def write_stable(profile: str, entry: dict[str, Any]) -> None:
    """Replace `profile`'s entry; the others stay. The file is whole at every moment."""
    STABLE.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(STABLE.with_name(".stable.lock")):
        entries = {**_read(), profile: entry}
        text = json_text({name: entries[name] for name in sorted(entries)})
        write_atomic(STABLE, text.encode())


def _read() -> dict[str, Any]:
    if not STABLE.is_file():
        return {}
    try:
        entries = json.loads(STABLE.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"{STABLE}: cannot be read ({error}); restore it from git") from None
    if not isinstance(entries, dict):
        raise RecordError(f"{STABLE}: not an object of profiles; restore it from git")
    return entries
