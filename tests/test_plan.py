"""`task=plan`: what it prints is measured on the run's own steps, and measuring changes nothing."""

from __future__ import annotations

import pytest
import torch

from reflex.forward import calls
from reflex.tasks.plan import measure, report
from tests.test_training import training, weights


@pytest.mark.parametrize("path", ["llama", "qwen3_5"])
def test_the_plan_is_measured_and_trains_nothing(path: str) -> None:
    module = training(path, count=8, step_tokens=200)
    before, functions = weights(module), (calls.run_tree_rows, calls.run_rows)
    measured = measure(module, steps=2)
    assert (calls.run_tree_rows, calls.run_rows) == functions
    for name, value in weights(module).items():
        assert torch.equal(value, before[name]), name
    assert measured["tokens_per_s"] > 0
    assert measured["memory_gb"] > 0.05
    # Packed tree rows hold no padding to speak of; a hybrid's rows are of unequal length.
    assert 1 <= measured["padding"] < (1.3 if path == "llama" else 4)


def test_the_printout_follows_from_the_plan() -> None:
    module = training(count=8, step_tokens=200, checkpoint_minutes=1.0)
    plan = module.plan
    speed = plan.total_tokens / 300  # five minutes
    told = report(module, {"tokens_per_s": speed, "padding": 1.25, "memory_gb": 2.5}, 3_000_000)
    tokens = sorted(plan.tokens)
    assert told["rows"] == "8 of 8 (3 MB as a file)"
    assert told["tokens per row"].startswith(f"mean {sum(tokens) / 8:.0f}, ")
    assert told["tokens per row"].endswith(f"longest {tokens[-1]}")
    assert told["tokens"] == str(sum(tokens))
    assert told["steps"] == f"{len(plan.steps)} of about 200 tokens"
    assert told["padding factor"] == "1.250"
    assert told["time"] == "5 min"
    assert told["memory, peak"] == "2.5 GB"
    assert told["checkpoints"].startswith("about 5 written, 2 kept, ")
