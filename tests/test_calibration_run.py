"""A run that fits its own calibration, on a tiny model: what is recorded is what would be served."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig

from reflex.backbones.backbone import Backbone
from reflex.benchmarks.base import Suite
from reflex.build import build_backbone, build_decider, build_uncalibrated
from reflex.calibration import fitted
from reflex.contract import Choice, Request, parse_question
from reflex.data.rows import Row
from reflex.decider import Decider
from reflex.errors import CalibrationError, ContaminationError
from reflex.evaluation.suite import run_suite
from reflex.files import write_atomic_all
from reflex.loading import compose
from reflex.prompts.prompt import Branch
from reflex.readouts.label_tokens import Readout
from reflex.tasks.evaluate import Evaluate
from reflex.tasks.fitting import (
    Raw,
    Settled,
    read_content_free,
    remove_others,
    settle,
)
from reflex.tracking import record
from reflex.tracking.predictions import read_predictions
from reflex.tracking.record import FIT_PREDICTIONS
from tests.fake_records import fake_predictions, fake_record

NAMES = ("good", "bad", "fine")
CHOICE = parse_question(
    {"type": "choice", "instructions": "How is it?", "criteria": dict.fromkeys(NAMES)}
)
NOUL = parse_question({"type": "noul", "instructions": "Is it good?"})


def config(*overrides: str) -> DictConfig:
    base = ("backbone=tiny_llama", "device.dtype=float32", "orders=two", "tracker=none")
    return compose([*base, *overrides])


@cache
def backbone() -> Backbone:
    return build_backbone(config())


def rows(fit: int = 30, report: int = 10, source: str = "made up") -> list[Row]:
    rng = np.random.default_rng(0)
    found = []
    for i in range(fit + report):
        labels = {
            "how": {key: float(key == NAMES[rng.integers(3)]) for key in NAMES},
            "good": {"true": 0.75, "false": 0.25},
        }
        labels["how"] = {key: float(key == NAMES[i % 3]) for key in NAMES}
        split = "fit" if i < fit else "report"
        state = f"Item {i}: {rng.integers(1000)}"
        questions = {"how": CHOICE, "good": NOUL}
        found.append(Row(f"r{i}", state, questions, labels, source, f"family {i % 3}", split))
    return found


def settled(cfg: DictConfig, items: list[Row]) -> Settled:
    calibration = instantiate(cfg.calibration)
    decider = (build_uncalibrated if calibration.fits else build_decider)(cfg, backbone())
    predictions = run_suite(decider, items, 4096).predictions
    facts = dataclasses.asdict(backbone().facts)
    raw = Raw(predictions, facts, decider.model.style.fingerprint(), {})
    probes = partial(read_content_free, calibration, decider, items, 4096)
    return settle(cfg, calibration, raw, {"suite": "made up"}, probes)


def keep(folder: Path, found: Settled) -> None:
    write_atomic_all({folder / name: data for name, data in found.files.items()})


@pytest.mark.parametrize("name", ["transfer", "position_prior", "position_prior_content_free"])
def test_recorded_numbers_are_the_served_ones(tmp_path: Path, name: str) -> None:
    cfg = config(f"calibration={name}", "calibration.min_rows=10", "calibration.prior_questions=5")
    items = rows()
    found = settled(cfg, items)
    assert set(found.measured["split"]) == {"report"}
    assert len(found.measured) == 20
    keep(tmp_path, found)
    kept = read_predictions(tmp_path / FIT_PREDICTIONS)
    assert len(kept) == 60
    assert set(kept["split"]) == {"fit"}
    calibration = fitted.read(tmp_path)
    assert calibration.fitted_on["suite"] == "made up"
    assert calibration.fitted_on["backbone"]["weights_sha256"] == backbone().facts.weights_sha256
    serving = build_decider(
        config(f"calibration={name}", f"calibration.path={tmp_path}"), backbone()
    )
    by_item = {(r["item_id"], r["question_id"]): r for _, r in found.measured.iterrows()}
    for item in items[30:]:
        decided = serving.decide([Request(state=item.state, questions=item.questions)])[0]
        for question_id, decision in decided.items():
            recorded = by_item[item.id, question_id]
            assert decision.probabilities == pytest.approx(recorded["probabilities"], abs=1e-5)
            assert decision.bucket == recorded["bucket"]
    if name == "transfer":
        assert found.measured["bucket"].notna().all()
        assert calibration.details["all"]["transfer"]["chosen"] in ("rows", "families")
    else:
        assert calibration.prior is not None
        estimator = "content_free" if name.endswith("content_free") else "permuted"
        assert calibration.prior.estimator == estimator


def test_without_a_calibration_fit_rows_are_still_not_measured(tmp_path: Path) -> None:
    found = settled(config(), rows())
    assert set(found.measured["split"]) == {"report"}
    assert list(found.files) == [FIT_PREDICTIONS]
    only_fit = settled(config(), rows(report=0))
    assert set(only_fit.measured["split"]) == {"fit"}
    assert only_fit.files == {}
    (tmp_path / FIT_PREDICTIONS).write_bytes(b"of an earlier try")
    remove_others(tmp_path, only_fit.files)
    assert not (tmp_path / FIT_PREDICTIONS).exists()


def test_a_calibration_appears_together_with_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before that, the old record still has the temperatures that it was made with."""
    frame = fake_predictions()
    told = fake_record(predictions=frame).model_dump()
    identity = record.RunIdentity(**{key: told[key] for key in record.RunIdentity.model_fields})

    def measured(self: Evaluate, *rest: object) -> object:
        return {"cost": {"decisions": len(frame)}}, frame, {fitted.FILE: b"new"}

    def killed(contents: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Evaluate, "_measure", measured)
    (tmp_path / fitted.FILE).write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(record, "write_atomic_all", killed)
        with pytest.raises(KeyboardInterrupt):
            Evaluate()._run(config(), Suite("made up", []), identity, tmp_path)
    assert (tmp_path / fitted.FILE).read_bytes() == b"old"
    assert Evaluate()._run(config(), Suite("made up", []), identity, tmp_path) == 0
    assert (tmp_path / fitted.FILE).read_bytes() == b"new"
    assert record.is_finished(tmp_path)


