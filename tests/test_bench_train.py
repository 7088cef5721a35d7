"""`scripts/bench_train.py` judges what it measures: a missed ratio is named and is the exit status."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

RANDOM = "transformers + peft, random batches"
BUCKETED = "transformers + peft, bucketed by length"


@pytest.mark.parametrize(
    ("ours", "told"),
    [
        (2.0, []),
        (1.9, [f"missed: ratio to {RANDOM} 1.90 (at least 2.0)"]),
        (
            1.0,
            [
                f"missed: ratio to {RANDOM} 1.00 (at least 2.0); "
                f"ratio to {BUCKETED} 0.71 (at least 1.3)"
            ],
        ),
    ],
)
def test_a_missed_ratio_is_the_exit_status(
    repo: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ours: float,
    told: list[str],
) -> None:
    main = runpy.run_path(str(repo / "scripts/bench_train.py"))["main"]
    # Processor time is shown and decides nothing.
    speed = {"reflex": (ours, 9.0, 1.0), RANDOM: (1.0, 9.0, 1.5), BUCKETED: (1.4, 9.0, 1.1)}
    nothing = SimpleNamespace(train_rows=list)
    for key, stand_in in (
        ("load_mixture", lambda config: nothing),
        ("ours", lambda cfg, rows: None),
        ("plain", lambda cfg, rows, bucketed: None),
        ("race", lambda contenders, seconds: {name: speed[name] for name in contenders}),
    ):
        monkeypatch.setitem(main.__globals__, key, stand_in)
    monkeypatch.setattr(sys, "argv", ["bench_train.py", "backbone=tiny_llama"])
    assert main() == (1 if told else 0)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("missed: ")] == told
    assert f"ratio to {RANDOM}: {ours:.2f}, per CPU second 1.00 (at least 2.0)" in lines
