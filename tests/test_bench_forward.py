"""`scripts/bench_forward.py` measures what it says, and judges it: a missed bound is the exit status."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from reflex.backbones.backbone import Backbone
from reflex.forward import calls

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


def test_every_cold_request_is_a_first_one(
    repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    main = runpy.run_path(str(repo / "scripts/bench_forward.py"))["main"]
    read: list[int] = []
    real = calls._call

    def counting(backbone: Backbone, **kwargs: torch.Tensor) -> torch.Tensor:
        read.append(kwargs["input_ids"].numel())
        return real(backbone, **kwargs)

    def measure(variants: dict[str, Any], repeats: int) -> dict[str, float]:
        variants["ours cold"]()
        first = read.copy()
        read.clear()
        variants["ours cold"]()
        assert sorted(read) == sorted(first)
        read.clear()
        variants["ours warm"]()
        assert sum(read) < sum(first)
        return MET

    monkeypatch.setattr(calls, "_call", counting)
    monkeypatch.setitem(main.__globals__, "measure", measure)
    monkeypatch.setitem(main.__globals__, "crossover", lambda *_: None)
    question = {"type": "noul", "instructions": "Is it late?"}
    asked = {"state": "A parcel. " * 20, "questions": {"a": question, "b": question}}
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    words = [f"workload={tmp_path / 'asked.json'}", "backbone=tiny_llama", "device.dtype=float32"]
    monkeypatch.setattr(sys, "argv", ["bench_forward.py", *words])
    assert main() == 0
