"""W&B is the view: offline runs say what the records say, and its failures cost one warning."""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reflex.errors import ConfigError
from reflex.tracking import wandb_run as module
from reflex.tracking.config import WandbMode, WandbTracker, has_account, resolve_mode
from reflex.tracking.record import RunIdentity, RunRecord, read_record, write_record
from reflex.tracking.wandb_payload import summary_of
from reflex.tracking.wandb_run import Tracker, wandb_run
from tests.fake_records import fake_predictions, fake_record
from tests.wandb_offline import _inspect, _records, offline_runs, read_offline

FRAME = fake_predictions(6)
OFFLINE = WandbTracker(mode=WandbMode.offline, tags=["mine"])


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name in list(os.environ):
        if name.startswith("WANDB_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "staging"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setattr(module, "_unreachable", None)
    monkeypatch.setattr(module, "_warned", set())


def identity_of(record: RunRecord) -> RunIdentity:
    return RunIdentity(**record.model_dump(include=set(RunIdentity.model_fields)))


def cell(runs: Path, orders: str, config: WandbTracker | None = OFFLINE, **changes: Any) -> Tracker:
    """One cell as the evaluate task does it."""
    record = fake_record(orders, FRAME, **changes)
    folder = runs / record.hash
    with wandb_run(config, identity_of(record), folder) as tracker:
        record = record.model_copy(update={"wandb": tracker.info})
        tracker.log_result(write_record(folder, record, FRAME))
    return tracker


def check_diagram(log: Path) -> None:
    """The reliability diagram of FRAME is in the run: its table bin by bin, and a chart that shows it."""
    (kept,) = log.parent.glob("files/media/table/reliability_*.table.json")
    table = json.loads(kept.read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    answers = pd.DataFrame({"top": FRAME["probabilities"].map(max)})
    answers["right"] = FRAME["probabilities"].map(lambda p: p.index(max(p))) == FRAME["gold"]
    bins = answers.groupby((answers["top"] * 15).map(math.ceil))
    assert [row["n"] for row in rows] == [*bins.size()]
    assert [row["confidence"] for row in rows] == pytest.approx([*bins["top"].mean()])
    assert [row["accuracy"] for row in rows] == pytest.approx([*bins["right"].mean()])
    updates = [each["config"]["update"] for each in _records(_inspect(log)) if "config" in each]
    (chart,) = (c for each in updates for key, c in each.items() if "reliability_plot" in key)
    fields = chart["panel_config"]["fieldSettings"]
    assert (fields["x"], fields["y"]) == ("confidence", "accuracy")


def test_two_cells_are_two_finished_runs_with_the_records_numbers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    cell(tmp_path, "one")
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"1234")
    record = fake_record("two", FRAME, debug=True)
    with wandb_run(OFFLINE, identity_of(record), tmp_path / record.hash) as tracker:
        assert tracker.logger is not None
        record = record.model_copy(update={"wandb": tracker.info})
        record = write_record(tmp_path / record.hash, record, FRAME)
        (tmp_path / record.hash / "calibration.json").write_text("{}")  # it is served with that
        tracker.log_result(record, {"adapter/weights.bin": weights})
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err == ""

    logs = offline_runs(tmp_path)
    check_diagram(logs[0])
    runs = {run["name"]: run for run in map(read_offline, logs)}
    assert set(runs) == {"orders=one", "orders=two"}
    assert len({run["id"] for run in runs.values()}) == 2
    for orders, run in (("one", runs["orders=one"]), ("two", runs["orders=two"])):
        kept = read_record(tmp_path / f"{orders}0123456789abcdef")
        assert kept.wandb is not None
        assert (kept.wandb.id, kept.wandb.mode, kept.wandb.error) == (run["id"], "offline", None)
        assert (run["state"], run["exit_code"]) == ("finished", 0)
        assert (run["group"], run["job_type"]) == ("averaging-1", "evaluate")
        assert run["config"]["orders"] == orders
        assert run["config"]["backbone"] == "smollm2_135m"
        assert run["config"]["config"] == kept.config
        numbers = summary_of(kept)
        assert numbers["nll"] == kept.metrics["nll"]["value"]
        assert numbers["type/noul/accuracy/low"] == kept.by["type"]["noul"]["accuracy"]["low"]
        assert numbers["cost/cache/misses"] == 40
        assert {key: run["summary"].get(key) for key in numbers} == numbers
        table, plotted = (run["summary"][key] for key in ("reliability", "reliability_plot_table"))
        assert table["_type"] == plotted["_type"] == "table-file"
        assert table["sha256"] == plotted["sha256"]
        files = run["artifacts"][f"averaging-{kept.hash[:12]}"]
        extra = ["adapter/weights.bin", "calibration.json"] if orders == "two" else []
        assert files == [*extra, "predictions.parquet", "record.json"]
    assert (runs["orders=one"]["project"], runs["orders=one"]["tags"]) == (
        "reflex",
        ["mine", "averaging"],
    )
    assert runs["orders=two"]["project"] == "reflex-debug"
    assert "debug" in runs["orders=two"]["tags"]


def test_every_figure_of_a_suite_with_words_carries_its_word(tmp_path: Path):
    sources = {
        "ratings": {"word": "stand-in", "n": 6, "n_pinned": 500},
        "boolq": {"word": "missing", "reason": "no rows", "n": 0},
    }
    cell(tmp_path, "one", data={"facts": {"sources": sources}})
    (run,) = map(read_offline, offline_runs(tmp_path))
    summary = run["summary"]
    assert summary["word"] == "stand-in, 6 of 500"
    figures = {key.rpartition("/")[0] for key in summary if key.endswith("/nll")}
    assert figures
    for part in figures:
        assert summary[f"{part}/word"] == "stand-in, 6 of 500"
    assert summary["source/boolq/word"] == "missing"
    cell(tmp_path / "plain", "one")
    (run,) = map(read_offline, offline_runs(tmp_path / "plain"))
    assert not [key for key in run["summary"] if key.endswith("word")]


def test_a_run_somebody_left_open_is_neither_reused_nor_touched(tmp_path: Path):
    import wandb

    other = wandb.init(project="p", dir=str(tmp_path), settings=wandb.Settings(silent=True))
    try:
        tracker = cell(tmp_path / "runs", "one")
        assert tracker.info is not None
        assert tracker.info.id != other.id
        assert wandb.run is other
    finally:
        other.finish()


def test_failures_of_the_task_finish_the_run_as_failed(tmp_path: Path):
    record = fake_record("one", FRAME, status="failed", error="boom")
    folder = tmp_path / record.hash
    with wandb_run(OFFLINE, identity_of(record), folder) as tracker:
        tracker.log_result(write_record(folder, record))
    with (
        pytest.raises(ZeroDivisionError),
        wandb_run(OFFLINE, identity_of(record), tmp_path / "b"),
    ):
        _ = 1 / 0
    runs = [read_offline(path) for path in offline_runs(tmp_path)]
    assert [run["exit_code"] for run in runs] == [1, 1]
    assert {run["summary"].get("error") for run in runs} == {"boom", None}


@pytest.mark.parametrize("when", ["before the record", "after the result"])
def test_a_killed_service_loses_no_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, when: str
):
    record = fake_record("one", FRAME)
    folder = tmp_path / record.hash
    with caplog.at_level(logging.WARNING), wandb_run(OFFLINE, identity_of(record), folder) as run:
        if when == "before the record":
            kill_service()
        record = record.model_copy(update={"wandb": run.info})
        run.log_result(write_record(folder, record, FRAME))
        if when == "after the result":
            kill_service()
    kept = read_record(folder)
    assert kept.metrics == record.metrics
    assert kept.wandb is not None
    assert "ConnectionResetError" in str(kept.wandb.error)
    assert 1 <= len(warnings(caplog)) <= 2
    assert all("\n" not in line for line in warnings(caplog))
    # The next cell gets a service and a run of its own.
    tracker = cell(tmp_path, "two")
    assert tracker.info is not None
    assert tracker.info.error is None
    done = [run for run in map(read_offline, offline_runs(tmp_path)) if run["state"] == "finished"]
    assert "orders=two" in [run["name"] for run in done]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What this package said; wandb logs its own life at lower levels."""
    return [entry.getMessage() for entry in caplog.records if entry.name.startswith("reflex.")]


def kill_service() -> None:
    (service,) = [
        child
        for child in import_module("psutil").Process().children()
        if child.name().startswith("wandb-core")
    ]
    service.send_signal(signal.SIGKILL)
    service.wait(10)


@pytest.mark.slow
def test_a_killed_service_leaves_the_exit_quiet(tmp_path: Path):
    code = f"""
