"""A training that dies between two checkpoints goes on to the same weights; `train.fresh` sets it aside."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from reflex.data.mixture_files import write_checked
from reflex.tasks import train
from reflex.tasks.begun import write_begun
from reflex.tasks.lineage import RESULT
from reflex.tasks.train import Train, fit, set_aside
from reflex.training import progress
from reflex.training.checkpoint import checkpoints, load_newest
from tests import cli
from tests.test_training import logged, rows, training, wait_until, weights
from tests.test_training_progress import CPU

TINY = (
    *("task=train", "backbone=tiny_llama", "device=cpu", "device.dtype=float32", "readout=pointer"),
    *("mixture=embedded", "train=lora", "tracker=none"),
)


class Died(BaseException):
    """What no handler of errors may stop."""


def test_dying_within_a_step_between_two_checkpoints_changes_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(10_000))  # a clock that a step moves on: a checkpoint every third step
    clock = SimpleNamespace(monotonic=lambda: next(ticks), perf_counter=time.perf_counter)
    monkeypatch.setattr(progress, "time", clock)
    settings: dict[str, Any] = {"count": 6, "step_tokens": 200, "checkpoint_minutes": 3 / 60}
    whole = training(**settings)
    steps = len(whole.plan.steps)
    fit(whole, CPU, tmp_path / "whole")

    killed = training(**settings)
    death = random.Random(0).choice([step for step in range(4, steps) if step % 3])
    accumulate = killed.accumulate

    def dying(micros: Any) -> float:
        value = accumulate(micros)
        if killed.step == death:
            raise Died
        return value

    killed.accumulate = dying  # type: ignore[method-assign]
    with pytest.raises(Died):
        fit(killed, CPU, tmp_path / "cut")
    left = load_newest(tmp_path / "cut" / "checkpoints")
    assert left is not None
    assert left["step"] == death - death % 3  # the steps since are lost, the one begun included

    resumed = training(**settings)
    fit(resumed, CPU, tmp_path / "cut")
    assert resumed.step == steps
    ended = weights(resumed)
    for name, value in weights(whole).items():
        assert torch.equal(ended[name], value), name


@pytest.mark.slow
def test_the_command_killed_at_a_random_step_and_started_again_changes_no_bit(
    tmp_path: Path,
) -> None:
    """kill -9 of `task=train` itself, checkpoints far apart, then the same command once more."""
    environment = {**os.environ, "REFLEX_RUNS": str(tmp_path)}

    def words(name: str) -> list[str]:
        folder = tmp_path / name
        if not folder.is_dir():
            folder.mkdir()
            write_checked(folder / "rows.jsonl", rows(80))  # a run's rows are read from its folder
        return [
            *(sys.executable, "-m", "reflex.run", *TINY, f"train.name={name}"),
            *("train.step_tokens=800", "train.log_steps=1", "train.save_dtype=float32"),
            "train.checkpoint_minutes=0.02",
        ]

    subprocess.run(words("whole"), env=environment, cwd=cli.REPO, check=True, capture_output=True)
    steps = len(logged(tmp_path / "whole"))
    death = random.Random(0).randint(steps // 5, steps // 2)
    killed = tmp_path / "killed"
    started = subprocess.Popen(
        words("killed"), env=environment, cwd=cli.REPO,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(
            lambda: len(logged(killed)) >= death and bool(checkpoints(killed / "checkpoints")), 240
        )
    finally:
        started.send_signal(signal.SIGKILL)
        started.wait()
    assert not (killed / RESULT).exists()
    done = len(logged(killed))
    left = load_newest(killed / "checkpoints")
    assert left is not None
    assert 0 < left["step"] <= done < steps
    again = subprocess.run(
        words("killed"), env=environment, cwd=cli.REPO, check=True, capture_output=True, text=True
    )
    assert f"resumed at step {left['step']} of {steps}" in again.stderr

    ended, wanted = (load_newest(tmp_path / name / "checkpoints") for name in ("killed", "whole"))
    assert ended is not None
    assert wanted is not None
    assert ended["step"] == wanted["step"] == steps
    for name, value in wanted["weights"].items():
        assert torch.equal(ended["weights"][name], value), name
    for name in ("adapter/adapter_model.safetensors", "heads.safetensors"):
        assert (killed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_an_earlier_run_is_set_aside_whole(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for number in (1, 2):
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "checkpoints" / "step-0000003.pt").write_text(f"weights {number}")
        (folder / "log.jsonl").write_text(f"log {number}")
        (folder / ".lock").write_text("held")
        set_aside(folder)
        old = tmp_path / f"run.old-{number}"
        assert (old / "checkpoints" / "step-0000003.pt").read_text() == f"weights {number}"
        assert (old / "log.jsonl").read_text() == f"log {number}"
        assert [path.name for path in folder.iterdir()] == [".lock"]  # who holds it still does
    set_aside(folder)  # nothing was left
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run.old-1", "run.old-2"]


def test_set_aside_in_parts_it_does_not_look_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("adapter", "config.json", "heads.safetensors", RESULT, "zz")
    for name in names:
        (tmp_path / "run" / name).mkdir(parents=True)
    rename = Path.rename

    def killed(self: Path, target: Path) -> None:
        rename(self, target)
        raise Died

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(Died):
        set_aside(tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {*names} - {RESULT}


def test_ctrl_c_in_a_training_is_keyboard_interrupt(tmp_path: Path) -> None:
    module = training(count=1)

    def pressed(micros: Any) -> float:
        raise KeyboardInterrupt

    module.accumulate = pressed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        fit(module, CPU, tmp_path)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("trainer.devices=0", "trainer (device=cpu, devices=0, "),
        ("trainer.devices=abc", "trainer (device=cpu, devices=abc, "),
        ("trainer.precision=nope", "Precision 'nope' is invalid"),
        ("trainer.strategy=nope", "invalid strategy name: `strategy='nope'`"),
    ],
)
def test_what_lightning_refuses_is_one_line_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, told: str
) -> None:
    built: list[Path] = []
    monkeypatch.setattr(train, "build_training", lambda cfg, folder: built.append(folder))
    ended = cli.run(*TINY, f"runs_dir={tmp_path}", given)
    assert (ended.status, built) == (1, [])
    (line,) = ended.err.strip().splitlines()
    assert line.startswith("error: trainer (device=cpu, ")
    assert told in line


@pytest.mark.parametrize("name", [RESULT, "config.json"])
def test_a_file_of_the_training_that_is_not_whole_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).touch()
    ended = cli.run(*TINY, f"runs_dir={tmp_path}", "train.name=run")
    assert ended.status == 1
    (line,) = ended.err.strip().splitlines()
    assert line.startswith(f"error: {tmp_path}/run/{name}: cannot be read (")
    assert "delete it and run the same command again" in line


def test_a_training_that_a_sweep_shares_is_set_aside_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[Path] = []

    def trained(self: Train, cfg: Any, folder: Path, identity: Any) -> int:
        began.append(folder)
        write_begun(folder, cfg)
        (folder / RESULT).write_text("{}")
        return 0

    monkeypatch.setattr(Train, "_run", trained)
    words = (*TINY, f"runs_dir={tmp_path}", "train.name=run", "train.fresh=true")
    swept = ("-m", "benchmark=tickets,human_ratings")
    for number in (1, 2):
        ended = cli.run(*words, *swept)
        assert ended.status == 0, ended.err
        assert began == [tmp_path / "run"] * number
        assert ended.err.count("already trained") == 1
    assert sorted(path.name for path in tmp_path.glob("run*")) == ["run", "run.old-1"]


def test_fresh_trains_anew_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def began(self: Train, cfg: Any, folder: Path, identity: Any) -> int:
        seen.append(sorted(path.name for path in folder.iterdir() if path.name != ".lock"))
        return 0

    monkeypatch.setattr(Train, "_run", began)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / RESULT).write_text("{}")
    common = [*TINY, f"runs_dir={tmp_path}", "train.name=run"]
    assert "already trained" in cli.run(*common).err
    assert seen == []
    assert cli.run(*common, "train.fresh=true").status == 0
    assert seen == [[]]
    assert (tmp_path / "run.old-1" / RESULT).read_text() == "{}"
