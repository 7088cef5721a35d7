"""What `run=` means: record, manifest, command line on top, and refusal of what was not measured."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from reflex.build import build_decider, to_object
from reflex.errors import BackboneError, ConfigError, RecordError
from reflex.loading import check_harmless, compose, recorded_config
from reflex.prompts import styles
from reflex.serving.config import ServeConfig
from reflex.serving.engine import Engine
from reflex.serving.logs import JsonFormatter
from reflex.serving.source import checked, resolve
from reflex.tracking.record import RunRecord, read_record
from tests.conftest import REPO

BASE = ["backbone=tiny_llama", "device.dtype=float32", "orders=two"]


def record_of(*overrides: str, **changes: Any) -> RunRecord:
    cfg = compose([*BASE, *overrides])
    decider = build_decider(cfg)
    facts = decider.model.backbone.facts
    values: dict[str, Any] = {
        "hash": hashlib.sha256(" ".join(overrides).encode()).hexdigest(),
        "group": "g",
        "name": "orders=two",
        "config": OmegaConf.to_container(cfg, resolve=True),
        "status": "finished",
        "backbone": {
            "weights_sha256": facts.weights_sha256,
            "adapter_sha256": facts.adapter_sha256,
        },
        "prompt_hash": decider.model.style.fingerprint(),
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:00:01+00:00",
    }
    return RunRecord(**{**values, **changes})


def write_record(folder: Path, record: RunRecord) -> None:
    """The record alone: what is served needs no predictions."""
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(record.to_json())


@pytest.fixture
def run(tmp_runs: Path) -> RunRecord:
    record = record_of()
    write_record(tmp_runs / record.hash[:16], record)
    return record


def test_straight_from_configuration() -> None:
    cfg, run = resolve([*BASE, "serve.port=1234"])
    config: ServeConfig = to_object(cfg.serve)
    assert (config.port, cfg.orders.permutations) == (1234, 2)
    assert cfg.forward.reuse_tokens == config.reuse_tokens
    assert run.source.run is None
    assert run.expected == {}


@pytest.mark.parametrize("digits", [8, 16, 64])
def test_a_recorded_run_by_hash(run: RunRecord, digits: int) -> None:
    cfg, served = resolve(
        [f"run={run.hash[:digits]}"] if digits <= 16 else [f"run={run.hash[:16]}"]
    )
    assert served.source.run == run.hash
    assert cfg.backbone.name == "tiny_llama"
    assert cfg.orders.permutations == 2
    decider = checked(build_decider(cfg), served)
    request = {"state": "x", "questions": {"q": {"type": "noul", "instructions": "?"}}}
    own = build_decider(compose(BASE)).answer(request)
    assert decider.answer(request).answers == own.answers


def test_a_recorded_run_says_it_is_ready_and_all_that_is_known_of_it(
    run: RunRecord, caplog: pytest.LogCaptureFixture
) -> None:
    cfg, served = resolve([f"run={run.hash[:16]}"])
    engine = Engine(ServeConfig(warm_up=False), lambda: build_decider(cfg), served.source)
    with caplog.at_level("INFO", logger="reflex.serving"):
        engine._start()
    engine.stop()
    lines = [json.loads(JsonFormatter().format(entry)) for entry in caplog.records]
    (line,) = [line for line in lines if line.get("event") == "ready"]
    assert (line["logger"], line["level"]) == ("reflex.serving", "info")
    assert line["message"].startswith("ready after ")
    told = {"name": "orders=two", "released": "2026-01-01", "run": run.hash, "status": "ready"}
    assert line.items() >= told.items()


def test_the_command_line_wins(run: RunRecord, tmp_runs: Path) -> None:
    folder = str(tmp_runs / run.hash[:16])
    cfg, _ = resolve([f"run={folder}", "orders=four"])
    assert cfg.orders.permutations == 4
    cfg, _ = resolve([f"run={folder}", "orders=one"])  # also where it is the default
    assert cfg.orders.permutations == 1
    cfg, _ = resolve([f"run={folder}", "orders.permute_score=false"])
    assert (cfg.orders.permutations, cfg.orders.permute_score) == (2, False)
    cfg, served = resolve([f"run={folder}", "backbone.seed=3"])
    assert (cfg.backbone.path, cfg.backbone.seed) == ("llama", 3)
    assert "weights_sha256" not in served.expected
    assert served.expected["prompt_hash"] == run.prompt_hash


def test_other_weights_than_measured_are_refused(tmp_runs: Path) -> None:
    record = record_of(backbone={"weights_sha256": "0" * 64, "adapter_sha256": None})
    write_record(tmp_runs / "aa", record)
    cfg, served = resolve(["run=aa"])
    with pytest.raises(BackboneError, match=r"weights_sha256.*not what was measured"):
        checked(build_decider(cfg), served)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run=nothing"], "neither a folder"),
        (["run=stable"], "task=gate"),
        (["orders=two", "--port"], "key=value"),
        (["orders=2"], "orders=2: use one of cyclic"),
    ],
)
def test_what_does_not_exist_is_one_line(
    arguments: list[str], says: str, tmp_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((RecordError, ConfigError), match=says) as caught:
        resolve(arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("port", -1, "use 0"),
        ("port", 99999, "use 0"),
        ("timeout_s", float("nan"), "above 0"),
        ("timeout_s", float("inf"), "above 0"),
        ("window_ms", -1.0, "of 0 or more"),
        ("reuse_tokens", -1, "of 0 or more"),
    ],
)
def test_a_setting_that_cannot_work_names_its_key(key: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"^serve\.{key}={value}: .*{says}"):
        ServeConfig(**{key: value})


def test_a_failed_run_is_not_served(tmp_runs: Path) -> None:
    write_record(tmp_runs / "bb", record_of(status="failed", error="no memory"))
    with pytest.raises(RecordError, match="no memory"):
        resolve(["run=bb"])


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        (
            "calibration",
            {"_target_": "reflex.pip_download.run_pip"},
            "calibration._target_='reflex.pip",
        ),
        ("prompt", {"_target_": {"_target_": "os.system"}}, "prompt._target_={"),
        (
            "readout",
            {"auto": {"parts": [{"_target_": "os.system"}]}},
            "readout.auto.parts.0._target_='os",
        ),
        ("backbone", "${oc.create:{_target_:os.system}}", "backbone holds an interpolation"),
    ],
)
def test_a_record_can_call_nothing_but_what_the_rooms_provide(
    key: str, value: Any, says: str
) -> None:
    harmless = {"prompt": {"_target_": "reflex.prompts.styles.chat.ChatStyle"}, "seed": 3}
    check_harmless(harmless, "record.json")
    with pytest.raises(RecordError) as caught:
        check_harmless({**harmless, key: value}, "record.json")
    assert str(caught.value).startswith(f"record.json: {says}")
    assert "\n" not in str(caught.value)


def test_a_record_that_calls_something_else_is_neither_served_nor_loaded(
    run: RunRecord, tmp_runs: Path
) -> None:
    calling = {"_target_": "reflex.pip_download.run_pip", "arguments": ["--version"]}
    changed = run.model_copy(update={"config": {**run.config, "calibration": calling}})
    write_record(tmp_runs / "cc", changed)
    for load in (lambda: resolve(["run=cc"]), lambda: recorded_config(tmp_runs / "cc")):
        with pytest.raises(
            RecordError, match=r"cc/record\.json: calibration\._target_='reflex\.pip"
        ):
            load()


def test_a_record_may_name_a_style_that_somebody_put_into_its_room(
    run: RunRecord, tmp_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shouting.py").write_text(
        "from dataclasses import dataclass\nfrom reflex.prompts.styles.chat import ChatStyle\n\n\n"
        "@dataclass\nclass Shouting(ChatStyle):\n"
        '    _target_: str = "reflex.prompts.styles.shouting.Shouting"\n'
    )
    own = {**run.config["prompt"], "_target_": "reflex.prompts.styles.shouting.Shouting"}
    changed = run.model_copy(update={"config": {**run.config, "prompt": own}})
    write_record(tmp_runs / "dd", changed)
    with pytest.raises(RecordError, match=r"prompt\._target_"):
        recorded_config(tmp_runs / "dd")
    monkeypatch.setattr(styles, "__path__", [*styles.__path__, str(tmp_path)])
    cfg = recorded_config(tmp_runs / "dd")
    assert type(instantiate(cfg.prompt)).__name__ == "Shouting"


def test_every_committed_record_is_harmless() -> None:
    records = [*REPO.glob("results/records/*/*/record.json"), *REPO.glob("releases/*/record.json")]
    assert len(records) > 50
    for file in records:
        check_harmless(read_record(file).config, str(file))


def test_stable_reads_the_manifest_and_its_hashes(
    run: RunRecord, tmp_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "releases" / "first"
    write_record(folder, run)
    sha256 = hashlib.sha256((folder / "record.json").read_bytes()).hexdigest()
    hashes = {"record_sha256": sha256, "weights_sha256": run.backbone["weights_sha256"]}
    manifest = tmp_path / "releases" / "stable.json"
    entry = {"path": "releases/first", "hashes": hashes}
    manifest.write_text(json.dumps({"laptop": entry}))
    monkeypatch.chdir(tmp_path)
    _, served = resolve(["run=stable"])
    assert served.source.run == run.hash
    assert served.expected["weights_sha256"] == run.backbone["weights_sha256"]
    assert resolve(["run=first"])[1].source.run == run.hash
    with pytest.raises(RecordError, match="profile=gpu"):
        resolve(["run=stable", "profile=gpu"])
    manifest.write_text(
        json.dumps({"laptop": {**entry, "hashes": {**hashes, "record_sha256": "0" * 64}}})
    )
    with pytest.raises(RecordError, match="not served"):
        resolve(["run=stable"])


def test_a_profile_counts_as_every_value_it_changes(run: RunRecord) -> None:
    cfg, served = resolve([f"run={run.hash[:16]}", "profile=gpu", "device.dtype=bfloat16"])
    assert (cfg.backbone.name, cfg.backbone.path) == ("qwen3_5_4b", "Qwen/Qwen3.5-4B")
    assert (cfg.device.name, cfg.device.dtype) == ("cuda", "bfloat16")
    assert (cfg.forward.max_tokens, cfg.forward.state_cache_mb) == (16384, 4096)
    assert cfg.orders.permutations == 2  # the run's own
    assert set(served.expected) == {"prompt_hash"}


def test_of_the_stable_run_a_profile_only_chooses_the_entry(
    run: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_record(tmp_path / "releases" / "first", run)
    manifest = tmp_path / "releases" / "stable.json"
    manifest.write_text(json.dumps({"gpu": {"path": "releases/first"}}))
    monkeypatch.chdir(tmp_path)
    cfg, served = resolve(["run=stable", "profile=gpu", "orders=four"])
    assert (cfg.backbone.name, cfg.backbone.path) == ("tiny_llama", "llama")
    assert (cfg.device.name, cfg.orders.permutations) == ("cpu", 4)
    assert cfg.forward.max_tokens == compose(BASE).forward.max_tokens
    assert served.expected["weights_sha256"] == run.backbone["weights_sha256"]
    with pytest.raises(RecordError, match="profile=laptop"):
        resolve(["run=stable", "orders=four"])