from pathlib import Path
from tests.test_tracking_wandb import *
record = fake_record("one", FRAME)
with wandb_run(OFFLINE, identity_of(record), Path({str(tmp_path)!r}) / "a") as run:
    kill_service()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        check=True,
    )
    assert len(done.stderr.strip().splitlines()) <= 1
    assert "Traceback" not in done.stderr


def test_unreachable_server_is_asked_once_and_the_run_kept_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    config = WandbTracker(init_timeout=1.0)
    asked = []
    start = Tracker._start

    def counted(self: Tracker, mode: Any) -> None:
        asked.append(mode)
        start(self, mode)

    monkeypatch.setattr(Tracker, "_start", counted)
    for orders in ("one", "two"):
        cell(tmp_path, orders, config)
    assert asked == ["online", "offline", "offline"]
    assert len(warnings(caplog)) == 1
    runs = [read_offline(path) for path in offline_runs(tmp_path)]
    assert sorted(run["name"] for run in runs) == ["orders=one", "orders=two"]
    for run in runs:
        kept = read_record(tmp_path / run["config"]["hash"])
        assert kept.wandb is not None
        assert kept.wandb.mode == "offline"
        assert str(kept.wandb.error).startswith("not online: ")


def test_wandb_that_cannot_start_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    import wandb

    def refuse(**_: Any) -> None:
        raise RuntimeError("no\nway")

    monkeypatch.setattr(wandb, "init", refuse)
    tracker = cell(tmp_path, "one")
    assert tracker.logger is None
    kept = read_record(tmp_path / "one0123456789abcdef")
    assert kept.wandb is not None
    assert kept.wandb.id is None
    assert kept.wandb.error == "no run: RuntimeError: no way"
    assert len(warnings(caplog)) == 1


def test_disabled_needs_no_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Tracker, "_start", None)
    assert cell(tmp_path, "one", WandbTracker(mode=WandbMode.disabled)).info is None
    assert cell(tmp_path, "two", None).info is None
    assert read_record(tmp_path / "two0123456789abcdef").wandb is None


def test_mode(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def mode(of: str) -> str:
        return resolve_mode(WandbTracker(mode=WandbMode(of)))

    assert [mode(of) for of in ("auto", "online", "disabled")] == ["offline", "offline", "disabled"]
    monkeypatch.setenv("WANDB_MODE", "ofline")
    with pytest.raises(ConfigError, match="'ofline' is not one of online, offline, disabled"):
        mode("auto")
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("WANDB_BASE_URL", "https://w.example.org")
    assert mode("auto") == "offline"
    assert mode("online") == "online"
    (tmp_path / "netrc").write_text("machine w.example.org login user password x\n")
    assert has_account()
    assert mode("auto") == "online"
    (tmp_path / "netrc").write_text("machine other.example.org login user password x\n")
    assert not has_account()
    monkeypatch.setenv("WANDB_API_KEY", "x")
    assert mode("auto") == "online"
