"""`scripts/bench_eval.py` judges what it measures, and times the harness's scoring alone; without the harness."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture
def bench(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(repo / "scripts"))
    yield import_module("bench_eval")
    for name in ("bench_eval", "lm_eval_harness"):
        sys.modules.pop(name, None)


SIDE: Any = SimpleNamespace(items=[None] * 10)


def test_a_ratio_below_what_is_wanted_is_named(
    bench: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.tell("same", SIDE, {"ours": 4.0, "theirs": 5.0}, 1.25) == []
    assert bench.tell("same", SIDE, {"ours": 4.0, "theirs": 4.9}, 1.25) == ["same"]
    assert capsys.readouterr().out.splitlines() == [
        "same: ours 2.50 items/s, theirs 2.00 items/s, ratio 1.25 (at least 1.25)",
        "same: ours 2.50 items/s, theirs 2.04 items/s, ratio 1.22 (at least 1.25)",
    ]


@pytest.mark.parametrize(
    ("ratio", "same", "strict", "status"),
    [
        (3.0, True, True, 0),
        (2.9, True, True, 1),  # the same dtype passes, the defaults do not
        (2.9, True, False, 0),
        (1.0, True, False, 0),
        (3.0, False, True, 1),  # a differing prediction is never let through
        (3.0, False, False, 1),
    ],
)
def test_the_exit_status(
    bench: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    ratio: float,
    same: bool,
    strict: bool,
    status: int,
) -> None:
    def ours(overrides: list[str], count: int, dtype: str) -> Any:
        resolved = "bfloat16" if dtype == "auto" else dtype
        item = SimpleNamespace(ids=(1, 2))
        return SimpleNamespace(
            name="tiny", folder=tmp_path, dtype=resolved, items=[item] * count, score=None
        )

    def theirs(folder: Path, dtype: str, task: Any, batch_size: int = 4) -> Any:
        best = SimpleNamespace(dtype=dtype, batch_size=batch_size, score=None)
        best.best_batch_size = lambda: 8
        return best

    for name, stand_in in (
        ("Ours", ours),
        ("Theirs", theirs),
        ("write_task", lambda items, folder: None),
        ("agree", lambda one, other: same),
        ("measure", lambda sides, repeats: {"ours": 1.0, "theirs": ratio}),
    ):
        monkeypatch.setattr(bench, name, stand_in)
    assert bench.compare([], 5, 1, strict, tmp_path) == status


class Task:
    """Two requests an item, as the harness builds them; counts how often."""

    def __init__(self, items: int) -> None:
        self.items, self.times = items, 0

    def build_all_requests(self, limit: int | None, rank: int, world_size: int) -> None:
        self.times += 1
        docs = [{"id": f"i{n}"} for n in range(self.items)][:limit]
        self.instances = [SimpleNamespace(doc=doc) for doc in docs for _ in "AB"]


def test_no_request_is_built_within_what_is_timed(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class HFLM:
        def __init__(self, **settings: Any) -> None:
            self.model = SimpleNamespace(dtype="torch.float32")

        def loglikelihood(self, instances: list[Any], disable_tqdm: bool) -> list[Any]:
            return [(-float(n % 2), True) for n, _ in enumerate(instances)]

    monkeypatch.setitem(sys.modules, "lm_eval.models.huggingface", SimpleNamespace(HFLM=HFLM))
    task = Task(3)
    theirs = bench.Theirs(tmp_path, "float32", task)
    few = theirs.score(2)  # as the warm-up does, which is not timed
    built = task.times
    everything = theirs.score()
    assert task.times == built
    assert (list(few), list(everything)) == (["i0", "i1"], ["i0", "i1", "i2"])
    assert everything["i2"] == pytest.approx([0.7310586, 0.2689414])