def test_a_fit_needs_both_kinds_of_rows_and_clean_ones() -> None:
    cfg = config("calibration=type")
    with pytest.raises(CalibrationError, match="has none of split fit"):
        settled(cfg, rows(fit=0))
    with pytest.raises(CalibrationError, match="has none of split report"):
        settled(cfg, rows(report=0))
    with pytest.raises(ContaminationError, match="boolq"):
        settled(cfg, rows(source="google/boolq"))
    with pytest.raises(CalibrationError, match="calibration=type is not fitted"):
        build_decider(cfg, backbone())


PLACES = (2.0, 0.0, -2.0)
WORTH = {"good": 0.6, "bad": 0.0, "fine": -0.6, "true": 0.3, "false": 0.0}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["position_prior", "position_prior_content_free"])
def test_a_planted_place_effect_is_taken_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Three options declared in each of their six orders, read in one order, by a model that prefers what is
    listed first to what is right."""

    def scores(self: Readout, branches: Sequence[Branch], hidden: object) -> list[torch.Tensor]:
        return [
            torch.tensor([PLACES[i] + WORTH[key] for i, key in enumerate(branch.keys)])
            for branch in branches
        ]

    monkeypatch.setattr(Readout, "scores", scores)
    cfg = config(f"calibration={name}", "orders.permutations=6")
    keep(tmp_path, settled(cfg, rows(fit=25, report=1)))
    one = (
        "orders=one",
        f"calibration={name}",
        f"calibration.path={tmp_path}",
        "calibration.force=true",
    )
    corrected = build_decider(config(*one), backbone())
    raw = build_uncalibrated(config("orders=one"), backbone())

    def answers(decider: Decider) -> list[set[str]]:
        """Of each item, the answers over all declared orders."""
        found = []
        for item in rows(fit=0, report=12):
            tops = set()
            for order in itertools.permutations(NAMES):
                question = Choice(instructions="How is it?", criteria=dict.fromkeys(order))
                decided = decider.decide([Request(state=item.state, questions={"how": question})])
                answer = decided[0]["how"]
                tops.add(answer.keys[int(np.argmax(answer.probabilities))])
            found.append(tops)
        return found

    assert answers(raw) == [set(NAMES)] * 12  # always what is listed first
    assert answers(corrected) == [{"good"}] * 12
    # What is taken out is the same to the last bit for every declared order.
    prior = corrected.calibrator.prior  # type: ignore[attr-defined]
    vectors = [prior.places("choice", "label_tokens", o) for o in itertools.permutations(NAMES)]
    assert all((vector == vectors[0]).all() for vector in vectors)
    assert vectors[0] == pytest.approx(PLACES, abs=1e-5)


def test_content_free_reads_leave_the_model_as_it_was() -> None:
    cfg = config("calibration=position_prior_content_free")
    decider = build_uncalibrated(cfg, backbone())
    before = dataclasses.replace(decider.model.orders)
    frame = read_content_free(instantiate(cfg.calibration), decider, rows(3, 3), 4096)
    assert decider.model.orders == before
    assert sorted(map(len, frame["order_keys"])) == [2] * 3 + [6] * 3  # two questions, three states
    assert set(frame["source"]) == {"content_free"}
