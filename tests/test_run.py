"""One cell through the command line: what it leaves, what identifies it, and how it fails."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from reflex.benchmarks.base import Suite
from reflex.data.rows import Row
from reflex.errors import DataError
from reflex.tasks.facts import told_facts
from reflex.tasks.identity import hashed_config
from reflex.tracking.predictions import read_predictions
from reflex.tracking.record import find_records, read_record
from tests import cli
from tests.fake_records import fake_record

SMALL = ("debug=smoke", "tracker=none", "benchmark=task_file")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cli.write_tasks(tmp_path_factory.mktemp("tasks") / "tasks.jsonl")


def one(runs: Path) -> Path:
    """The folder of the only cell."""
    (file,) = runs.glob("*/record.json")
    return file.parent


def visible(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


# -- a cell -----------------------------------------------------------------------------------


def test_a_cell_is_recorded_told_and_leaves_nothing_else(
    tasks: Path, tmp_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "cwd"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    ended = cli.run(*SMALL, f"benchmark.path={tasks}")
    assert ended.status == 0
    folder = one(tmp_runs)
    record = read_record(folder)
    assert record.hash.startswith(folder.name)
    assert (record.status, record.experiment, record.task) == ("finished", None, "evaluate")
    assert (record.limited, record.debug, record.wandb) == (True, True, None)
    assert record.group == f"evaluate-{record.hash[:10]}"
    assert record.name == "tiny_llama"
    assert record.axes["orders"] == "one"
    assert record.axes["profile"] == "laptop"
    assert record.config["runs_dir"] == str(tmp_runs)
    assert record.backbone["dtype"] == "float32"
    assert sum(record.backbone["used"].values()) == 4, "every request's strategy is counted"
    assert record.data["n_rows"] == 4
    frame = read_predictions(folder)
    assert len(frame) == record.cost["decisions"] == 12
    assert sorted(set(frame["question_id"])) == ["good", "mood", "stars"]
    assert record.metrics["nll"]["n"] == 12
    assert ended.page == tmp_runs / "pages" / f"{record.group}.md"
    assert f"{record.metrics['nll']['value']:.4f}" in ended.page.read_text()
    # Quiet: one line on standard error, the table and the page on standard output.
    assert ended.err == f"tiny_llama: 12 decisions in {record.wall_s:.1f} s, recorded in {folder}\n"
    assert len(ended.out.splitlines()) == 7
    assert visible(tmp_runs) == {folder.name, "pages"}
    assert visible(folder) == {"record.json", "predictions.parquet"}
    assert not list(elsewhere.iterdir()), "no lightning_logs, no multirun.yaml, no outputs/"


def test_a_second_start_runs_nothing_and_tells_the_same(
    tasks: Path, tmp_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cli.run(*SMALL, f"benchmark.path={tasks}")
    folder = one(tmp_runs)
    kept = (folder / "record.json").read_bytes()
    monkeypatch.setattr("reflex.tasks.evaluate.Evaluate._run", _forbidden)
    again = cli.run(*SMALL, f"benchmark.path={tasks}")
    assert again.status == 0
    assert again.out == first.out
    assert "already recorded" in again.err
    assert (folder / "record.json").read_bytes() == kept


def test_a_corrected_word_is_told_without_running_again(
    tasks: Path, tmp_runs: Path, tmp_path: Path
) -> None:
    path, rows = tmp_path / "told.jsonl", tasks.read_text().splitlines()

    def run(word: str) -> tuple[Any, str]:
        path.write_text(
            "".join(json.dumps({**json.loads(row), "word": word}) + "\n" for row in rows)
        )
        ended = cli.run(*SMALL, f"benchmark.path={path}")
        assert ended.status == 0, ended.err
        return read_record(one(tmp_runs)), ended.page.read_text()

    before, page = run("exact")
    assert "| told | exact |" in page
    after, page = run("stand-in")
    assert "| told | stand-in |" in page
    assert after.data["facts"]["sources"]["told"]["word"] == "stand-in"
    same = {"data": before.data}
    assert after.model_copy(update=same) == before.model_copy(update=same), (
        "nothing else is touched"
    )


def test_what_is_told_again_is_told_of_the_rows_that_were_answered() -> None:
    rows = [Row.from_json({"id": f"r{n}", "source": "s", **json.loads(_row(n))}) for n in range(3)]
    suite = Suite("mine", rows, {"sources": {"s": {"word": "stand-in", "n": 3}}})
    local = fake_record()
    assert told_facts(suite, local) == suite.facts
    served = {"base_url": "http://there", "health": {"model": "mine:1"}}
    remote = fake_record(data={"unanswered": ["r1"]}, served=served)
    facts = told_facts(suite, remote)
    assert (
        facts["sources"]["s"] | {"word": "stand-in", "n": 2, "n_asked": 3} == facts["sources"]["s"]
    )
    assert facts["notes"]["answered"].startswith("2 of 3 items, by mine:1 at http://there;")


def test_force_runs_again_with_the_same_predictions_byte_for_byte(
    tasks: Path, tmp_runs: Path
) -> None:
    cli.run(*SMALL, f"benchmark.path={tasks}", "orders=two")
    folder = one(tmp_runs)
    kept, written = (folder / "predictions.parquet").read_bytes(), folder / "record.json"
    before = written.stat().st_mtime_ns
    ended = cli.run(*SMALL, f"benchmark.path={tasks}", "orders=two", "force=true")
    assert "12 decisions" in ended.err
    assert written.stat().st_mtime_ns > before
    assert (folder / "predictions.parquet").read_bytes() == kept


def test_threads_of_one_cell_do_not_stay_for_the_next(tasks: Path, tmp_runs: Path) -> None:
    import torch

    own = torch.get_num_threads()
    assert cli.run(*SMALL, f"benchmark.path={tasks}", f"device.threads={own + 1}").status == 0
    assert torch.get_num_threads() == own + 1
    assert read_record(one(tmp_runs)).hardware["threads"] == own + 1
    assert cli.run(*SMALL, f"benchmark.path={tasks}").status == 0
    assert torch.get_num_threads() == own


# -- which cell it is -------------------------------------------------------------------------


@pytest.fixture
def composed(tasks: Path) -> Iterator[Any]:
    """Words → the configuration of the cell they mean."""
    from hydra import compose, initialize_config_dir
    from hydra.core.hydra_config import HydraConfig

    from reflex.config import register
    from reflex.places import conf_dir
    from reflex.tasks.smoke import shrink

    def find(*words: str) -> Any:
        given = [*SMALL, f"benchmark.path={tasks}", *words]
        if any(word.startswith("benchmark.path") for word in words):
            given = [*SMALL, *words]
        cfg = compose("config", given, return_hydra_config=True)
        HydraConfig.instance().set_config(cfg)
        cell = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
        shrink(cell)
        return cell

    register()
    before = HydraConfig.instance().cfg
    with initialize_config_dir(version_base="1.3", config_dir=str(conf_dir())):
        yield find
    HydraConfig.instance().cfg = before


@pytest.fixture
def identity(composed: Any) -> Any:
    """Words → hash of the cell they mean; nothing runs."""
    from reflex.tasks.evaluate import Evaluate

    return lambda *words: Evaluate().prepare(composed(*words))[1].hash


def test_everything_that_changes_a_number_is_in_the_hash(identity: Any) -> None:
    changes = [
        "seed=1",
        "orders=two",
        "orders.seed=1",
        "backbone=tiny_qwen3",
        "backbone.seed=1",
        "device.dtype=bfloat16",
        "device.threads=1",
        "forward.strategy=flat",
        "forward.max_tokens=99",
        "task.batch_tokens=99",
        "readout.label_tokens.labels=codes",
        "readout.noul=rating",
        "+prompt.texts.system_prompt=Judge.",
        "benchmark.limit=2",
    ]
    hashes = [identity(), *(identity(change) for change in changes)]
    assert len(set(hashes)) == len(hashes)


def test_nothing_else_is_in_the_hash(identity: Any, tasks: Path, tmp_path: Path) -> None:
    moved = tmp_path / tasks.name
    moved.write_bytes(tasks.read_bytes())
    same = [
        ("tracker.project=other",),
        ("tracker=wandb", "tracker.mode=disabled"),
        (f"results_dir={tmp_path}",),
        (f"runs_dir={tmp_path / 'runs'}",),
        ("force=true",),
        ("serve=default",),
        ("readout.rating={}",),
        (f"benchmark.path={moved}",),
        ("orders.permutations=1",),
        ("backbone=tiny_qwen3", "backbone.name=tiny_llama", "backbone.path=llama"),
    ]
    own = identity()
    assert {words: identity(*words) for words in same} == dict.fromkeys(same, own)


@pytest.mark.parametrize(
    "words",
    [
        ("force=true",),
        ("tracker=wandb", "tracker.mode=disabled"),
        ("serve=default",),
        ("results_dir=elsewhere",),
        ("trainer.devices=2",),
    ],
)
def test_a_failure_is_forgotten_however_its_success_is_told(
    words: tuple[str, ...], composed: Any, tmp_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reflex.tasks import outcome
    from reflex.tasks.cells import forget_failure, record_failure

    monkeypatch.setattr(outcome, "cells", {})
    here = f"runs_dir={tmp_runs}"
    record_failure(composed(here, *words), DataError("no rows"))
    assert read_record(one(tmp_runs)).status == "failed"
    forget_failure(composed(here, "orders=two"))
    assert read_record(one(tmp_runs)).error == "no rows", "another cell"
    forget_failure(composed(here))
    assert not list(tmp_runs.glob("*/record.json"))


def test_where_rows_were_found_is_not_in_the_hash() -> None:
    def kept(**benchmark: Any) -> Any:
        return hashed_config({"task": {"name": "evaluate"}, "benchmark": benchmark})["benchmark"]

    own = kept(name="mmlu", file=None, files={}, parts={"mine": {"path": None, "split": "all"}})
    assert own == {
        "name": "mmlu",
        "file": None,
        "files": {},
        "parts": {"mine": {"path": None, "split": "all"}},
    }
    moved = {
        "file": "x.jsonl",
        "files": {"boolq": "y.jsonl"},
        "parts": {"mine": {"path": "z", "split": "all"}},
    }
    assert kept(name="mmlu", **moved) == own
    assert kept(name="mmlu", **{**moved, "parts": {"mine": {"path": "z", "split": "fit"}}}) != own


def test_a_new_readout_or_an_unused_option_renames_no_cell() -> None:
    used = {"choice": "a", "noul": "a", "score": "b", "a": {"x": 1, "weights": "w"}, "b": None}
    config: dict[str, Any] = {
        "backbone": {"name": "n", "path": "p"},
        "device": {"dtype": "auto"},
        "benchmark": {"path": "q", "limit": 3},
        "calibration": {"name": "none", "path": "r"},
        "task": {"name": "evaluate"},
        "readout": used,
        "tracker": {},
        "later": None,
    }
    kept = hashed_config(config)
    assert kept["backbone"] == {"name": "n"}
    assert kept["benchmark"] == {"limit": 3}
    assert "later" not in kept
    assert kept == hashed_config({**config, "readout": {**used, "new": {"y": 1}}})
    assert kept["readout"]["a"] == {"x": 1}


def test_the_precision_of_a_training_is_another_cell_and_its_default_is_none() -> None:
    from reflex.loading import compose

    def kept(*words: str) -> dict[str, Any]:
        cfg = compose(["mixture=embedded", "readout=pointer", *words])
        return hashed_config(OmegaConf.to_container(cfg, resolve=True))  # type: ignore[arg-type]

    half = "trainer.precision=bf16-true"
    for task in ("train", "train_evaluate"):
        own = kept(f"task={task}")
        assert not {"precision", "trainer"} & own.keys()
        assert kept(f"task={task}", half) == {**own, "precision": "bf16-true"}
        assert kept(f"task={task}", "trainer=ddp") == own
    frozen = ("task=train_evaluate", "train=frozen")
    assert kept(*frozen, half) == kept(*frozen)
    assert kept("task=evaluate", half) == kept("task=evaluate")


def test_another_template_beside_the_same_weights_is_another_cell(tmp_path: Path) -> None:
    from reflex.tasks.facts import text_sha256

    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "chat_template.jinja").write_text("one")
    before = text_sha256(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"other")
    assert text_sha256(tmp_path) == before, "weights have their own hash"
    (tmp_path / "chat_template.jinja").write_text("two")
    assert text_sha256(tmp_path) != before


# -- debug=smoke ------------------------------------------------------------------------------


@dataclasses.dataclass
class Unlimited:
    """A benchmark without `limit`."""

    _target_: str = "tests.test_run.Unlimited"
    name: str = "unlimited"

    def load(self) -> Any:
        from reflex.benchmarks.base import Suite
        from reflex.data.rows import Row

        rows = [
            Row.from_json({"id": f"{source}{i}", "source": source, **json.loads(line)})
            for source in ("a", "b")
            for i, line in enumerate([_row(0)] * 9)
        ]
        return Suite("unlimited", rows)


def _row(i: int) -> str:
    row = {"state": "s", "questions": {"q": cli.QUESTIONS["good"]}, "labels": {"q": bool(i % 2)}}
    return json.dumps(row)


def test_smoke_is_small_without_a_limit_too(tmp_runs: Path, tmp_path: Path) -> None:
    from hydra.core.config_store import ConfigStore

    ConfigStore.instance().store(group="benchmark", name="unlimited", node=Unlimited)
    assert cli.run("debug=smoke", "tracker=none", "benchmark=unlimited").status == 0
    frame = read_predictions(one(tmp_runs))
    assert frame["source"].value_counts().to_dict() == {"a": 4, "b": 4}
    assert read_record(one(tmp_runs)).debug


def test_smoke_beats_an_experiment_and_the_command_line_beats_smoke(
    tasks: Path, tmp_runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "big.yaml").write_text(
        "# @package _global_\nbenchmark: {limit: 6}\nhydra:\n  mode: MULTIRUN\n"
        "  sweeper: {params: {backbone: 'qwen3_5_4b,smollm2_135m'}}\n"
        "verdict: {metric: nll, baseline: backbone=smollm2_135m, candidates: [backbone=qwen3_5_4b]}\n"
    )
    words = ["--config-dir", str(tmp_path), *SMALL, f"benchmark.path={tasks}", "experiment=big"]
    ended = cli.run(*words)
    assert ended.status == 0
    records = {found.record.name: found.record for found in find_records(tmp_runs).found}
    assert set(records) == {"backbone=qwen3_5_4b", "backbone=smollm2_135m"}
    for record in records.values():
        assert record.config["backbone"]["source"] == "random"
        assert (record.data["n_rows"], record.debug) == (4, True)
    assert records["backbone=qwen3_5_4b"].backbone["architecture"].startswith("Qwen3_5")
    assert [row[0] for row in ended.table] == ["smollm2_135m", "qwen3_5_4b"]
    ended = cli.run(*words, "backbone=tiny_qwen3", "benchmark.limit=2")
    assert ended.status == 0
    (record,) = [f.record for f in find_records(tmp_runs).found if f.record.data["n_rows"] == 2]
    assert record.config["backbone"]["path"] == "qwen3"


def test_smoke_does_not_train_under_the_name_of_the_real_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from reflex.loading import compose
    from reflex.tasks.identity import SWEEP, Sweep
    from reflex.tasks.smoke import shrink

    monkeypatch.setenv(SWEEP, "")
    for given, name in (((), None), (("train.name=mine",), "mine")):
        Sweep((), (), tuple(word.partition("=")[0] for word in given), None).to_env()
        cfg = compose(["experiment=embedded_release", "debug=smoke", *given])
        shrink(cfg)
        assert cfg.train.name == name


# -- failures ---------------------------------------------------------------------------------


def failing(ended: cli.Ended, *parts: str) -> None:
    assert ended.status == 1
    (line, *more) = ended.err.splitlines()
    assert not more, ended.err
    assert all(part in line for part in parts), line


@pytest.mark.parametrize("line", ['{"state": ', '{"state": "s"}'])
def test_an_unreadable_data_file_is_named_with_its_line(
    line: str, tasks: Path, tmp_runs: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(tasks.read_text() + line + "\n")
    failing(cli.run(*SMALL, f"benchmark.path={bad}"), "error: ", f"{bad}:7")
    assert visible(tmp_runs) == set()


@pytest.mark.asset
def test_no_registry(tmp_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    ended = cli.run("debug=smoke", "tracker=none")
    said, error = ended.err.splitlines()
    assert said.startswith("fetching vaderSentiment==3.3.2")
    assert error.startswith(
        "error: cannot fetch vaderSentiment==3.3.2: no package registry is reachable"
    )
    assert "By hand" in error
    assert ended.status == 1
    assert visible(tmp_runs) == set()


def test_a_corrupt_asset(tmp_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reflex.assets import HUMAN_RATINGS, asset_path

    monkeypatch.setenv("REFLEX_CACHE", str(tmp_path / "cache"))
    path = asset_path(HUMAN_RATINGS)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not the file")
    failing(cli.run("debug=smoke", "tracker=none"), "error: ", str(path))
    assert visible(tmp_runs) == set()


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("backbone.source=folder", "no folder with a config.json there"),
        ("backbone.source=asset", "known assets are smollm2_135m"),
        ("backbone.source=gguf", "no such GGUF file"),
        ("backbone.source=hub", "neither a local folder nor reachable on the model hub"),
        ("backbone.path=mamba", "random weights exist for llama"),
        ("backbone.attention=foo", "backbone.attention=foo: "),
    ],
)
def test_an_unknown_backbone(word: str, part: str, tasks: Path, tmp_runs: Path) -> None:
    words = [word, "backbone.path=no/such"] if "source" in word else [word]
    ended = cli.run(*SMALL, f"benchmark.path={tasks}", *words)
    failing(ended, part)
    assert not list(tmp_runs.glob("*/predictions.parquet"))


def test_a_label_that_is_not_one_token(
    tasks: Path, tmp_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reflex.readouts.label_tokens.LETTERS", ("A", "Zebra"))
    failing(cli.run(*SMALL, f"benchmark.path={tasks}"), "tiny_llama failed: ", "'Zebra'", "token")
    record = read_record(one(tmp_runs))
    assert record.status == "failed"
    assert "Zebra" in str(record.error)


def test_a_state_longer_than_the_context(tmp_runs: Path, tmp_path: Path) -> None:
    long = cli.write_tasks(tmp_path / "long.jsonl", rows=2, state="word {i} " * 800)
    ended = cli.run(*SMALL, f"benchmark.path={long}")
    failing(ended, "tiny_llama failed: the state (", "exceed the context", "4096 tokens")
    assert "exceed the context" in ended.page.read_text()
    assert visible(one(tmp_runs)) == {"record.json"}


def test_a_full_disk_leaves_nothing_half_written(
    tasks: Path, tmp_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("reflex.files.os.fsync", full)
        ended = cli.run(*SMALL, f"benchmark.path={tasks}")
        failing(ended, "predictions.parquet: cannot be written (No space left on device)")
        swept = cli.run(*SMALL, f"benchmark.path={tasks}", "-m", "orders=one,two")
        assert swept.status == 1
        assert len(swept.err.splitlines()) == 4, "each cell, and that its failure is not recorded"
    files = [path for path in tmp_runs.glob("[!.]*/*") if path.name != ".lock"]
    assert files == []
    assert cli.run(*SMALL, f"benchmark.path={tasks}").status == 0


def test_a_runs_folder_that_cannot_be_written(tasks: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    failing(cli.run(*SMALL, f"benchmark.path={tasks}", f"runs_dir={blocked}/runs"), str(blocked))


def test_a_fault_of_ours_is_recorded_with_its_traceback_told(
    tasks: Path, tmp_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reflex.model.DecisionModel.forward", _forbidden)
    ended = cli.run(*SMALL, f"benchmark.path={tasks}")
    assert ended.status == 1
    assert "tiny_llama failed: RuntimeError: must not run" in ended.err
    assert "Traceback" in ended.err
    assert read_record(one(tmp_runs)).error == "RuntimeError: must not run"
    assert "RuntimeError: must not run" in ended.page.read_text()
    monkeypatch.undo()


def test_wandb_that_fails_costs_no_result(
    tasks: Path, tmp_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb

    monkeypatch.setattr(wandb, "init", _forbidden)
    ended = cli.run(*SMALL, f"benchmark.path={tasks}", "tracker=wandb", "tracker.mode=offline")
    assert ended.status == 0
    record = read_record(one(tmp_runs))
    assert record.status == "finished"
    assert record.wandb is not None
    assert "must not run" in str(record.wandb.error)
    assert "the record is complete without it" in ended.err


@pytest.mark.slow
def test_ctrl_c_leaves_no_record_and_says_how_to_go_on(tasks: Path, tmp_runs: Path) -> None:
    ready = tmp_runs / ".ready"
    slow = (
        "import signal, time, pathlib, reflex.model\n"
        # What a shell starts in the background ignores it, and so would its children.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def slow(self, requests):\n"
        f"    pathlib.Path({str(ready)!r}).touch()\n"
        "    time.sleep(60)\n"
        "reflex.model.DecisionModel.forward = slow\n"
    )
    process = cli.start(*SMALL, f"benchmark.path={tasks}", before=slow)
    deadline = time.monotonic() + 90
    while not ready.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert err == (
        "interrupted: what is finished is recorded; the same command continues with the rest\n"
    )
    assert not list(tmp_runs.glob("*/record.json"))


@pytest.mark.slow
def test_two_processes_on_one_cell_run_it_once(tasks: Path, tmp_runs: Path) -> None:
    both = [cli.start(*SMALL, f"benchmark.path={tasks}") for _ in range(2)]
    ended = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], ended
    told = "".join(err for _, err in ended)
    assert told.count("12 decisions") == 1
    assert told.count("already recorded") == 1
    assert ended[0][0] == ended[1][0]
    record = read_record(one(tmp_runs))
    data = (one(tmp_runs) / "predictions.parquet").read_bytes()
    assert record.predictions is not None
    assert hashlib.sha256(data).hexdigest() == record.predictions.sha256


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from rich.console import Console

    from reflex.evaluation.progress import ItemProgress

    def items(*tokens: int) -> Any:
        return [SimpleNamespace(compiled=SimpleNamespace(unique_tokens=n)) for n in tokens]

    plain = ItemProgress(4, tokens=400, every_s=0.0)
    nothing: Any = None
    with caplog.at_level("INFO", logger="reflex"):
        plain.on_test_start(nothing, nothing)
        plain.start -= 30  # two items of four, but three quarters of the tokens, took half a minute
        plain.on_test_batch_end(nothing, nothing, nothing, items(200, 100), 0)
        plain.on_test_end(nothing, nothing)
    assert caplog.messages == ["2/4 items, 0.1 items/s, 10 s left"]
    assert capsys.readouterr() == ("", "")
    shown = ItemProgress(4, tokens=400)
    shown.progress.live.console = Console(stderr=True, force_terminal=True, width=80)
    shown.on_test_start(nothing, nothing)
    shown.on_test_batch_end(nothing, nothing, nothing, items(200, 100), 0)
    shown.on_test_end(nothing, nothing)
    out, err = capsys.readouterr()
    assert out == ""
    assert "2/4" in err


def _forbidden(*_: Any, **__: Any) -> Any:
    raise RuntimeError("must not run")
