"""Sweeps whose cells run elsewhere: the same records, the same page, and a failed cell still counts."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reflex.tracking.record import Found, find_records
from tests import cli

pytest.importorskip("ray", reason="needs the extra `sweep`")
pytestmark = pytest.mark.slow

LAUNCHERS = {
    "joblib": ["launcher=joblib"],
    # Slurm's jobs on this machine: submitit's local executor.
    "submitit": ["launcher=submitit", "hydra/launcher=submitit_local"],
    "ray": ["launcher=ray", "+hydra.launcher.ray.init.num_cpus=2"],
}
MEASURED = {"started", "finished", "wall_s", "cost", "command", "git"}
"""Fields of a record that say when, how fast and from which checkout, not what."""
NO_ORDER = "orders.permutations=0: must be at least 1"


@pytest.fixture(scope="module")
def ray_folder() -> Iterator[str]:
    """A short path: ray puts sockets below it, whose names may have 107 characters."""
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory, ray_folder: str) -> Any:
    """Runs the sweep, one of whose cells cannot work, in a folder: (exit status, stdout, stderr)."""
    tasks = cli.write_tasks(tmp_path_factory.mktemp("tasks") / "tasks.jsonl")
    results = tmp_path_factory.mktemp("results")
    environment = {
        # Two threads add in another order than one, and launchers set their number.
        "OMP_NUM_THREADS": "1",
        "RAY_TMPDIR": ray_folder,
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
    }

    def run(runs: Path, *words: str) -> tuple[int, str, str]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**environment, "REFLEX_RUNS": str(runs)}.items():
                patch.setenv(name, value)
            process = cli.start(
                *("-m", "debug=smoke", "benchmark=task_file", f"benchmark.path={tasks}"),
                *(f"results_dir={results}", "tracker=none", *words),
            )
        out, err = process.communicate(timeout=600)
        return process.returncode, out, err

    return run


@pytest.fixture(scope="module")
def serial(sweep: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    runs = tmp_path_factory.mktemp("serial") / "runs"
    status, out, err = sweep(runs, "orders.permutations=0,1,2")
    assert status == 1, err
    return runs, out


def cells(runs: Path) -> dict[str, Found]:
    return {cell.record.name: cell for cell in find_records(runs).found}


def page(out: str) -> str:
    last = out.splitlines()[-1]
    assert last.startswith("page: "), out
    return Path(last.removeprefix("page: ")).read_text()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launched_sweep_ends_as_a_serial_one(
    launcher: str, sweep: Any, serial: Any, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    words = LAUNCHERS[launcher]
    status, out, err = sweep(runs, "orders.permutations=0,1,2", *words)
    assert status == 1, err
    assert f"failed: orders.permutations=0: {NO_ORDER}" in out
    assert f"error: orders.permutations=0 failed: {NO_ORDER}" in err
    text = page(out)
    assert "## Failed cells" in text
    assert NO_ORDER in text
    ours, theirs = cells(runs), cells(serial[0])
    assert {name: cell.record.status for name, cell in ours.items()} == {
        "orders.permutations=0": "failed",
        "orders.permutations=1": "finished",
        "orders.permutations=2": "finished",
    }
    for name, cell in ours.items():
        assert cell.path.name == theirs[name].path.name, "the same hash"
        left = cell.record.model_dump(exclude=MEASURED)
        right = theirs[name].record.model_dump(exclude=MEASURED)
        for record in (left, right):
            record["config"].pop("runs_dir")
        assert left == right
        assert words[0] in str(cell.record.command), (
            "the command, not that of the process it started"
        )
        if cell.record.status == "finished":
            own, other = (
                cell.path / "predictions.parquet",
                theirs[name].path / "predictions.parquet",
            )
            assert own.read_bytes() == other.read_bytes()
            assert cell.record.hash[:16] in text


def test_a_second_start_finds_the_cells_recorded_and_succeeds(
    sweep: Any, serial: Any, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(serial[0], runs)
    status, out, err = sweep(runs, "orders.permutations=1,2", "launcher=joblib")
    assert status == 0, err
    assert err.count("already recorded") == 2
    assert "Failed cells" not in page(out)


def test_a_failed_cell_that_leaves_no_record_makes_the_command_fail(
    sweep: Any, tmp_path: Path
) -> None:
    status, _, err = sweep(tmp_path, "task=train", "seed=0,1", "launcher=joblib")
    assert status == 1
    assert err.splitlines()[-1].startswith("error: seed=0 failed: mixture: choose what to train on")
