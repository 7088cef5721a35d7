"""`run=<hub id>` and `run=wandb:…` end to end on stand-ins: the hub's own cache on disk, a W&B API object."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import huggingface_hub
import pytest
from huggingface_hub import constants, errors
from omegaconf import OmegaConf

from reflex.build import build_decider
from reflex.calibration.temperature import Temperature
from reflex.errors import RecordError
from reflex.loading import compose
from reflex.serve import main
from reflex.serving.fetch import FETCHED
from reflex.serving.source import checked, resolve
from reflex.tracking.record import RunRecord
from tests.calibration_frames import frame
from tests.hub_cache import put
from tests.test_serving_source import BASE, record_of, write_record

REQUEST = {"state": "x", "questions": {"q": {"type": "noul", "instructions": "?"}}}


@pytest.fixture(scope="module")
def record() -> RunRecord:
    return record_of()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts a repository into the hub's cache."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return partial(put, tmp_path / "hub")


def calibration() -> bytes:
    return json.dumps(Temperature().fit(frame(60, temperature=2.0)).to_json()).encode()


def pushed(record: RunRecord, **files: bytes) -> dict[str, bytes]:
    """A release folder: record, parts, and the manifest that pins them."""
    found = {"record.json": record.to_json().encode(), **files}
    manifest = {
        "schema": 1,
        "parts": {},
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in found.items()},
    }
    return {**found, "manifest.json": json.dumps(manifest).encode()}


def test_a_run_pushed_to_the_hub_is_served(hub: Any, tmp_runs: Path, record: RunRecord) -> None:
    hub("some-lab/run", {"record.json": record.to_json().encode()})
    cfg, served = resolve(["run=some-lab/run", "orders=four"])
    assert served.source.run == record.hash
    assert (cfg.backbone.name, cfg.orders.permutations) == ("tiny_llama", 4)
    cfg, served = resolve(["run=some-lab/run"])
    decider = checked(build_decider(cfg), served)
    assert 0 < decider.answer(REQUEST).answers["q"].noul < 1  # type: ignore[union-attr]


def test_a_release_in_the_hubs_cache_is_verified_through_its_links(
    hub: Any, tmp_runs: Path, record: RunRecord
) -> None:
    snapshot = hub("some-lab/release", pushed(record, **{"adapter/weights.bin": b"1234"}))
    assert (snapshot / "record.json").is_symlink()
    assert resolve(["run=some-lab/release"])[1].source.run == record.hash
    (snapshot / "adapter/weights.bin").resolve().write_bytes(b"4321")
    with pytest.raises(RecordError, match=r"weights\.bin: not the file that was released"):
        resolve(["run=some-lab/release"])


def test_a_manifest_cannot_point_outside_its_folder(tmp_runs: Path, record: RunRecord) -> None:
    write_record(tmp_runs / "aa", record)
    manifest = {"schema": 1, "parts": {}, "files": {"../secret": "0" * 64}}
    (tmp_runs / "aa/manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RecordError, match=r"\.\./secret lies outside the release"):
        resolve(["run=aa"])


def response(status: int) -> Any:
    return httpx.Response(status, request=httpx.Request("GET", "https://hub.example"))


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (None, "cannot be reached and the repository is not in its cache"),
        (errors.RepositoryNotFoundError("404 …\n\nmore", response=response(404)), "hf auth login"),
        (errors.HFValidationError("Repo id must …"), "no such repository"),
        (ConnectionError("connection refused\nby all"), r"hub id: connection refused by all$"),
    ],
    ids=["no network", "not found", "no id", "other"],
)
def test_what_the_hub_cannot_give_is_one_line(
    hub: Any,
    tmp_runs: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception | None,
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if error is not None:

        def refuse(run: str) -> str:
            raise error

        monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(RecordError, match=says):
        resolve(["run=some-lab/absent"])
    with pytest.raises(SystemExit) as ended:
        main(["run=some-lab/absent"])
    assert str(ended.value).startswith("error: run=some-lab/absent: neither a folder")
    assert "\n" not in str(ended.value)


def test_a_repository_without_a_record_is_one_line(hub: Any, tmp_runs: Path) -> None:
    hub("some-lab/weights", {"model.safetensors": b"w"})
    with pytest.raises(RecordError, match=r"holds no record\.json; push a release folder"):
        resolve(["run=some-lab/weights"])


# -- W&B ------------------------------------------------------------------------------------------


class Artifact:
    def __init__(self, kind: str, name: str, files: dict[str, bytes]) -> None:
        self.type, self.name, self.files = kind, name, files

    def download(self, root: str) -> str:
        for name, data in self.files.items():
            Path(root).mkdir(parents=True, exist_ok=True)
            (Path(root) / name).write_bytes(data)
        return root


@pytest.fixture
def wandb_api(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Artifact] | Exception]:
    """Run path → its artifacts, or what asking for it raises; there is an account."""
    import wandb

    known: dict[str, list[Artifact] | Exception] = {}

    class Run:
        def __init__(self, path: str) -> None:
            found = known.get(path, ValueError(f"Could not find run <Run {path} (not found)>\nTip"))
            if isinstance(found, Exception):
                raise found
            self.found = found

        def logged_artifacts(self) -> list[Artifact]:
            return self.found

    class Api:
        def run(self, path: str) -> Run:
            return Run(path)

    monkeypatch.setattr(wandb, "Api", Api)
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    return known


def test_a_run_of_wandb_is_served_with_the_calibration_it_fitted(
    wandb_api: dict[str, Any], tmp_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrated = OmegaConf.to_container(compose([*BASE, "calibration=type"]), resolve=True)
    record = record_of(config=calibrated)
    old = Artifact("run-record", "run-abc:v0", {"record.json": b"{}"})
    files = {"record.json": record.to_json().encode(), "calibration.json": calibration()}
    wandb_api["team/project/abc"] = [
        Artifact("model", "weights:v0", {}),
        old,
        Artifact("run-record", "run-abc:v1", files),
    ]
    monkeypatch.chdir(tmp_path)
    cfg, served = resolve(["run=wandb:team/project/abc"])
    assert served.source.run == record.hash
    folder = tmp_runs / FETCHED / "run-abc-v1"
    assert cfg.calibration.path == str(folder)
    assert (folder / "record.json").is_file()
    assert not (tmp_path / "artifacts").exists(), "nothing is left in the working folder"


@pytest.mark.parametrize(
    ("run", "found", "says"),
    [
        ("a/b/c", None, r"cannot be read \(Could not find run <Run a/b/c \(not found\)> Tip\)$"),
        ("a/b/c", ConnectionError("no route\nto host"), r"cannot be read \(no route to host\)$"),
        ("a/b/c", [Artifact("model", "w:v0", {})], "logged no run-record artifact"),
        ("a/b", None, "write run=wandb:entity/project/run"),
        ("a//c", None, "write run=wandb:entity/project/run"),
    ],
    ids=["not found", "no network", "no record", "two parts", "empty part"],
)
def test_what_wandb_cannot_give_is_one_line(
    wandb_api: dict[str, Any], tmp_runs: Path, run: str, found: Any, says: str
) -> None:
    if found is not None:
        wandb_api[run] = found
    with pytest.raises(RecordError, match=says) as caught:
        resolve([f"run=wandb:{run}"])
    assert "\n" not in str(caught.value)


def test_without_an_account_wandb_is_not_asked(
    tmp_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with pytest.raises(SystemExit) as ended:
        main(["run=wandb:a/b/c"])
    assert str(ended.value) == (
        "error: run=wandb:a/b/c: no W&B account here; wandb login, or set WANDB_API_KEY"
    )
