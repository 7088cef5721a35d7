"""What a training tells while it goes: loss, rate, speed, time left and padding over the last window."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from reflex.backbones.padding import Cells
from reflex.tasks.train import fit
from reflex.training.batches import plan_steps
from reflex.training.module import TrainingModule, rate
from tests.test_training import training

CPU = OmegaConf.create({"device": {"name": "cpu"}, "trainer": None})


def test_cells_by_hand() -> None:
    cells = Cells()
    cells.add([3, 5])
    cells.add([2])
    assert (cells.laid, cells.used, cells.factor) == (12, 10, 1.2)
    cells.clear()
    assert (cells.laid, cells.used) == (0, 0)


def laid_by_the_decoder(module: TrainingModule) -> list[int]:
    """Cells of every call from here on, seen where they arrive instead of where they are counted."""
    seen: list[int] = []

    def note(_: Any, args: Any, kwargs: dict[str, Any]) -> None:
        seen.append(kwargs["input_ids"].numel())

    module.model.backbone.decoder.register_forward_pre_hook(note, with_kwargs=True)
    return seen


@pytest.mark.parametrize("path", ["llama", "qwen3_5"])
def test_the_log_tells_padding_rate_and_what_is_left(
    path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two tree rows a call and the flat rows of a hybrid are padded; the window starts anew with each line."""
    module = training(path, count=4, log_steps=1, schedule="linear")
    module.plan = plan_steps(module.plan.tokens, 1500, 1500)
    module.model.engine.config.tree_row_tokens = 100  # a tree a row, two and more rows a call
    seen = laid_by_the_decoder(module)
    ends: list[int] = []  # calls made when a step ended
    losses = module.accumulate

    def accumulate(micros: Any) -> float:
        value = losses(micros)
        ends.append(len(seen))
        return value

    module.accumulate = accumulate  # type: ignore[method-assign]
    with caplog.at_level("INFO", "reflex"):
        fit(module, CPU, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    steps = module.plan.steps
    assert len(steps) > 1
    assert [line["step"] for line in lines] == list(range(1, len(steps) + 1))
    whole = [
        each.unique_tokens + (each.reread_tokens if path == "qwen3_5" else 0)
        for each in module.compiled
    ]
    for number, line in enumerate(lines):
        laid = sum(seen[ends[number - 1] if number else 0 : ends[number]])
        used = sum(whole[i] for micro in steps[number] for i in micro)
        assert line["padding"] == pytest.approx(laid / used, abs=5e-4)
        assert line["lr"] == pytest.approx(
            module.config.lr * rate(number + 1, len(steps), module.config)
        )
        assert line["tokens_per_s"] > 0
    assert max(line["padding"] for line in lines) > 1
    assert (lines[-1]["left_s"], lines[-1]["lr"]) == (0, 0)
    assert f"padding {lines[0]['padding']:.2f}" in caplog.text
