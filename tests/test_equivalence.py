"""`task=equivalence`: strategies against a plain forward, as a command with an exit status."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import cli

LINE = re.compile(r"strategy=(\w+) cache=(\w+) max_abs_(?:logit|probability)_diff=(\S+)")
EVERY = {
    (strategy, cache)
    for strategy in ("packed", "batched", "flat", "auto")
    for cache in ("cold", "warm")
}


def differences(out: str) -> dict[tuple[str, str], float]:
    """(strategy, cache) → the printed difference."""
    return {(strategy, cache): float(value) for strategy, cache, value in LINE.findall(out)}


@pytest.mark.parametrize("backbone", ["tiny_llama", "tiny_qwen3"])
def test_every_strategy_agrees_with_a_plain_forward(backbone: str, tmp_runs: Path) -> None:
    ended = cli.run("task=equivalence", f"backbone={backbone}", "device.dtype=float32")
    assert ended.status == 0, ended.out
    found = differences(ended.out)
    assert set(found) == EVERY
    assert max(found.values()) < 1e-4
    assert ended.out.startswith(f"backbone={backbone} dtype=float32 device=cpu limit=0.0001\n")
    assert ended.err == ""
    assert not list(tmp_runs.glob("*/record.json"))


def test_a_hybrid_refuses_packed_with_the_reason(tmp_runs: Path) -> None:
    ended = cli.run("task=equivalence", "backbone=tiny_qwen3_5", "device.dtype=float32")
    assert ended.status == 0, ended.out
    assert "strategy=packed refused: linear_attention layers ignore a block mask" in ended.out
    found = differences(ended.out)
    assert set(found) == {pair for pair in EVERY if pair[0] != "packed"}
    assert max(found.values()) < 1e-4


def test_bfloat16_is_judged_in_probability(tmp_runs: Path) -> None:
    ended = cli.run(
        "task=equivalence", "backbone=tiny_llama", "device.dtype=bfloat16", "task.strategies=[flat]"
    )
    assert ended.status == 0, ended.out
    assert "limit=0.02" in ended.out
    assert "max_abs_probability_diff=" in ended.out
    assert "max_abs_logit_diff" not in ended.out
    found = differences(ended.out)
    assert set(found) == {("flat", "cold"), ("flat", "warm")}
    assert 0 < max(found.values()) < 2e-2


@pytest.mark.parametrize(
    ("backbone", "strategies"), [("tiny_llama", "[]"), ("tiny_qwen3_5", "[packed]")]
)
def test_comparing_nothing_is_no_success(backbone: str, strategies: str, tmp_runs: Path) -> None:
    ended = cli.run("task=equivalence", f"backbone={backbone}", f"task.strategies={strategies}")
    assert ended.status == 1
    (line,) = ended.err.strip().splitlines()
    assert line.startswith("error: task.strategies=[")
    assert "nothing was compared" in line


@pytest.mark.parametrize("readout", ["continuation", "yesno"])
def test_a_readout_without_label_tokens_is_refused(readout: str, tmp_runs: Path) -> None:
    ended = cli.run("task=equivalence", "backbone=tiny_llama", f"readout={readout}")
    assert ended.status == 1
    (line,) = ended.err.strip().splitlines()
    assert f"task=equivalence: readout {readout} has no label tokens to compare" in line
    assert "readout=label_tokens" in line


def test_a_rating_is_compared_by_its_digits(tmp_runs: Path) -> None:
    words = ["task=equivalence", "backbone=tiny_llama", "device.dtype=float32", "readout=rating"]
    ended = cli.run(*words, "task.strategies=[flat]")
    assert ended.status == 0, ended.out + ended.err


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_difference_that_is_not_a_number_fails_the_command(
    tmp_runs: Path, monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    from reflex.backbones.backbone import Backbone

    real, asked = Backbone.label_logits, []

    def off(self: Backbone, hidden_nd: torch.Tensor, label_ids: Any) -> torch.Tensor:
        asked.append(label_ids)
        logits = real(self, hidden_nd, label_ids).clone()
        if len(asked) == 2:  # neither the first nor the last pair that is compared
            logits[-1, -1] = wrong
        return logits

    monkeypatch.setattr(Backbone, "label_logits", off)
    words = ["task=equivalence", "backbone=tiny_llama", "device.dtype=float32"]
    ended = cli.run(*words, "task.strategies=[flat]")
    assert ended.status == 1, ended.out
    cold, warm = (differences(ended.out)["flat", cache] for cache in ("cold", "warm"))
    assert str(cold) == str(wrong)
    assert warm < 1e-4


@pytest.mark.slow
def test_a_difference_above_the_limit_fails_the_command(
    tmp_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reflex.backbones.backbone import Backbone

    real = Backbone.label_logits

    def off(self: Backbone, hidden_nd: torch.Tensor, label_ids: Any) -> torch.Tensor:
        return real(self, hidden_nd, label_ids) + torch.arange(len(label_ids)) * 1e-3

    monkeypatch.setattr(Backbone, "label_logits", off)
    words = ["task=equivalence", "backbone=tiny_llama", "device.dtype=float32"]
    ended = cli.run(*words, "task.strategies=[flat]")
    assert ended.status == 1
    assert max(differences(ended.out).values()) > 1e-4
    swept = cli.run(*words, "task.strategies=[flat]", "-m", "backbone.seed=0,1")
    assert swept.status == 1, "one failed cell fails the sweep"


@pytest.mark.real
@pytest.mark.asset
@pytest.mark.slow
def test_the_embedded_model_agrees_too(tmp_runs: Path) -> None:
    ended = cli.run("task=equivalence", "backbone=smollm2_135m", "device.dtype=float32")
    assert ended.status == 0, ended.out + ended.err
    found = differences(ended.out)
    assert set(found) == EVERY
    assert max(found.values()) < 1e-4
