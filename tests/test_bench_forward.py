"""`scripts/bench_forward.py` judges what it measures: a missed bound is named and is the exit status."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

MET = {"ours cold": 1.0, "ours warm": 0.85, "bare": 1.0, "per branch": 4.5}
MISSES = {
    "(a)": {"bare": 0.9},
    "(b)": {"per branch": 4.4},
    "(c)": {"ours warm": 0.9},
}


@pytest.mark.parametrize("missed", [[], ["(a)"], ["(b)", "(c)"]])
def test_a_missed_bound_is_the_exit_status(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missed: list
) -> None:
    main = runpy.run_path(str(repo / "scripts/bench_forward.py"))["main"]
    times = dict(MET)
    for name in missed:
        times |= MISSES[name]
    monkeypatch.setitem(main.__globals__, "measure", lambda variants, repeats: times)
    monkeypatch.setitem(main.__globals__, "crossover", lambda *_: None)
    words = ["backbone=tiny_llama", "device.dtype=float32"]
    monkeypatch.setattr(sys, "argv", ["bench_forward.py", *words])
    assert main() == (1 if missed else 0)
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("missed: ")]
    assert [[part[:3] for part in line.removeprefix("missed: ").split("; ")] for line in told] == (
        [missed] if missed else []
    )
