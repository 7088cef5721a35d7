"""The notebooks run from top to bottom on records made here, and are committed without outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reflex.calibration.apply import apply
from reflex.calibration.fitted import Calibration
from reflex.tracking.record import write_record
from tests import cli
from tests.fake_records import fake_predictions, fake_record

nbformat = pytest.importorskip("nbformat", reason="install reflex-systemone[dev]")
NOTEBOOKS = sorted((cli.REPO / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A sweep of two cells on a tiny random backbone."""
    folder = tmp_path_factory.mktemp("notebooks")
    tasks = cli.write_tasks(folder / "tasks.jsonl", rows=24, state="item {i} was fine")
    rows = [json.loads(line) for line in tasks.read_text().splitlines()]
    words = {"word": "stand-in", "of": 300}
    tasks.write_text("".join(json.dumps(row | words) + "\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFLEX_RUNS", str(folder / "runs"))
        ended = cli.run(
            *(
                "-m",
                "backbone=tiny_llama",
                "device.dtype=float32",
                "orders=one,two",
                "tracker=none",
            ),
            *("benchmark=task_file", f"benchmark.path={tasks}"),
        )
        assert ended.status == 0, ended.err
        yield folder / "runs"


def test_there_are_notebooks() -> None:
    assert [path.name for path in NOTEBOOKS] == ["calibration_tour.ipynb", "compare_runs.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) > 4
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert "widgets" not in notebook["metadata"]


def code(name: str, marker: str) -> str:
    """The code cell of a notebook that holds `marker`."""
    notebook = json.loads((cli.REPO / f"notebooks/{name}.ipynb").read_text(encoding="utf-8"))
    (found,) = [text for cell in notebook["cells"] if marker in (text := "".join(cell["source"]))]
    return found


def test_the_tour_starts_before_any_temperature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = fake_predictions(4)
    hot = apply(raw, Calibration("one", "global", "rows", {"all": 3.0}))
    write_record(tmp_path / "one", fake_record(predictions=raw), hot)
    monkeypatch.setenv("REFLEX_RUNS", str(tmp_path))
    names: dict[str, Any] = {}
    exec(code("calibration_tour", "frame = "), names)
    for found, own, recorded in zip(
        names["frame"]["probabilities"], raw["probabilities"], hot["probabilities"], strict=True
    ):
        assert list(found) == pytest.approx(own)
        assert list(found) != pytest.approx(recorded)


def test_the_newest_sweep_is_the_one_whose_last_cell_ended_last() -> None:
    """A sweep that was resumed began before the other."""
    table = pd.DataFrame(
        {
            "run": ["a1", "b1", "b2", "a2", "c1"],
            "group": ["a", "b", "b", "a", "c"],
            "name": [""] * 5,
            "word": [""] * 5,
        }
    )
    names: dict[str, Any] = {"table": table, "RUNS": None}
    names |= dict.fromkeys(("read_predictions", "run_folder"), lambda *_: None)
    exec(code("compare_runs", "BASELINE, CANDIDATE = "), names)
    assert (names["BASELINE"], names["CANDIDATE"]) == ("a1", "a2")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_from_top_to_bottom(path: Path, runs: Path) -> None:
    found = execute(path, runs)
    text = json.dumps([cell.get("outputs", []) for cell in found["cells"]])
    assert text.count("image/png") == {"compare_runs": 1, "calibration_tour": 2}[path.stem]
    if path.stem == "compare_runs":
        assert "whether orders=two differs" in text or "than orders=one" in text
        assert "orders=two (stand-in, 24 of 300)" in text
    else:
        assert "a calibrated model would show" in text
        assert "ECE-15 (stand-in, 24 of 300)" in text


def execute(path: Path, runs: Path) -> Any:
    """The executed notebook, started in the notebooks' own folder as people do."""
    client = pytest.importorskip("nbclient", reason="install reflex-systemone[dev]")
    notebook = nbformat.read(path, as_version=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFLEX_RUNS", str(runs))
        patch.delenv("MPLBACKEND", raising=False)  # the kernel draws into the notebook
        client.NotebookClient(
            notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}
        ).execute()
    return notebook
