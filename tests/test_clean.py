"""No calibration is fitted on benchmark data: refused by name, by row, and before the fit; what is let
through is marked and its subsets are withheld."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reflex.benchmarks.base import Suite
from reflex.calibration.temperature import Temperature
from reflex.contract import parse_question
from reflex.data.guard import benchmark_index
from reflex.data.rows import Row, items_sha256
from reflex.errors import CalibrationError, ConfigError, ContaminationError, DataError
from reflex.loading import compose
from reflex.tasks.check_config import check_config
from reflex.tasks.clean import check_fit, clean_suite
from reflex.tracking.record import find_records
from tests import cli
from tests.calibration_frames import frame

RAW = {"type": "noul", "instructions": "Is it so?"}
NOUL = parse_question(RAW)
WORDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima"


def row(name: str, source: str, split: str = "report", state: str = "nothing") -> Row:
    labels = {"q": {"true": 1.0, "false": 0.0}}
    return Row(name, state, {"q": NOUL}, labels, source, source, split)


@pytest.fixture(autouse=True)
def no_rows_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(tmp_path))
    benchmark_index.cache_clear()


# -- when a configuration is read -------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["benchmark=s1bench"], "'boolq' is boolq"),
        (["benchmark=s1bench_fast", "task=calibrate"], "'paws' is paws"),
        (["benchmark=external"], "'mnli_mismatched' is multinli"),
        (["benchmark=task_file", "benchmark.path=mirror/boolq/dev.jsonl"], "boolq/dev.jsonl"),
        (["benchmark=mmlu", "benchmark.file=tals/vitaminc.jsonl"], "vitaminc-dev"),
    ],
)
def test_a_configuration_that_would_fit_on_benchmark_data_is_refused(
    overrides: list[str], named: str
) -> None:
    with pytest.raises(ContaminationError, match=named) as caught:
        check_config(compose(["calibration=type", *overrides]))
    assert "list it in calibration.allow" in str(caught.value)
    assert "\n" not in str(caught.value)
    check_config(compose(overrides))  # measuring is what a benchmark is for
    check_config(compose([*overrides, "calibration=type", "calibration.path=fitted.json"]))


def test_fitting_on_mmlu_halves_and_measuring_s1bench_is_fine() -> None:
    check_config(compose(["calibration=global", "benchmark=mmlu"]))
    check_config(compose(["calibration=global", "benchmark=mmlu_s1bench"]))


def test_the_command_ends_with_one_line_before_anything_is_read(tmp_runs: Path) -> None:
    ended = cli.run("task=calibrate", "calibration=type", "benchmark=s1bench", "tracker=none")
    assert ended.status == 1
    assert ended.err.startswith("error: benchmark data must not be trained or calibrated on: 'vi")
    assert len(ended.err.splitlines()) == 1
    assert list(find_records(tmp_runs).found) == []


def test_a_clean_exception_is_refused_when_the_configuration_is_read() -> None:
    with pytest.raises(ConfigError, match=r"calibration\.allow: 'snli' lets no source through"):
        check_config(compose(["calibration=type", "calibration.allow=[snli]"]))


# -- when rows are loaded, and before the fit -------------------------------------------------


def cleaned(rows: list[Row], *overrides: str, **facts: object) -> Suite:
    cfg = compose(["benchmark=task_file", "benchmark.path=mine.jsonl", *overrides])
    return clean_suite(cfg, Suite("mine", rows, dict(facts)))


FIT = "calibration=type"


def test_fit_rows_of_a_benchmark_are_refused_whatever_the_file_is_called() -> None:
    rows = [row("a", "reviews", "fit"), row("b", "google/boolq", "fit"), row("c", "reviews")]
    with pytest.raises(ContaminationError, match="'google/boolq' is boolq"):
        cleaned(rows, FIT)
    assert cleaned(rows).rows == rows  # nothing is fitted
    with pytest.raises(ContaminationError, match="'squad' is squad2"):
        check_fit(None, Temperature(), frame(3).assign(family="squad"))
    assert check_fit(None, Temperature(), [row("m", "mmlu", "fit")]) == {}


def test_what_there_is_to_fit_on_is_known_before_the_model_is_asked() -> None:
    with pytest.raises(CalibrationError, match="none of split fit"):
        cleaned([row("a", "reviews")], FIT)
    with pytest.raises(CalibrationError, match="none of split report"):
        cleaned([row("a", "reviews", "fit")], FIT)


def test_what_is_let_through_is_marked_and_its_subsets_are_not_scored() -> None:
    rows = [row("a", "google/boolq", "fit"), row("b", "boolq"), row("c", "paws"), row("d", "mine")]
    sources = {
        "boolq": {"word": "exact", "n": 1, "majority": 1.0, "licence": "CC0"},
        "paws": {"word": "exact", "n": 1},
    }
    macro = {"subsets": ["boolq", "paws"], "complete": True, "lacking": [], "word": "exact"}
    found = cleaned(rows, FIT, "calibration.allow=[google/boolq]", sources=sources, macro=macro)
    assert [each.id for each in found.rows] == ["a", "c", "d"]
    assert found.facts["contamination"] == {"google/boolq": ["boolq"]}
    assert found.facts["sources"]["boolq"] == {
        "word": "withheld",
        "reason": "the calibration is fitted on it",
        "n": 0,
        "licence": "CC0",
    }
    assert found.facts["sources"]["paws"] == {"word": "exact", "n": 1}
    assert found.facts["macro"] == {
        **macro,
        "complete": False,
        "lacking": ["boolq"],
        "word": None,
    }
    assert sources["boolq"]["word"] == "exact", "the loader's own facts are left alone"
    with pytest.raises(DataError, match="every measured row is withheld"):
        cleaned(rows[:2], FIT, "calibration.allow=[google/boolq]")
    with pytest.raises(ConfigError, match="'paws' lets no source through"):
        cleaned([row("a", "mine", "fit"), row("b", "mine")], FIT, "calibration.allow=[paws]")


def test_a_calibration_file_fitted_on_a_benchmark_withholds_it_too(tmp_path: Path) -> None:
    found = Temperature().fit(frame(60), {"contamination": {"google/boolq": ["boolq"]}})
    file = tmp_path / "calibration.json"
    file.write_text(json.dumps(found.to_json()))
    rows = [row("b", "boolq"), row("c", "paws")]
    suite = cleaned(rows, FIT, f"calibration.path={file}")
    assert [each.id for each in suite.rows] == ["c"]
    assert suite.facts["contamination"] == {"google/boolq": ["boolq"]}
    with pytest.raises(DataError, match="fitted on google/boolq"):
        cleaned(rows[:1], FIT, f"calibration.path={file}")


def test_where_a_file_was_fitted_on_half_of_mmlu_only_the_other_is_measured(tmp_path: Path) -> None:
    found = Temperature().fit(frame(60).assign(source="mmlu"), {})
    file = tmp_path / "calibration.json"
    file.write_text(json.dumps(found.to_json()))
    own = (FIT, f"calibration.path={file}")
    half, whole, mine = row("r", "mmlu"), row("w", "mmlu", "test"), row("m", "mine", "test")
    mmlu = {"word": "exact", "n": 2, "splits": {"fit": 1, "report": 1}, "licence": "MIT"}
    suite = cleaned([row("f", "mmlu", "fit"), half, mine], *own, sources={"mmlu": mmlu})
    assert [each.id for each in suite.rows] == ["r", "m"]
    assert suite.facts["sources"]["mmlu"] == {**mmlu, "n": 1, "splits": {"report": 1}}
    suite = cleaned([whole, mine], *own, sources={"mmlu": mmlu})
    assert [each.id for each in suite.rows] == ["m"]
    assert suite.facts["sources"]["mmlu"] == {
        "word": "withheld",
        "reason": "the calibration is fitted on it",
        "n": 0,
        "licence": "MIT",
    }
    with pytest.raises(DataError, match="fitted on a half of mmlu; measure something else"):
        cleaned([whole], *own)
    assert cleaned([whole, mine]).rows == [whole, mine]  # without that file nothing is withheld


def test_a_calibration_that_is_loaded_is_not_measured_on_what_one_is_fitted_on(
    tmp_path: Path,
) -> None:
    fit_rows, others = [row("a", "mine", "fit"), row("b", "mine", "fit")], [row("c", "mine")]
    found = Temperature().fit(frame(60), {"items_sha256": items_sha256(fit_rows)})
    file = tmp_path / "calibration.json"
    file.write_text(json.dumps(found.to_json()))
    loaded = (FIT, f"calibration.path={file}")
    message = rf"calibration\.path={file}: benchmark=mine would be measured on rows of split fit"
    with pytest.raises(ConfigError, match=message) as caught:
        cleaned(fit_rows, *loaded)
    assert "benchmark.split=report" in str(caught.value)
    with pytest.raises(ConfigError, match="measured on the items it was fitted on"):
        cleaned([replace(each, split="report") for each in fit_rows], *loaded)
    assert cleaned([*fit_rows, *others], *loaded).rows == [*fit_rows, *others]
    assert cleaned(others, *loaded).rows == others
    assert cleaned(fit_rows).rows == fit_rows  # what task=calibrate reads


def test_fit_rows_that_share_text_with_a_benchmark_are_dropped_and_counted(tmp_path: Path) -> None:
    for folder, name in (("s1bench", "boolq"), ("mmlu", "test")):
        (tmp_path / folder).mkdir()
        text = json.dumps({"id": "x", "passage": f"{folder} says {WORDS}", "label": True})
        (tmp_path / folder / f"{name}.jsonl").write_text(text + "\n")
    rows = [
        row("shared", "reviews", "fit", f"so {WORDS} indeed"),
        row("own", "reviews", "fit", "a text that nobody else has written down so far"),
        row("half", "mmlu", "fit", f"mmlu says {WORDS}"),
        row("measured", "reviews", "report", f"so {WORDS} indeed"),
    ]
    claim = parse_question({**RAW, "instructions": f"Is it true that {WORDS}?"})
    rows.append(replace(row("asked", "claims", "fit", "a text"), questions={"q": claim}))
    found = cleaned(rows, FIT)
    assert [each.id for each in found.rows] == ["own", "half", "measured"]
    assert found.facts["overlapping"] == {"claims": 1, "reviews": 1}


# -- a whole run --------------------------------------------------------------------------------


def tasks(path: Path) -> Path:
    lines = [
        {
            "id": f"{source}-{split}-{i}",
            "state": f"{source} {split} text {i}",
            "questions": {"q": RAW},
            "labels": {"q": i % 2 == 0},
            "source": source,
            "split": split,
        }
        for source in ("google/boolq", "mine")
        for split in ("fit", "report")
        for i in range(4)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.slow
def test_a_run_that_is_let_through_says_so_in_its_record_and_in_the_file(
    tmp_path: Path, tmp_runs: Path
) -> None:
    file = tasks(tmp_path / "tasks.jsonl")
    where = ("benchmark=task_file", f"benchmark.path={file}", "benchmark.limit=null")
    words = ("debug=smoke", "tracker=none", "calibration=global", *where)
    ended = cli.run(*words)
    assert ended.status == 1
    assert "'google/boolq' is boolq" in ended.err
    assert cli.run(*words, "calibration.allow=[google/boolq]", "calibration.min_rows=4").status == 0
    (found,) = find_records(tmp_runs).found
    facts = found.record.data["facts"]
    assert facts["contamination"] == {"google/boolq": ["boolq"]}
    assert facts["sources"]["google/boolq"]["word"] == "withheld"
    assert found.record.metrics["nll"]["n"] == 4, "rows of `mine` alone are measured"
    assert list(found.record.by["source"]) == ["mine"]
    fitted = json.loads((found.path / "calibration.json").read_text())
    assert fitted["fitted_on"]["contamination"] == {"google/boolq": ["boolq"]}
    assert fitted["fitted_on"]["n"] == 8
    # A recorded run is fitted on under the same rule.
    again = ("task=calibrate", f"task.from_run={found.path}", "calibration=global")
    ended = cli.run(*again, "tracker=none")
    assert ended.status == 1
    assert "list it in calibration.allow" in ended.err
    assert cli.run(*again, "tracker=none", "calibration.allow=[google/boolq]").status == 0
    kept = json.loads((found.path / "calibration-global.json").read_text())
    assert kept["fitted_on"]["contamination"] == {"google/boolq": ["boolq"]}
