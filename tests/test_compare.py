"""`task=compare` and `task=calibrate` on recorded runs: what they print, write and refuse. No model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hydra.utils import instantiate

from reflex.calibration import fitted
from reflex.errors import (
    CalibrationError,
    ConfigError,
    ContaminationError,
    DataError,
    RecordError,
)
from reflex.loading import compose, run_folder
from reflex.tasks.smoke import OPTIONS
from reflex.tracking.predictions import predictions_bytes
from reflex.tracking.record import write_record
from tests.calibration_frames import frame
from tests.fake_records import fake_predictions, fake_record

READOUT = {"choice": "label_tokens", "noul": "label_tokens", "score": "label_tokens"}
BACKBONE = {"name": "tiny", "weights_sha256": "w", "adapter_sha256": None, "dtype": "float32"}


def record(runs: Path, name: str, predictions: pd.DataFrame, **changes: Any) -> Path:
    folder = runs / name
    fields: dict[str, Any] = {
        "hash": name * 4,
        "backbone": BACKBONE,
        "config": {"readout": {**READOUT, "label_tokens": {}}, "orders": {"permutations": 2}},
        **changes,
    }
    write_record(folder, fake_record(name, predictions, **fields), predictions)
    return folder


def run(*overrides: str) -> int:
    cfg = compose([*overrides])
    return int(instantiate(cfg.task).run(cfg))


# -- compare --------------------------------------------------------------------------------------


def test_compare_prints_a_table_and_one_sentence(tmp_runs: Path, capsys) -> None:
    record(tmp_runs, "aaaa", fake_predictions(200, seed=1, quality=1.0))
    record(tmp_runs, "bbbb", fake_predictions(200, seed=2, quality=2.5))
    assert run("task=compare", "a=aaaa", "b=bb") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["a = orders=aaaa", "b = orders=bbbb", "600 answers in both, 200 groups"]
    assert [line.split()[0] for line in lines[4:8]] == ["nll", "brier", "accuracy", "McNemar:"]
    assert lines[-1].startswith("orders=bbbb is better than orders=aaaa: NLL -")
    assert run("task=compare", "a=bbbb", "b=aaaa", "task.metric=accuracy") == 0
    assert "orders=aaaa is worse than orders=bbbb: accuracy -" in capsys.readouterr().out


@pytest.mark.parametrize("other", ["bbbb", "aaaa"])  # names that differ, and that do not
def test_compare_says_the_word_beside_its_figures(tmp_runs: Path, capsys, other: str) -> None:
    for name, word in (("aaaa", "exact"), ("bbbb", "stand-in")):
        facts = {"sources": {"ratings": {"word": word, "n": 40, "n_pinned": 300}}}
        data = {"suite": "s1bench", "facts": facts}
        shown = f"orders={other if name == 'bbbb' else name}"
        rows = fake_predictions(10)
        found = fake_record(name, rows, hash=name * 4, data=data, name=shown)
        write_record(tmp_runs / name, found, rows)
    assert run("task=compare", "a=aaaa", "b=bbbb") == 0
    lines = capsys.readouterr().out.splitlines()
    shared = other == "aaaa"
    a = f"orders=aaaa{' (aaaaaaaa)' * shared} (exact, 40 of 300)"
    b = f"orders={other}{' (bbbbbbbb)' * shared} (stand-in, 40 of 300)"
    assert lines[:2] == [f"a = {a}", f"b = {b}"]
    assert lines[-1].startswith(f"Cannot tell whether {b} differs from {a}")


def test_compare_joins_what_both_have_and_says_what_it_left_out(tmp_runs: Path, capsys) -> None:
    record(tmp_runs, "aaaa", fake_predictions(60))
    record(tmp_runs, "bbbb", fake_predictions(40))
    assert run("task=compare", "a=aaaa", "b=bbbb") == 0
    told = capsys.readouterr().out
    assert (
        "120 answers in both, 40 groups; left out because the other run lacks them: 60 of a, 0 of b"
        in told
    )
    assert "Cannot tell whether" in told
    other = fake_predictions(10).assign(item_id=[f"other-{i}" for i in range(30)])
    record(tmp_runs, "cccc", other)
    with pytest.raises(DataError, match="no item in common"):
        run("task=compare", "a=aaaa", "b=cccc")


def test_compare_corrects_for_several(tmp_runs: Path, capsys) -> None:
    for name, quality in (("aaaa", 1.0), ("bbbb", 2.0), ("cccc", 1.0)):
        record(
            tmp_runs, name, fake_predictions(150, seed=len(name) + ord(name[0]), quality=quality)
        )
    assert run("task=compare", "a=aaaa", "b=[bbbb,cccc]") == 0
    sentences = capsys.readouterr().out.splitlines()[-2:]
    assert sentences[0].startswith("orders=bbbb is better than orders=aaaa")
    assert sentences[1].startswith("Cannot tell whether orders=cccc differs")


def test_compare_needs_two_whole_runs(tmp_runs: Path) -> None:
    folder = record(tmp_runs, "aaaa", fake_predictions(10))
    with pytest.raises(ConfigError, match="a=RUN b=RUN"):
        run("task=compare", "a=aaaa")
    with pytest.raises(RecordError, match="neither a folder"):
        run("task=compare", "a=aaaa", "b=zzzz")
    record(tmp_runs, "aabb", fake_predictions(10))
    with pytest.raises(RecordError, match=r"several records match \(aaaa, aabb\)"):
        run("task=compare", "a=aaaa", "b=aa")
    write_record(tmp_runs / "ffff", fake_record("ffff", status="failed", error="no memory"))
    with pytest.raises(RecordError, match="the cell failed: no memory"):
        run("task=compare", "a=aaaa", "b=ffff")
    assert run_folder(folder) == folder
    assert run_folder("aaaa", tmp_runs) == folder


# -- calibrate ------------------------------------------------------------------------------------


def test_calibrate_fits_a_recorded_run_and_writes_the_file(tmp_runs: Path, capsys) -> None:
    rows = pd.concat(
        [
            frame(200, temperature=3.0, orders=2, hard=False),
            frame(100, temperature=3.0, orders=2, hard=False, split="report", seed=7),
        ],
        ignore_index=True,
    ).assign(item_id=[f"i{i}" for i in range(300)])
    folder = record(tmp_runs, "aaaa", rows)
    assert run("task=calibrate", "task.from_run=aaaa", "calibration=transfer") == 0
    lines = capsys.readouterr().out.splitlines()
    path = Path(lines[-1].removeprefix("calibration: "))
    assert path == folder / "calibration-transfer.json"
    found = fitted.read(path)
    temperature, bucket = found.temperature("choice", "label_tokens", 4)
    assert bucket == "choice:label_tokens:le8"
    assert temperature == pytest.approx(3.0, rel=1e-3)
    assert found.fitted_on["n"] == 200
    assert found.fitted_on["splits"] == ["fit"]
    assert found.fitted_on["backbone"] == BACKBONE
    assert found.fitted_on["data_sha256"] == "00ff"
    assert found.fitted_on["prompt_hash"] == "ab12cd34"
    assert found.details["all"]["transfer"]["chosen"] in ("rows", "families")
    report = found.errors["report"]
    assert report["raw"]["n"] == 100
    assert report["fitted"]["nll"] < report["raw"]["nll"]
    told = "\n".join(lines)
    for name in ("before", "other rows of the same families", "a family it was not fitted on"):
        assert name in told
    # The recorded scores are raw: fitting the run again, or one that was calibrated, is the same fit.
    again = f"task.path={folder}/x.json"
    assert run("task=calibrate", "task.from_run=aaaa", again, "calibration=transfer") == 0
    assert json.loads((folder / "x.json").read_text()) == json.loads(path.read_text())


def test_calibrate_reads_fit_rows_kept_beside_the_predictions(tmp_runs: Path) -> None:
    folder = record(tmp_runs, "aaaa", frame(40, split="report"))
    (folder / "fit_predictions.parquet").write_bytes(
        predictions_bytes(frame(80, temperature=2.0, hard=False, seed=1))
    )
    assert run("task=calibrate", "task.from_run=aaaa", "calibration=global") == 0
    found = fitted.read(folder / "calibration-global.json")
    assert found.temperatures["all"] == pytest.approx(2.0, rel=1e-3)


def test_calibrate_reports_a_prior_on_measured_rows(tmp_runs: Path) -> None:
    places = (2.0, 0.0, 0.0, -2.0)
    parts = [
        frame(100, temperature=1.0, orders=2, places=places, hard=False, split=split, seed=seed)
        for seed, split in enumerate(("fit", "report"))
    ]
    rows = pd.concat(parts, ignore_index=True).assign(item_id=[f"i{i}" for i in range(200)])
    folder = record(tmp_runs, "aaaa", rows)
    assert run("task=calibrate", "task.from_run=aaaa", "calibration=position_prior") == 0
    report = fitted.read(folder / "calibration-position_prior.json").errors["report"]
    # Without place effects the scores are the label's own logits: nothing is lost but its entropy.
    entropy = [-sum(t * np.log(t) for t in target) for target in parts[1]["target"]]
    assert report["fitted"]["nll"] == pytest.approx(float(np.mean(entropy)), abs=1e-6)
    assert report["raw"]["nll"] > report["fitted"]["nll"] + 0.05


def test_a_content_free_prior_is_of_the_rows_that_the_run_has_read(
    tmp_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a recorded run and inside one, the prior is estimated from the same questions."""
    from reflex import build
    from reflex.tasks import fitting

    names = ("fit", "shared", "report", "boolq")
    file = tmp_runs / "tasks.jsonl"
    options = dict.fromkeys(map(str, range(50)))
    question = {"type": "choice", "instructions": "?", "criteria": options}
    lines = [
        {"id": name, "state": name, "questions": {"q": question}, "labels": {"q": "0"}}
        for name in names
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = pd.concat([frame(40, hard=False), frame(40, hard=False, split="report", seed=1)])
    rows["item_id"] = ["fit"] * 40 + ["report"] * 39 + ["boolq"]
    rows["question_id"] = [f"q{i}" for i in range(80)]
    rows["source"] = ["mine"] * 79 + ["boolq"]  # "shared" was left out when the run was made
    suite = {"_target_": "reflex.benchmarks.task_file.TaskFile", "name": "mine", "path": str(file)}
    config = {
        "readout": {**READOUT, "label_tokens": {}},
        "orders": {"permutations": 2},
        "benchmark": suite,
        "smoke": True,
    }
    record(tmp_runs, "aaaa", rows, config=config)
    asked: list[Any] = []

    def probes(calibration: Any, decider: Any, rows: list[Any], batch_tokens: Any) -> pd.DataFrame:
        asked.append(rows)
        return frame(24, orders=6)

    monkeypatch.setattr(build, "build_uncalibrated", lambda cfg: None)
    monkeypatch.setattr(fitting, "read_content_free", probes)
    words = ("calibration=position_prior_content_free", "calibration.min_rows=4")
    assert run("task=calibrate", "task.from_run=aaaa", *words) == 0
    assert [row.id for row in asked[0]] == ["fit", "report", "boolq"]
    assert {len(row.questions["q"].criteria) for row in asked[0]} == {
        OPTIONS
    }  # smoke's lists are short


def test_calibrate_refuses_what_it_cannot_fit_on(tmp_runs: Path) -> None:
    record(tmp_runs, "aaaa", frame(40, split="report"))
    with pytest.raises(CalibrationError, match=r"no rows of split fit \(only report\)"):
        run("task=calibrate", "task.from_run=aaaa", "calibration=global")
    nothing = "calibration=none: nothing to fit; use one of global, .*position_prior_content_free"
    with pytest.raises(ConfigError, match=nothing):
        run("task=calibrate", "task.from_run=aaaa")
    folder = record(tmp_runs, "cccc", frame(60))
    (folder / "predictions.parquet").write_bytes(predictions_bytes(frame(60, seed=5)))
    with pytest.raises(RecordError, match="not the predictions its record was written with"):
        run("task=calibrate", "task.from_run=cccc", "calibration=global")
    write_record(tmp_runs / "ffff", fake_record("ffff", status="failed", error="no memory"))
    with pytest.raises(RecordError, match=r"it failed \(no memory\)"):
        run("task=calibrate", "task.from_run=ffff", "calibration=global")
    record(tmp_runs, "bbbb", frame(60).assign(source="google/boolq"))
    with pytest.raises(ContaminationError, match="boolq"):
        run("task=calibrate", "task.from_run=bbbb", "calibration=global")


def test_calibrate_warns_when_an_unseen_family_gets_worse(tmp_runs: Path, capsys) -> None:
    planted = {"a": 3.0, "b": 3.0, "c": 0.8}
    rows = frame(300, temperature=planted, families=("a", "b", "c"), hard=False)
    record(tmp_runs, "aaaa", rows)
    assert run("task=calibrate", "task.from_run=aaaa", "calibration=type") == 0
    assert "warning: fitted without c, it makes c worse: NLL" in capsys.readouterr().out
