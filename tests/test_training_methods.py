"""`train=head` and `train=full`: trained, resumed, saved, and evaluated from what was saved."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from reflex.data.mixture_files import write_checked
from reflex.training.checkpoint import checkpoints
from reflex.training.module import TrainingModule, trainable
from tests import cli
from tests.test_training import fit, rows, training, weights

METHODS = ("head", "full")


@pytest.mark.parametrize("method", METHODS)
def test_only_what_the_method_names_is_trained(method: str) -> None:
    module = training(method=method)
    frozen = {name for name, p in module.named_parameters() if not p.requires_grad}
    heads = {name for name, _ in module.named_parameters() if name.startswith("model.heads.")}
    assert heads
    if method == "head":
        assert set(trainable(module)) == heads
    else:
        assert frozen == set()
        assert {p.dtype for p in trainable(module).values()} == {torch.float32}


@pytest.mark.parametrize("method", METHODS)
def test_interrupted_and_resumed_equals_uninterrupted_bit_for_bit(
    method: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "count": 10,
        "step_tokens": 200,
        "checkpoint_minutes": 1e-9,
        "method": method,
    }
    whole = training(**settings)
    start = weights(whole)
    fit(whole, tmp_path / "whole")
    assert len(whole.plan.steps) >= 4
    first = training(**settings)
    fit(first, tmp_path / "cut", stop_at=2)
    assert first.step == 2
    second = training(**settings)
    fit(second, tmp_path / "cut")
    assert second.step == len(whole.plan.steps)
    resumed = weights(second)
    for name, value in weights(whole).items():
        assert torch.equal(resumed[name], value), name
    assert any(not torch.equal(start[name], value) for name, value in resumed.items())


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_killed_and_resumed_equals_uninterrupted_bit_for_bit(method: str, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.test_training import *\n"
        "module = training(count=30, step_tokens=200, checkpoint_minutes=1e-9, method=sys.argv[1])\n"
        "fit(module, Path(sys.argv[2]))\n"
        "torch.save(weights(module), sys.argv[3])\n"
    )
    result = tmp_path / "resumed.pt"
    command = [sys.executable, "-c", code, method, str(tmp_path / "killed"), str(result)]
    process = subprocess.Popen(command, cwd=cli.REPO)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and len(checkpoints(tmp_path / "killed")) < 2:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert checkpoints(tmp_path / "killed")
    assert not result.exists()
    subprocess.run(command, cwd=cli.REPO, check=True)
    whole = training(count=30, step_tokens=200, checkpoint_minutes=60.0, method=method)
    fit(whole, tmp_path / "whole")
    resumed = torch.load(result)
    for name, value in weights(whole).items():
        assert torch.equal(resumed[name], value), name


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_trained_by_command_and_evaluated_from_what_was_saved(
    method: str, tmp_path: Path, tmp_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The saved model answers as the trained one did in memory, and not as the untrained one."""
    import reflex
    from reflex.contract import Request
    from reflex.tasks import train

    made: list[TrainingModule] = []
    save = train.save_result

    def caught(module: TrainingModule, *rest: Any) -> None:
        made.append(module)
        save(module, *rest)

    monkeypatch.setattr(train, "save_result", caught)
    folder = tmp_runs / method
    folder.mkdir()
    write_checked(folder / "rows.jsonl", rows(12))  # a run's rows are read from its folder
    common = [
        *("backbone=tiny_llama", "device=cpu", "device.dtype=float32", "readout=pointer"),
        *("tracker=none", f"results_dir={tmp_path}"),
    ]
    words = [
        *(*common, "task=train", "mixture=embedded", f"train={method}", f"train.name={method}"),
        *("train.step_tokens=300", "train.head_lr=0.01"),
    ]
    first = cli.run(*words)
    assert first.status == 0, first.err
    assert f"trained: {folder}" in first.out
    assert "already trained" in cli.run(*words).err
    assert (folder / "heads.safetensors").is_file()
    assert not (folder / "adapter").exists()
    assert (folder / "backbone").is_dir() is (method == "full")
    saved = [f"readout.pointer.weights={folder / 'heads.safetensors'}"]
    if method == "full":
        saved += ["backbone.source=folder", f"backbone.path={folder / 'backbone'}"]
    tasks = cli.write_tasks(tmp_path / "tasks.jsonl")
    ended = cli.run(*common, *saved, "benchmark=task_file", f"benchmark.path={tasks}")
    assert ended.status == 0, ended.err
    request = {
        "state": "Message number 3.",
        "questions": {"topic": {"type": "choice", "criteria": {"a": None, "bee": None, "c": None}}},
    }

    def answer(*more: str) -> dict[str, float]:
        given = [word for word in common if not word.startswith(("results_dir", "tracker"))]
        found = reflex.load([*given, *more]).answer(request).answers["topic"]
        return dict(found.probabilities)  # type: ignore[union-attr]

    (module,) = made
    with torch.inference_mode():
        scores = module.model([Request.model_validate(request)]).scores[0]["topic"]
    wanted = dict(zip(scores.order_keys[0], scores.scores[0].softmax(-1).tolist(), strict=True))
    assert answer(*saved) == pytest.approx(wanted, abs=1e-5)
    assert answer() != pytest.approx(wanted, abs=1e-3)
