"""`task=train_evaluate`: cells of a sweep that train, and are ordinary records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reflex.contract import parse_question
from reflex.errors import CalibrationError, DataError
from reflex.loading import compose
from reflex.tasks.train import Train
from reflex.tasks.train_evaluate import curve, training_folder, with_training
from reflex.tasks.trained_files import trained_files
from reflex.tracking.record import find_records, read_record
from tests.cli import run
from tests.wandb_offline import offline_runs, read_offline

TRACKED = (
    *("task=train_evaluate", "mixture=embedded", "readout=pointer", "benchmark=tickets"),
    "debug=smoke",
)
TINY = (*TRACKED, "tracker=none")


def test_curve_keeps_the_last_run_of_a_step(tmp_path: Path) -> None:
    lines = [(5, 2.0), (10, 1.0), (10, 0.5), (95, 0.25), (100, 0.75)]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({"step": s, "loss": v}) + "\n" for s, v in lines))
    assert curve(log, 100) == [[0.1, 1.25], [1.0, 0.5]]
    with log.open("a") as file:  # what a kill leaves of lines
        file.write(
            '{"step": 99, "lo\n{"step": 98}\n7\n{"step": null, "loss": 1}\n{"step": 97, "loss": '
        )
    assert curve(log, 100) == [[0.1, 1.25], [1.0, 0.5]]
    assert curve(tmp_path / "none", 100) == []


@pytest.mark.slow
def test_a_sweep_of_trainings_is_cells_that_stand_alone(data_root, tmp_runs, monkeypatch) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    swept = run("-m", *TINY, "train=frozen,lora", "mixture.large_share=0.2,0.4")
    assert swept.status == 0, swept.err
    cells = {cell.record.name: cell for cell in find_records(tmp_runs).found}
    assert sorted(cells) == [
        *("train=frozen,mixture.large_share=0.2", "train=frozen,mixture.large_share=0.4"),
        *("train=lora,mixture.large_share=0.2", "train=lora,mixture.large_share=0.4"),
    ]
    trained = cells["train=lora,mixture.large_share=0.2"].record
    assert trained.task == "train_evaluate"
    assert trained.axes["train"] == "lora"
    assert {cell.record.axes["mixture"] for cell in cells.values()} == {"embedded"}
    assert trained.backbone["adapter_sha256"]
    assert cells["train=frozen,mixture.large_share=0.2"].record.backbone["adapter_sha256"] is None
    facts = trained.data["training"]
    assert facts["shares"]["banking77"] == pytest.approx(0.2)
    assert facts["curve"][-1][0] == 1.0

    alone = run(*TINY, "train=lora", "mixture.large_share=0.2")
    assert alone.status == 0
    assert "already recorded" in alone.err
    assert len(list(tmp_runs.glob("*/record.json"))) == 3  # what is frozen has no mixture: one cell

    trainings = {path.parent for path in tmp_runs.glob("*/training.json")}
    other = run(*TINY, "train=lora", "mixture.large_share=0.2", "benchmark=question_sensitivity")
    assert other.status == 0, other.err
    assert "already trained" in other.err
    assert {path.parent for path in tmp_runs.glob("*/training.json")} == trainings

    # Another rate is another training and another cell; how often it is saved is neither.
    watched = run(*TINY, "train=lora", "mixture.large_share=0.2", "train.checkpoint_minutes=1")
    assert "already recorded" in watched.err
    faster = run(*TINY, "train=lora", "mixture.large_share=0.2", "train.lr=1e-3")
    assert faster.status == 0
    assert len(list(tmp_runs.glob("*/training.json"))) == len(trainings) + 1


@pytest.mark.slow
def test_a_trained_cell_answers_as_it_was_measured(data_root, tmp_runs, monkeypatch) -> None:
    import reflex
    from reflex.tracking.predictions import read_predictions

    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    done = run(*TINY, "train=lora")
    assert done.status == 0, done.err
    (record,) = tmp_runs.glob("*/record.json")
    assert read_record(record.parent).config["backbone"]["adapter"]
    rows = read_predictions(record.parent)
    from reflex.benchmarks.tickets import Tickets

    row = next(row for row in Tickets().load().rows if row.id == rows["item_id"][0])
    questions = {name: question.model_dump() for name, question in row.questions.items()}
    answers = reflex.load(str(record.parent)).decide(
        [reflex.contract.parse_request({"state": row.state, "questions": questions})]
    )[0]
    for _, found in rows[rows["item_id"] == row.id].iterrows():
        wanted = list(found["probabilities"])
        assert list(answers[found["question_id"]].probabilities) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.slow
def test_trained_weights_and_heads_are_in_the_artifacts(
    data_root, tmp_runs, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))

    def sent(*words: str) -> dict[str, list[str]]:
        """Kind of run → files of its artifact, of the runs that this command made."""
        before = {*offline_runs(tmp_path)}
        done = run(*TRACKED, *words)
        assert done.status == 0, done.err
        found = {}
        for path in {*offline_runs(tmp_path)} - before:
            each = read_offline(path)
            assert each["state"] == "finished"
            found[each["job_type"]] = each["artifacts"][f"run-{each['config']['hash'][:12]}"]
        return found

    adapter = ["adapter/adapter_config.json", "adapter/adapter_model.safetensors"]
    record = ["predictions.parquet", "record.json"]
    head = "heads/pointer.safetensors"
    assert sent("train=lora") == {
        "train": [*adapter, "heads.safetensors", "training.json"],
        "train_evaluate": [*adapter, head, *record],
    }
    whole = sent("train=full")
    assert "backbone/model.safetensors" in whole["train"]
    assert {"backbone/model.safetensors", head, *record} < {*whole["train_evaluate"]}
    assert sent("train=frozen") == {"train_evaluate": record}


def test_a_child_of_a_training_does_not_wait_for_what_the_first_process_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    trained: list[str] = []
    monkeypatch.setattr(Train, "run", lambda self, cfg: trained.append(cfg.task.name))
    cfg = compose([*TINY[:-2], "train=lora", f"runs_dir={tmp_path}"])
    assert with_training(cfg) == cfg
    assert trained == ["train"]


def test_a_head_was_trained_where_it_lies_whatever_it_was_trained_on(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "training.json").touch()
    words = ["task=train_evaluate", "mixture=embedded", "readout=pointer", "train=head"]
    words.append(f"backbone.adapter={old}/adapter")
    assert training_folder(compose(words)) == old
    assert training_folder(compose([*words, f"readout.pointer.weights={new}/heads.st"])) == new
    whole = [*words[:3], "train=full", f"backbone.path={new}/backbone"]
    assert training_folder(compose(whole)) == new
    assert training_folder(compose(words[:-1])) is None


def test_only_what_is_here_and_trained_is_sent(tmp_path: Path) -> None:
    folder = tmp_path / "training"
    (folder / "adapter").mkdir(parents=True)
    (folder / "backbone").mkdir()
    heads, fitted = folder / "heads.safetensors", tmp_path / "calibration.json"
    heads.touch()
    fitted.touch()
    words = [
        *(
            "readout=pointer",
            f"readout.pointer.weights={heads}",
            f"backbone.path={folder}/backbone",
        ),
        *("calibration=global", f"calibration.path={tmp_path}"),
    ]
    sent = {"heads/pointer.safetensors": heads, "calibration.json": fitted}
    assert trained_files(compose([*words, "backbone.adapter=some/hub-id"])) == sent
    (folder / "training.json").touch()
    assert trained_files(compose([*words, f"backbone.adapter={folder}/adapter"])) == {
        **sent,
        "adapter": folder / "adapter",
        "backbone": folder / "backbone",
    }
    assert trained_files(compose([])) == {}


def test_nothing_is_fitted_on_what_was_trained_on(tmp_path, monkeypatch, caplog) -> None:
    """By item, and by text from another source; held-out rows to report on stay, and so do rows of few words."""
    from reflex.benchmarks.base import Suite
    from reflex.data.rows import Row, write_jsonl
    from reflex.tasks import evaluate
    from reflex.tasks.train_evaluate import TrainEvaluate

    question = {"q": parse_question({"type": "noul", "instructions": "Is it so?"})}
    label = {"q": {"true": 1.0, "false": 0.0}}

    def row(name: str, state: Any, split: str) -> Row:
        return Row(name, state, question, label, source=name.partition("/")[0], split=split)

    long = "A text of more than four words."
    training = [
        row("ratings/1#0.0", "short", "train"),
        row("reviews/7#0.0", {"text": long}, "train"),
        row("ratings/9#0.0", "behind the budget of this training", "train"),
    ]
    write_jsonl(tmp_path / "rows.jsonl", training)
    (tmp_path / "training.json").write_text('{"rows": 2}')
    fit = [
        row("ratings/1", "short", "fit"),
        row("ratings/2", f" {long.upper()} ", "fit"),
        row("ratings/3", "short", "fit"),
        row("ratings/9", "behind the budget of this training", "fit"),
    ]
    report = [row("ratings/4", long, "report")]
    suites = [Suite("halves", [*fit, *report], {"n": 1})]
    monkeypatch.setattr(evaluate, "load_suite", lambda cfg: suites[-1])
    words = ["task=train_evaluate", "mixture=embedded", "train=lora", "readout=pointer"]
    words += [f"readout.pointer.weights={tmp_path / 'heads.safetensors'}"]
    fitting = compose([*words, "calibration=global"])
    found = TrainEvaluate().read_suite(fitting)
    assert [each.id for each in found.rows] == ["ratings/3", "ratings/9", "ratings/4"]
    assert found.facts == {"n": 1, "trained_on": {"ratings": 2}}
    assert "benchmark=halves: 2 rows of split fit were trained on and are left out" in caplog.text
    plain = compose([*words, "calibration=none"])
    assert TrainEvaluate().read_suite(plain) == found
    suites.append(Suite("halves", [*fit[:2], *report], {}))
    assert TrainEvaluate().read_suite(plain).rows == report
    with pytest.raises(CalibrationError, match=r"calibration=global .* none of split fit"):
        TrainEvaluate().read_suite(fitting)
    suites.append(Suite("halves", fit[:2], {}))
    with pytest.raises(DataError, match=r"benchmark=halves: every row was trained on"):
        TrainEvaluate().read_suite(plain)
    suites.append(Suite("apart", [*fit[2:], *report], {}))
    assert TrainEvaluate().read_suite(fitting) is suites[-1]


def test_what_cannot_be_trained_is_refused_before_anything_is_read(tmp_runs) -> None:
    words = ("task=train_evaluate", "benchmark=tickets", "backbone=tiny_llama", "tracker=none")
    missing = run(*words)
    assert (missing.status, missing.err.strip()) == (
        1,
        "error: mixture: choose what to train on, e.g. mixture=embedded",
    )
    nowhere = run(*words, "mixture=embedded", "readout=pointer", "backbone.adapter=some/folder")
    assert nowhere.status == 1
    assert "backbone.adapter=some/folder: neither a local folder nor" in nowhere.err
    nothing = run("task=train", "mixture=embedded", "train=frozen", "backbone=tiny_llama")
    assert "train=frozen: trains nothing" in nothing.err
