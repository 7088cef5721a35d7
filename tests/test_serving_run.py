"""What was measured is what is served: a recorded run's predictions, item by item, over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.serve_process import Server, numbers
from tests.conftest import REPO
from tests.serving import CHOICE, NOUL, SCORE, get, post

pytestmark = pytest.mark.slow


def test_http_answers_are_the_runs_predictions(tmp_path: Path, tmp_runs: Path) -> None:
    import pandas as pd

    tasks = tmp_path / "tickets.jsonl"
    rows: list[dict[str, Any]] = [
        {
            "id": f"t{i}",
            "state": {"ticket": f"Order {i} is {'late ' * (1 + 9 * (i % 4))}and nobody answers."},
            "questions": {"refund": NOUL, "team": CHOICE, "anger": SCORE},
            "labels": {"refund": bool(i % 2), "team": "Billing", "anger": i % 3},
        }
        for i in range(12)
    ]
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = subprocess.run(
        [sys.executable, "-m", "reflex.run", "backbone=tiny_llama", "device.dtype=float32"]
        + ["orders=four", "benchmark=task_file", f"benchmark.path={tasks}", "tracker=none"],
        cwd=REPO,
        env={**os.environ, "REFLEX_RUNS": str(tmp_runs)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    (record,) = tmp_runs.glob("*/record.json")
    predictions = pd.read_parquet(record.parent / "predictions.parquet")
    assert len(predictions) == 36
    with Server(f"run={record.parent}") as server:
        health = get(server.url, "/health")[1]
        assert health["run"] == json.loads(record.read_text())["hash"]
        assert health["orders"]["permutations"] == 4
        for row in rows:
            status, reply, _ = post(
                server.url, {"state": row["state"], "questions": row["questions"]}
            )
            assert status == 200
            assert reply["x_run"] == health["run"]
            for question_id, answer in reply["answers"].items():
                own = predictions[
                    predictions.item_id.str.endswith(row["id"])
                    & (predictions.question_id == question_id)
                ]
                measured = dict(zip(own["keys"].iloc[0], own["probabilities"].iloc[0], strict=True))
                served = numbers({question_id: answer})
                wanted = [measured["true"]] if answer["type"] == "noul" else list(measured.values())
                assert served == pytest.approx(wanted, abs=1e-5), (row["id"], question_id)
