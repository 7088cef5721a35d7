"""The gate: its rule on made-up predictions, and the command from candidate to `run=stable`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from reflex.benchmarks.base import Suite
from reflex.benchmarks.mmlu import MMLU
from reflex.errors import (
    AssetError,
    BackboneError,
    ConfigError,
    DataError,
    MissingAssetError,
    MissingDataError,
    RecordError,
)
from reflex.loading import check_loaded
from reflex.metrics.gate import judge, non_inferior
from reflex.metrics.resampling import Difference
from reflex.release import hashes_of
from reflex.stable import STABLE, entry_for, read_stable, stable_folder, write_stable
from reflex.tasks.gate import (
    GateConfig,
    check_servable,
    judged,
    kept_answers,
    load_suites,
    tell,
)
from reflex.tracking.predictions import predictions_bytes
from reflex.tracking.record import read_record
from tests.fake_records import fake_predictions, fake_record

REPO = Path(__file__).resolve().parent.parent


def difference(better_when: str, low: float | None, high: float | None) -> Difference:
    value = None if low is None or high is None else (low + high) / 2
    return Difference("nll", better_when, value, low, high, None, 40, 40, 1.0, 1.0, None)


@pytest.mark.parametrize(
    ("better_when", "low", "high", "allowed"),
    [
        ("lower", -0.3, 0.049, True),
        ("lower", -0.3, 0.051, False),
        ("lower", 0.01, 0.04, True),  # worse for certain, but inside the margin
        ("higher", -0.049, 0.3, True),
        ("higher", -0.051, 0.3, False),
        ("lower", None, None, False),  # too few groups show nothing
    ],
)
def test_non_inferior_means_the_whole_interval(
    better_when: str, low: float | None, high: float | None, allowed: bool
) -> None:
    assert non_inferior(difference(better_when, low, high), 0.05) is allowed


def of_source(frame: pd.DataFrame, source: str) -> pd.DataFrame:
    named = frame.assign(source=source)
    return named.assign(item_id=source + named["item_id"], group=source + named["group"])


GOOD, BAD = fake_predictions(80, 1, 2.5), fake_predictions(80, 2, 0.3)


def test_a_better_candidate_passes_and_a_worse_one_does_not() -> None:
    passed = judge({"s": (BAD, GOOD)}, {}, 0.05)
    assert passed.passed
    assert {check.metric for check in passed.checks} == {"nll", "accuracy"}
    assert all(check.allowed and check.better for check in passed.checks)
    refused = judge({"s": (GOOD, BAD)}, {}, 0.05)
    assert not refused.passed
    assert any("nll" in reason and "gate.margin=0.05" in reason for reason in refused.reasons)
    assert refused.reasons[-1] == "better on no set"


def test_the_same_again_is_better_nowhere() -> None:
    judgement = judge({"s": (GOOD, GOOD.copy())}, {}, 0.05)
    assert all(check.allowed for check in judgement.checks)
    assert judgement.reasons == ["better on no set"]


def test_better_on_one_set_does_not_excuse_another() -> None:
    stable = pd.concat([of_source(BAD, "a"), of_source(GOOD, "b")])
    candidate = pd.concat([of_source(GOOD, "a"), of_source(BAD, "b")])
    judgement = judge({"external": (stable, candidate)}, {}, 0.05)
    by_set = {(check.set, check.metric): check for check in judgement.checks}
    assert by_set["external a", "nll"].better
    assert not by_set["external b", "nll"].allowed
    assert len(judgement.reasons) == 2
    assert all(reason.startswith("external b") for reason in judgement.reasons)


def questions(p: dict[str, float], items: int = 40) -> pd.DataFrame:
    """Predictions of the noul questions of `p`; the labels of positive and negative are opposite."""
    rows = []
    for item in range(items):
        truth = item % 2
        for name, yes in p.items():
            target = float(truth if name == "positive" else 1 - truth)
            rows.append(
                {
                    "item_id": f"i{item}",
                    "question_id": name,
                    "type": "noul",
                    "source": "texts",
                    "group": f"i{item}",
                    "keys": ["true", "false"],
                    "target": [target, 1 - target],
                    "gold": int(target < 0.5),
                    "probabilities": [yes, 1 - yes],
                }
            )
    return pd.DataFrame(rows)


PAIR = {"kind": "opposite", "a": "positive", "b": "negative"}
WIDE = 2.0
"""A margin that NLL and accuracy cannot exceed here, so that only ignoring the question refuses."""


def test_answers_must_not_follow_the_question_less() -> None:
    pairs = {"pairs": [PAIR]}
    follows = questions({"positive": 0.9, "negative": 0.1})
    ignores = questions({"positive": 0.9, "negative": 0.8})
    good = {"s": (BAD, GOOD)}
    assert judge({**good, "pairs": (ignores, follows)}, pairs, WIDE).passed
    worse = judge({**good, "pairs": (follows, ignores)}, pairs, WIDE)
    assert worse.reasons == ["pairs: ignores the question more often than stable (+1.0000)"]
    assert judge({**good, "pairs": (ignores, ignores)}, pairs, WIDE).passed


def test_pairs_come_from_the_suite_and_what_refuses_is_told_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pairs = {"question_pairs": [PAIR]}
    suites = {"s": Suite("s", [], {}), "pairs": Suite("pairs", [], pairs)}
    follows = questions({"positive": 0.9, "negative": 0.1})
    ignores = questions({"positive": 0.9, "negative": 0.8})
    stable, candidate = {"s": BAD, "pairs": follows}, {"s": GOOD, "pairs": ignores}
    judgement = judged(suites, stable, candidate, WIDE, 0)
    assert judgement.reasons == ["pairs: ignores the question more often than stable (+1.0000)"]
    tell(judgement)
    *checks, refused = capsys.readouterr().out.splitlines()
    assert refused == f"refused: {judgement.reasons[0]}"
    assert len(checks) == len(judgement.checks)
    assert checks[0].startswith("s ")
    assert judged(suites, stable, {"s": GOOD, "pairs": follows}, WIDE, 0).passed


def test_a_suite_of_pairs_is_a_set_like_any_other() -> None:
    """Its gold probabilities fall from .95 to .01 and no pair is answered alike."""
    frames = []
    for p_gold in (0.95, 0.01):
        frame = questions({"positive": 0.5, "negative": 0.5})
        gold = [
            [p_gold, 1 - p_gold] if each == 0 else [1 - p_gold, p_gold] for each in frame["gold"]
        ]
        frames.append(frame.assign(probabilities=pd.Series(gold)))
    judgement = judge({"s": (BAD, GOOD), "pairs": (frames[0], frames[1])}, {"pairs": [PAIR]}, 0.05)
    found = {(check.set, check.metric): check for check in judgement.checks}
    assert found["pairs", "question_ignored"].allowed
    assert found["pairs texts", "nll"].difference.value == pytest.approx(np.log(0.95 / 0.01))
    assert found["pairs texts", "accuracy"].difference.value == -1
    assert [reason.partition(" (")[0] for reason in judgement.reasons] == [
        "pairs texts: nll +4.5539",
        "pairs texts: accuracy -1.0000",
    ]


def test_a_set_without_gold_answers_is_judged_by_nll_alone() -> None:
    soft = fake_predictions(80, 3).assign(gold=-1)
    judgement = judge({"s": (BAD, GOOD), "soft": (soft, soft.copy())}, {}, 0.05)
    assert [each.metric for each in judgement.checks if each.set == "soft ratings"] == ["nll"]
    assert judgement.passed


# -- what may be stable ----------------------------------------------------------------------------

ROUTED = {
    "choice": "auto",
    "noul": "l",
    "score": "l",
    "l": {},
    "auto": {"labels": "l", "head": None},
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"backbone": {"source": "asset", "adapter": "runs/x/adapter"}}, "task=release"),
        ({"backbone": {"source": "folder"}}, "only on this machine"),
        ({"calibration": {"path": "elsewhere"}}, "calibration lies outside"),
        ({"readout": {"choice": "p", "noul": "p", "score": "p", "p": {"weights": "w"}}}, "heads"),
        ({"readout": {**ROUTED, "pointer": {"weights": "w"}}}, "heads"),
    ],
)
def test_weights_that_cannot_be_pinned_are_refused(
    change: dict[str, Any], says: str, tmp_path: Path
) -> None:
    config = {
        "backbone": {"source": "asset", "adapter": None},
        "readout": {"choice": "l", "noul": "l", "score": "l", "l": {}},
        "calibration": {"path": None},
    }
    check_servable(tmp_path, fake_record(config=config))
    with pytest.raises(ConfigError, match=says):
        check_servable(tmp_path, fake_record(config={**config, **change}))


def test_other_weights_than_recorded_are_not_judged() -> None:
    record = fake_record(backbone={"weights_sha256": "aa", "adapter_sha256": None})
    wanted = hashes_of(record)
    assert wanted == {
        "weights_sha256": "aa",
        "adapter_sha256": None,
        "prompt_hash": record.prompt_hash,
    }
    facts = SimpleNamespace(weights_sha256="aa", adapter_sha256=None)
    style = SimpleNamespace(fingerprint=lambda: record.prompt_hash)
    loaded: Any = SimpleNamespace(
        model=SimpleNamespace(backbone=SimpleNamespace(facts=facts), style=style)
    )
    check_loaded(loaded, "r", wanted)
    facts.weights_sha256 = "bb"
    with pytest.raises(BackboneError, match="run r: weights_sha256 is bb, the record says aa"):
        check_loaded(loaded, "r", wanted)


def test_a_margin_below_nothing_and_a_limit_of_no_rows_are_refused() -> None:
    for margin in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match=rf"gate\.margin={margin}"):
            GateConfig(margin=margin)
    with pytest.raises(ConfigError, match=r"gate\.limit=0: must be at least 1"):
        GateConfig(limit=0)


def test_a_suite_that_is_broken_stops_the_gate_and_one_that_is_not_here_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(tmp_path))
    config = GateConfig(suites=["external", "tickets"], limit=2)
    suites, missing = load_suites(config)
    assert [len(suite.rows) for suite in suites.values()] == [2]
    assert list(missing) == ["external"]
    assert "no external/toxic_chat.jsonl below REFLEX_DATA" in missing["external"]
    file = tmp_path / "external" / "toxic_chat.jsonl"
    file.parent.mkdir()
    file.write_text('{"id": "a", "text": "hello"}\n')
    with pytest.raises(DataError, match=rf"{file}:1: field 'label' is missing") as caught:
        load_suites(config)
    assert not isinstance(caught.value, MissingDataError)


def test_rows_that_a_temperature_may_be_fitted_on_are_neither_asked_nor_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(tmp_path))
    file = tmp_path / "mmlu" / "test.jsonl"
    file.parent.mkdir()
    item = {"subject": "astronomy", "choices": ["a", "b"], "label": 0}
    file.write_text(
        "".join(json.dumps({**item, "id": f"i{i}", "question": f"q {i}"}) + "\n" for i in range(40))
    )
    splits = [row.split for row in MMLU().load().rows]
    assert set(splits) == {"fit", "report"}
    suites, _ = load_suites(GateConfig(suites=["mmlu"]))
    assert [row.split for row in suites["mmlu"].rows] == ["report"] * splits.count("report")


def test_an_asset_that_no_registry_gives_is_left_out_and_a_corrupt_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error: AssetError = MissingAssetError("cannot fetch x==1: no package registry is reachable")

    def fetched(asset: object) -> Path:
        raise error

    monkeypatch.setattr("reflex.data.human_ratings.fetch", fetched)
    config = GateConfig(suites=["tickets", "human_ratings"])
    assert load_suites(config)[1] == {"human_ratings": str(error)}
    error = AssetError("cached file is corrupt")
    with pytest.raises(AssetError, match="is corrupt"):
        load_suites(config)


def test_kept_answers_that_cannot_be_read_are_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "kept.parquet"
    assert kept_answers(file) is None
    file.write_bytes(predictions_bytes(GOOD))
    again = kept_answers(file)
    assert again is not None
    assert list(again["item_id"]) == list(GOOD["item_id"])
    file.write_bytes(b"torn")
    assert kept_answers(file) is None
    assert f"{file}: cannot be read; asked again" in caplog.text


# -- the manifest ----------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def release(name: str) -> Path:
    folder = STABLE.parent / name
    (folder / "adapter").mkdir(parents=True)
    (folder / "record.json").write_text(fake_record().to_json())
    (folder / "adapter" / "weights").write_bytes(b"1234")
    return folder


def test_every_file_is_pinned_and_profiles_do_not_touch_each_other(here: Path) -> None:
    folder = release("one")
    entry = entry_for(folder, fake_record(), {"margin": 0.05})
    assert set(entry["files"]) == {"record.json", "adapter/weights"}
    write_stable("laptop", entry)
    write_stable("gpu", {**entry, "path": "releases/other"})
    assert read_stable("laptop") == entry
    assert stable_folder("laptop")[0] == folder
    with pytest.raises(RecordError, match="releases/other holds no adapter/weights"):
        stable_folder("gpu")
    (folder / "adapter" / "weights").write_bytes(b"1235")
    with pytest.raises(RecordError, match=r"adapter/weights.*not served"):
        stable_folder("laptop")
    with pytest.raises(RecordError, match="profile=none"):
        stable_folder("none")
    assert [path.name for path in STABLE.parent.glob(".*.tmp")] == []


def test_a_broken_manifest_is_one_line(here: Path) -> None:
    STABLE.parent.mkdir()
    STABLE.write_text('{"laptop": {"path"')
    with pytest.raises(RecordError, match="restore it from git") as caught:
        read_stable("laptop")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("profile", ["laptop"])
def test_the_committed_manifest_holds_what_it_says(
    profile: str, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    folder, entry = stable_folder(profile)
    assert not Path(entry["path"]).is_absolute()
    record = read_record(folder)
    assert record.hash == entry["run"]
    assert Path(entry["path"]) == Path("releases/embedded")  # as the README says
    assert entry["gate"]["against"], "it was let through against what was stable before"
    assert entry["gate"]["limit"] is None
    assert not record.debug
    assert record.backbone["weights_sha256"] == entry["hashes"]["weights_sha256"]
    assert entry["gate"]["measured"]


# -- the command -----------------------------------------------------------------------------------


def command(here: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "reflex.run", "tracker=none", *arguments],
        cwd=here,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPO)},
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_from_candidate_to_stable(here: Path, tmp_runs: Path) -> None:
    base = ["backbone=tiny_llama", "device.dtype=float32", "benchmark=tickets"]
    for orders in ("one", "four"):
        assert command(here, *base, f"orders={orders}")[0] == 0
    runs = {
        read_record(path.parent).config["orders"]["permutations"]: path.parent
        for path in tmp_runs.glob("*/record.json")
    }
    gate = ["task=gate", "gate.suites=[tickets]"]
    status, told = command(here, *gate, f"run={runs[1]}")
    assert status == 0, told
    assert "first entry for profile=laptop" in told
    first = STABLE.read_bytes()
    assert json.loads(first)["laptop"]["run"] == read_record(runs[1]).hash

    # Refused: exit 1, and not a byte of the manifest moved.
    status, told = command(here, *gate, f"run={runs[4]}", "gate.margin=0")
    assert status == 1
    assert "refused: tickets: accuracy" in told
    assert STABLE.read_bytes() == first
    assert [path.name for path in STABLE.parent.iterdir() if path.is_dir()] == [
        f"tiny_llama-{read_record(runs[1]).hash[:8]}"
    ]

    # Passed (the margin is wide because a random model is): what was asked before is not asked again.
    status, told = command(here, *gate, f"run={runs[4]}", "gate.margin=1")
    assert status == 0, told
    assert "asking" not in told
    assert "better" in told
    entry = read_stable("laptop")
    assert entry is not None
    assert entry["run"] == read_record(runs[4]).hash
    assert entry["gate"]["against"] == read_record(runs[1]).hash
    assert np.isfinite(entry["gate"]["checks"][0]["value"])
    assert "stable for profile=laptop already" in command(here, *gate, f"run={runs[4]}")[1]

    # What is served is what was released, or nothing.
    shutil.rmtree(tmp_runs)
    from reflex.build import build_decider
    from reflex.serving.source import checked, resolve

    cfg, served = resolve(["run=stable"])
    assert cfg.orders.permutations == 4
    checked(build_decider(cfg), served)
    record = Path(entry["path"]) / "record.json"
    record.write_text(record.read_text().replace('"permutations": 4', '"permutations": 1', 1))
    with pytest.raises(RecordError, match="not served"):
        resolve(["run=stable"])


def test_the_gate_needs_a_candidate(here: Path, tmp_runs: Path) -> None:
    status, told = command(here, "task=gate")
    assert status == 1
    assert "task=gate needs a candidate" in told
    status, told = command(here, "task=gate", f"run={here}/nothing")
    assert status == 1
    assert "neither a folder" in told
