"""`task=build_mixture` and `task=plan` as the commands a user types, on two small sources."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from reflex.data.rows import read_jsonl, rows_sha256
from reflex.errors import ConfigError, DataError
from reflex.tasks.build_mixture import BuildMixture
from reflex.tasks.compare import Compare
from reflex.tasks.plan import PlanTask
from tests import cli

SOURCES = ("emotion", "rotten_tomatoes")


@pytest.fixture
def mixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Words that choose a mixture of a user's own YAML, over two sources that are all the rows there are."""
    own = tmp_path / "conf" / "mixture" / "two.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(
        "defaults: [mixture_schema, _self_]\nname: two\nrows: 12\n"
        "sources: {emotion: 1.0, rotten_tomatoes: 1.0}\n"
    )
    emotions = ("sadness", "joy", "love", "anger", "fear", "surprise")
    rows = {
        "emotion_train": [{"label": emotions[i % 6]} for i in range(240)],
        "emotion_test": [{"label": emotions[i % 6]} for i in range(24)],
        "rotten_tomatoes": [{"label": "pos" if i % 2 else "neg"} for i in range(240)],
    }
    (tmp_path / "data" / "train").mkdir(parents=True)
    for name, labels in rows.items():
        lines = [
            json.dumps({"id": f"{name}{i}", "text": f"message {i} of {name}", **label})
            for i, label in enumerate(labels)
        ]
        (tmp_path / "data" / "train" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("REFLEX_DATA", str(tmp_path / "data"))
    return (f"hydra.searchpath=[file://{tmp_path / 'conf'}]", "mixture=two")


def test_build_mixture_writes_what_its_manifest_says(
    tmp_path: Path, mixture: tuple[str, ...]
) -> None:
    out = tmp_path / "built"
    ended = cli.run("task=build_mixture", *mixture, f"task.out={out}", "task.per_source=5")
    assert ended.status == 0, ended.err
    assert ended.out.splitlines()[-1] == f"mixture: {out}"
    assert sorted(path.name for path in out.iterdir()) == [
        *("fit.jsonl", "manifest.json", "report.jsonl", "train.jsonl"),
    ]
    manifest = json.loads((out / "manifest.json").read_text())
    assert set(manifest["sources"]) == set(SOURCES)
    assert manifest["config"]["rows"] == 12
    for split, wanted in (("train", 12), ("fit", 10), ("report", 10)):
        rows = read_jsonl(out / f"{split}.jsonl")
        told = manifest["splits"][split]
        assert len(rows) == told["rows"] == wanted
        assert told["sha256"] == rows_sha256(rows)
        assert sum(told["questions"].values()) == sum(len(row.questions) for row in rows)
        assert {row.split for row in rows} == {split}
        assert {row.source for row in rows} == set(SOURCES)
        assert f"{split}: {wanted} rows, {sum(told['questions'].values())} questions" in ended.out


def test_a_build_that_breaks_off_leaves_no_manifest_of_other_files(
    tmp_path: Path, mixture: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "built"
    words = ("task=build_mixture", *mixture, f"task.out={out}", "task.per_source=5")
    assert cli.run(*words).status == 0
    assert (out / "manifest.json").is_file()

    def broken(path: Path, rows: object) -> None:
        raise DataError("broke off")

    monkeypatch.setattr("reflex.data.mixture_files.write_checked", broken)
    assert cli.run(*words).err.strip() == "error: broke off"
    assert {path.name for path in out.iterdir()} == {"train.jsonl", "fit.jsonl", "report.jsonl"}


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (lambda: BuildMixture(per_source=0), "task.per_source=0: must be at least 1"),
        (lambda: BuildMixture(per_source=-1), "task.per_source=-1: must be at least 1"),
        (lambda: PlanTask(steps=-1), "task.steps=-1: must be at least 1"),
        (lambda: PlanTask(steps=0), "task.steps=0: must be at least 1"),
        (lambda: Compare(margin=-1.0), "task.margin=-1.0: must be a number of 0 or more"),
        (lambda: Compare(margin=math.nan), "task.margin=nan: must be a number of 0 or more"),
    ],
)
def test_numbers_that_no_task_can_use_are_refused(task: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        task()


def test_plan_prints_what_a_run_would_take_and_leaves_nothing(
    tmp_runs: Path, mixture: tuple[str, ...]
) -> None:
    ended = cli.run(
        "task=plan", *mixture, "train=lora", "readout=pointer", "backbone=tiny_llama",
        "device=cpu", "device.dtype=float32", "train.step_tokens=600", "task.steps=1", "mixture.rows=4",
    )  # fmt: skip
    assert ended.status == 0, ended.err
    told = {line[:28].strip(): line[28:].strip() for line in ended.out.splitlines()}
    assert told["rows"].startswith("4 of 4 (")
    assert float(told["padding factor"]) >= 1
    assert int(told["tokens per second"]) > 0
    assert told["steps"].endswith(" of about 600 tokens")
    mean = float(told["tokens per row"].removeprefix("mean ").partition(",")[0])
    assert int(told["tokens"]) == pytest.approx(4 * mean, abs=2)  # the mean is rounded
    assert told["checkpoints"].startswith("about 1 written, 1 kept, ")
    assert {path.name for path in tmp_runs.iterdir()} <= {".hydra"}
