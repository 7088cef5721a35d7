"""What a release is made of, and what its card says; without a model."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from reflex.data.jsonl import write_lines
from reflex.data.rows import Row, write_jsonl
from reflex.errors import ConfigError, ContaminationError, RecordError
from reflex.files import write_folder
from reflex.metrics.intervals import mean_interval
from reflex.release import manifest_of
from reflex.reporting.sources import mean_ece_text
from reflex.tasks.lineage import ROWS, all_trained_on, part_folders
from reflex.tasks.release import Release, contamination, copy_parts, guard_report
from reflex.tasks.release_card import card
from reflex.tracking.record import Found, find_records, read_record, write_record
from tests.fake_records import fake_predictions, fake_record

EMBEDDED = Path("releases/embedded")


def configured(heads: dict[str, Path], **backbone: str) -> dict[str, Any]:
    """A recorded configuration whose readouts `pointer` and `candidates` have these heads."""
    return {
        "backbone": {"name": "tiny", "source": "random", "path": "llama", **backbone},
        "readout": {
            "choice": "pointer",
            "noul": "candidates",
            "score": "candidates",
            **{name: {"weights": str(path)} for name, path in heads.items()},
        },
        "calibration": {},
    }


def heads_of(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / name / "heads.safetensors" for name in ("pointer", "candidates")}
    for name, path in found.items():
        path.parent.mkdir()
        path.write_text(name)
    return found


@pytest.mark.parametrize("source", ["folder", "gguf"])
def test_a_backbone_of_this_machine_alone_is_not_released(source: str, tmp_path: Path) -> None:
    frame, out = fake_predictions(), tmp_path / "out"
    record = fake_record("one", frame, config=configured(heads_of(tmp_path), source=source))
    write_record(tmp_path / "run", record, frame)
    task = Release(run_id=str(tmp_path / "run"), out=str(out))
    with pytest.raises(ConfigError, match=rf"source={source} exists only on this machine"):
        task.run(OmegaConf.create({"runs_dir": str(tmp_path)}))
    assert not out.exists()


def test_a_run_of_a_server_is_not_released(tmp_path: Path) -> None:
    remote = fake_record(config={"backbone": None}, served={"base_url": "http://there"})
    (tmp_path / "record.json").write_text(remote.to_json())
    with pytest.raises(RecordError, match="came from http://there"):
        Release(run_id=str(tmp_path), out=str(tmp_path / "out")).run(
            OmegaConf.create({"runs_dir": str(tmp_path)})
        )
    assert not (tmp_path / "out").exists()


def test_heads_of_two_files_are_two_files(tmp_path: Path) -> None:
    heads = heads_of(tmp_path)
    two, one = tmp_path / "two", tmp_path / "one"
    for folder in (two, one):
        folder.mkdir()
    parts, _ = copy_parts(two, tmp_path, fake_record(config=configured(heads)))
    assert parts == {f"readout.{name}.weights": f"heads-{name}.safetensors" for name in heads}
    assert {name: (two / f"heads-{name}.safetensors").read_text() for name in heads} == {
        name: name for name in heads
    }
    shared = dict.fromkeys(heads, heads["pointer"])
    parts, _ = copy_parts(one, tmp_path, fake_record(config=configured(shared)))
    assert parts == dict.fromkeys(
        (f"readout.{name}.weights" for name in heads), "heads.safetensors"
    )
    assert [path.name for path in one.iterdir()] == ["heads.safetensors"]


def test_a_folder_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"

    def write(text: str) -> None:
        with write_folder(place) as work:
            (work / text).write_text(text)

    write("old")
    rename = os.rename

    def refused(source: Path, target: Path) -> None:
        if Path(target) == place and Path(source).suffix != ".old":
            raise OSError("no")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(OSError, match="no"):
        write("new")
    assert [path.name for path in tmp_path.rglob("*")] == ["place", "old"]
    monkeypatch.undo()
    write("new")
    assert [path.name for path in tmp_path.rglob("*")] == ["place", "new"]
    assert (place.stat().st_mode & 0o777, (place / "new").stat().st_mode & 0o777) == (0o755, 0o644)


# -- the marks of the embedded release, from the committed records -----------------------------------

MARKS = {"banking77": 0.70, "emotion": 0.75, "mmlu": 0.33}
FOUR = ("vitaminc-dev", "massive-en-US", "boolq", "paws")
WRITTEN = {
    "banking77": "banking77, 77 options",
    "emotion": "emotion, 6 options",
    "mmlu": "MMLU (stand-in)",
    "vitaminc-dev": "vitaminc (stand-in)",
    "massive-en-US": "massive-en-US (exact)",
    "boolq": "boolq (exact)",
    "paws": "paws (stand-in)",
}
"""Source → its row of the table in experiments/release_over_http.md."""


@pytest.fixture(scope="module")
def cells(repo: Path) -> dict[str, Found]:
    """The recorded cells of release_over_http by model: `local` (frozen) and `remote` (the release)."""
    listing = find_records(repo / "results/records/release_over_http", "release_over_http")
    assert listing.problems == []
    return {cell.record.axes["model"]: cell for cell in listing.found}


def test_what_was_asked_over_http_is_the_committed_release(cells: dict[str, Found]) -> None:
    manifest, record = manifest_of(EMBEDDED), cells["remote"].record
    assert manifest is not None
    assert record.served is not None
    told = record.served["health"]
    assert {key: told[key] for key in ("run", "adapter", "readout", "orders")} == {
        "run": read_record(EMBEDDED).hash,
        "adapter": manifest["files"]["adapter/adapter_model.safetensors"],
        "readout": manifest["readout"],
        "orders": manifest["orders"],
    }
    assert told["run"] == manifest["run"]
    assert told["backbone"]["weights_sha256"] == manifest["base"]["weights_sha256"]
    assert told["prompt"]["hash"] == record.prompt_hash == manifest["prompt"]["sha256"]
    assert told["calibration"] == json.loads((EMBEDDED / "calibration.json").read_text())["name"]


def test_the_marks_that_are_called_reached_are(cells: dict[str, Found]) -> None:
    record = cells["remote"].record
    by, facts = record.by["source"], record.data["facts"]["sources"]
    assert set(by) == set(facts) == {*MARKS, *FOUR}
    for name, mark in MARKS.items():
        assert by[name]["accuracy"]["value"] >= mark, name
    assert (facts["banking77"]["options"], facts["banking77"]["n"]) == ([77], 300)
    assert (facts["emotion"]["options"], facts["emotion"]["n"]) == ([6], 300)
    assert facts["mmlu"]["reason"] == "600 of 600 items of test_600.jsonl"
    ece = statistics.mean(by[name]["ece_10"]["value"] for name in facts)
    assert ece <= 0.08
    told = mean_ece_text([cells["remote"]])
    assert "mean ECE-10 over 7 sources" in told
    assert f" {ece:.4f} (calibrated: " in told


def test_the_mark_that_was_missed_is_told_as_measured(cells: dict[str, Found], repo: Path) -> None:
    by = {name: cell.record.by["source"] for name, cell in cells.items()}
    accuracy = {
        name: statistics.mean(own[source]["accuracy"]["value"] for source in FOUR)
        for name, own in by.items()
    }
    assert accuracy["remote"] < 0.56
    table = {
        line[0]: line[1:]
        for line in (
            [part.strip() for part in text.strip("|").split("|")]
            for text in (repo / "experiments/release_over_http.md").read_text().splitlines()
            if text.startswith("|")
        )
    }

    def figure(value: float) -> str:
        return f"{value:.3f}".removeprefix("0")

    def with_interval(entry: Mapping[str, Any]) -> str:
        return f"{figure(entry['value'])} [{figure(entry['low'])}, {figure(entry['high'])}]"

    for source, written in WRITTEN.items():
        release, _, frozen, _, n = table[written]
        own = by["remote"][source]["accuracy"]
        assert (release, n) == (with_interval(own), str(own["n"])), source
        assert frozen == figure(by["local"][source]["accuracy"]["value"]), source
    pooled = [by["remote"][source]["accuracy"] for source in FOUR]
    release, wanted, frozen, _, _ = table["mean of the last four"]
    assert release == with_interval({"value": accuracy["remote"], **mean_interval(pooled)})
    assert (wanted, frozen) == (".56", figure(accuracy["local"]))
    ece = [statistics.mean(each["ece_10"]["value"] for each in own.values()) for own in by.values()]
    release, wanted, frozen, *_ = table["mean `ece_10` of the seven"]
    assert {release, frozen} == {figure(value) for value in ece}
    assert wanted == ".08"
    text = (repo / "experiments/release_over_http.md").read_text()
    assert "Not reached: the mean of the four." in text


# -- the card ---------------------------------------------------------------------------------------


def test_the_card_of_the_embedded_release_is_what_the_code_writes() -> None:
    manifest = manifest_of(EMBEDDED)
    assert manifest is not None
    calibration = json.loads((EMBEDDED / "calibration.json").read_text())
    own = (EMBEDDED / "README.md").read_text()
    assert card(manifest, calibration, EMBEDDED) == own
    (all_rows,) = [line for line in own.splitlines() if line.startswith("| all | 0.6")]
    assert all_rows.split(" | ")[1:] == [
        "0.6289 (0.596 to 0.660)",
        "0.9187 (0.850 to 0.987)",
        "0.4582 (0.429 to 0.488)",
        "0.0423 (cal. 0.029, ≤ 0.043)",
        "0.0511 (cal. 0.036, ≤ 0.051) |",
    ]
    assert (
        "mmlu/test_600.jsonl (600). A benchmark's rows that are not in these files were not compared with: there were "
        "600 items of MMLU's test split, and samples of multinli, pubmedqa, squad2. civil_comments, aegis2, "
        "helpsteer2 had none and were refused by name alone. The 30000 rows"
    ) in own
    assert contamination(manifest["training"], calibration) == manifest["contamination"]
    titled = card({**manifest, "name": "Another title"}, calibration, Path("elsewhere/it"))
    assert titled.startswith("# Another title\n")
    assert "\npython -m reflex.serve run=elsewhere/it\n" in titled


@pytest.mark.parametrize(
    ("splits", "calibrated", "told"),
    [
        ({"report": 900}, True, "No row that the temperatures were fitted on is among them."),
        (
            {"fit": 30},
            True,
            "**30 of them are on rows of split fit, which temperatures are fitted on.**",
        ),
        ({"report": 900}, False, ""),
    ],
)
def test_the_card_says_whether_temperatures_were_fitted_on_what_is_measured(
    splits: dict[str, int], calibrated: bool, told: str
) -> None:
    manifest = manifest_of(EMBEDDED)
    assert manifest is not None
    calibration = json.loads((EMBEDDED / "calibration.json").read_text()) if calibrated else None
    text = card({**manifest, "measured_splits": splits}, calibration, EMBEDDED)
    (line,) = [line for line in text.splitlines() if line.startswith("95 % intervals")]
    assert line.partition("95th percentile).")[2].strip() == told


def test_a_row_whose_question_holds_benchmark_text_is_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(tmp_path))
    evidence = "The quick brown fox jumps over the lazy dog near the river"
    folder = tmp_path / "s1bench"
    folder.mkdir()
    write_lines(folder / "vitaminc.jsonl", [{"id": "v", "evidence": "unlike", "claim": evidence}])
    adapter = tmp_path / "run" / "adapter"
    adapter.mkdir(parents=True)
    record = fake_record(config=configured({}, adapter=str(adapter)))

    def prepared(instructions: str) -> None:
        question = {"type": "noul", "instructions": instructions}
        row = {"id": "r1", "state": "A text.", "questions": {"q": question}, "labels": {"q": True}}
        write_jsonl(adapter.parent / ROWS, [Row.from_json(row)])

    prepared("Is it so?")
    assert guard_report(record) == {
        "benchmark_rows": {"s1bench/vitaminc.jsonl": 1},
        "trained_rows_checked": 1,
    }
    prepared(f"{evidence}? Does the passage say so?")
    with pytest.raises(ContaminationError, match=r"row r1 and 0 more share text with a benchmark"):
        guard_report(record)


def question_rows(folder: Path, source: str, instructions: str = "Is it so?") -> None:
    question = {"type": "noul", "instructions": instructions}
    row = {"id": source, "state": "A text.", "questions": {"q": question}, "labels": {"q": True}}
    write_jsonl(folder / ROWS, [Row.from_json({**row, "source": source})])


def trained(folder: Path, source: str, allow: list[str], **facts: Any) -> Path:
    """The folder of a training of one row."""
    folder.mkdir()
    training = {"rows": 1, "steps": 2, "tokens": 30, **facts}
    mixture = {"sources": {source: {"rows": 1, "times_seen": 1.0, "family": source}}}
    config = {"train": {"method": "x"}, "mixture": {"allow": allow}}
    for name, each in (("training", training), ("mixture", mixture), ("config", config)):
        (folder / f"{name}.json").write_text(json.dumps(each))
    question_rows(folder, source)
    (folder / "adapter").mkdir()
    (folder / "heads.safetensors").write_text(source)
    return folder


@pytest.mark.parametrize("gone_on", [True, False])
def test_a_head_over_an_older_adapter_tells_and_guards_both_trainings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone_on: bool
) -> None:
    old = trained(tmp_path / "old", "emotion", [])
    before = {"went_on_from": str(old)} if gone_on else {}
    new = trained(tmp_path / "new", "sst5", ["boolq"], **before)
    config = configured({"pointer": new / "heads.safetensors"}, adapter=str(old / "adapter"))
    config["readout"]["candidates"] = {"weights": str(new / "heads.safetensors")}
    record = fake_record(config=config)
    work = tmp_path / "work"
    work.mkdir()
    _, facts = copy_parts(work, tmp_path, record)
    assert facts is not None
    counted = ("steps", "rows", "tokens", "trainings")
    assert [facts["training"][key] for key in counted] == [4, 2, 60, 2]
    assert {name: each["rows"] for name, each in facts["mixture"]["sources"].items()} == {
        "sst5": 1,
        "emotion": 1,
    }
    assert "told to let boolq through" in contamination(facts, None)

    monkeypatch.setenv("REFLEX_DATA", str(tmp_path))
    evidence = "The quick brown fox jumps over the lazy dog near the river"
    (tmp_path / "s1bench").mkdir()
    rows = [{"id": "v", "evidence": "unlike", "claim": evidence}]
    write_lines(tmp_path / "s1bench" / "vitaminc.jsonl", rows)
    report = guard_report(record)
    assert report == {
        "benchmark_rows": {"s1bench/vitaminc.jsonl": 1},
        "trained_rows_checked": 2,
        "trainings_checked": 2,
    }
    manifest = manifest_of(EMBEDDED)
    assert manifest is not None
    fitted = json.loads((EMBEDDED / "calibration.json").read_text())
    told = card({**manifest, "guard": report}, fitted, EMBEDDED)
    assert "The 2 rows prepared for the 2 trainings of its parts were held against" in told
    for folder, source in ((old, "emotion"), (new, "sst5")):
        question_rows(folder, source, evidence)
        with pytest.raises(ContaminationError, match=f"{folder}/{ROWS}: row {source} and 0 more"):
            guard_report(record)
        question_rows(folder, source)


def test_an_adapter_that_tells_nothing_is_told_beside_a_trained_head(tmp_path: Path) -> None:
    new, unknown = trained(tmp_path / "new", "emotion", []), tmp_path / "unknown"
    (unknown / "adapter").mkdir(parents=True)
    folders = part_folders(
        configured({"pointer": new / "heads.safetensors"}, adapter=str(unknown / "adapter"))
    )
    assert folders == [new, unknown]
    facts = all_trained_on(folders)
    assert facts is not None
    assert facts["training"]["unknown_before"] is True
    assert list(facts["mixture"]["sources"]) == ["emotion"]
    assert all_trained_on([unknown]) is None


def test_temperatures_fitted_on_half_of_mmlu_are_told() -> None:
    fitted: dict[str, Any] = {"fitted_on": {"sources": ["mmlu"]}}
    half = " The temperatures were fitted on items of one half of the MMLU test split: "
    told = contamination({}, fitted)
    assert "no row of the MMLU test split for training, and" in told
    assert half in told
    assert half in contamination({"allow": ["boolq"]}, fitted)
    assert half in contamination(None, fitted)
    assert half not in contamination({}, {"fitted_on": {"sources": ["mmlu_validation"]}})
