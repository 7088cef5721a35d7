"""What pages say of trainings, and of readouts that answer the same questions; states that cannot answer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

from reflex.benchmarks.foreign_states import foreign
from reflex.data.rows import Row
from reflex.reporting import agreement
from reflex.reporting.training import training_table
from reflex.reporting.verdicts import trained_once


def frame(answers: list[tuple[str, int, int]]) -> pd.DataFrame:
    """(item, number of options, answered place) with place 0 as the gold one."""
    rows = []
    for item, options, answered in answers:
        keys = [f"o{i}" for i in range(options)]
        probabilities = [0.9 if i == answered else 0.1 / (options - 1) for i in range(options)]
        rows.append((item, "q", keys, probabilities, 0, f"s{options}", item))
    names = ["item_id", "question_id", "keys", "probabilities", "gold", "source", "group"]
    return pd.DataFrame(rows, columns=names)


def test_agreement_by_number_of_options(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = {
        "base": frame([("a", 2, 0), ("b", 2, 1), ("c", 5, 1), ("d", 5, 2), ("e", 40, 3)]),
        "other": frame([("a", 2, 1), ("b", 2, 1), ("c", 5, 0), ("d", 5, 1), ("x", 40, 3)]),
    }
    monkeypatch.setattr(agreement, "predictions_of", lambda cell: frames[cell.path.name])

    def cell(name: str, readout: str) -> Any:
        facts = {"sources": {"s2": {"word": "exact"}, "s5": {"word": "stand-in"}}}
        record = SimpleNamespace(axes={"readout": readout}, data={"facts": facts})
        return SimpleNamespace(path=Path(name), record=record)

    base, other = cell("base", "label_tokens"), cell("other", "pointer")

    def share(hits: int, n: int) -> str:
        low, high = proportion_confint(hits, n, method="wilson")
        return f"{hits / n:.4f} ({low:.3f} to {high:.3f})"

    weakest = "stand-in (weakest of 2)"
    assert agreement.agreement_rows("readout=pointer", base, other) == [
        ["readout=pointer", "2", "exact", "2", share(1, 2), share(1, 1), *[share(0, 1)] * 2],
        ["readout=pointer", "3–8", "stand-in", "2", share(2, 2), share(0, 2), *[share(1, 2)] * 2],
        ["readout=pointer", "all", weakest, "4", share(3, 4), *[share(1, 3)] * 3],
    ]
    one: Any = SimpleNamespace(
        setting="", baseline="readout=label_tokens",
        cells={"readout=label_tokens": base, "readout=pointer": other},
    )  # fmt: skip
    assert "| readout=pointer | all | stand-in (weakest of 2) | 4 |" in agreement.agreement_text(
        [one]
    )
    one.cells["readout=pointer"] = cell("other", "label_tokens")
    assert agreement.agreement_text([one]) == ""


def test_training_table_shows_the_loss_over_time() -> None:
    def cell(name: str, data: dict) -> Any:
        record = SimpleNamespace(name=name, axes={"train": name}, seed=0, data=data)
        return SimpleNamespace(record=record)

    facts = {"rows": 9, "steps": 3, "tokens": 700, "curve": [[0.5, 1.25], [1.0, 0.5]]}
    table = training_table([cell("frozen", {}), cell("lora", {"training": facts})])
    assert table.splitlines()[2:] == [
        "| train=frozen | – | – | – | – | – | – | – |",
        "| train=lora | 9 | 3 | 700 | – | – | 1.250 | 0.500 |",
    ]
    assert training_table([cell("a", {}), cell("b", {})]) == ""


def test_a_verdict_between_trainings_says_that_each_was_trained_once() -> None:
    def judged(*curves: list) -> Any:
        facts = [
            {"training": {"plan_sha256": "a", "curve": curve}} if curve else {} for curve in curves
        ]
        cells = {
            str(n): SimpleNamespace(record=SimpleNamespace(data=f, backbone={}))
            for n, f in enumerate(facts)
        }
        return [SimpleNamespace(cells=cells)]

    one, other = [[1.0, 0.5]], [[1.0, 0.4]]
    assert "trained once each" in trained_once(judged(one, other))
    assert "trained once each" in trained_once(judged([], one)), "a frozen backbone and a training"
    assert trained_once(judged(one, one)) == "", "one training, read in two ways"
    assert trained_once(judged([], [])) == ""
    served = judged([], [])
    served[0].cells["1"].record.backbone = {"adapter_sha256": "b"}
    assert "trained once each" in trained_once(served), "trained elsewhere: an adapter"


def row(number: int, family: str) -> Row:
    raw = {
        "id": f"{family}-{number}",
        "state": f"state {family} {number}",
        "questions": {"q": {"type": "choice", "criteria": dict.fromkeys("xyz")}},
        "labels": {"q": "x"},
        "family": family,
        "source": family,
        "split": "report",
    }
    return Row.from_json(raw)


def test_a_foreign_state_is_of_a_family_that_cannot_answer() -> None:
    rows = [row(i, family) for family in ("intent", "topic", "nli") for i in range(20)]
    made = [foreign(each, rows) for each in rows]
    for before, after in zip(rows, made, strict=True):
        assert after is not None
        assert after.labels == {"q": {"x": 1 / 3, "y": 1 / 3, "z": 1 / 3}}
        assert after.questions == before.questions
        donor = after.state.split()[1]  # type: ignore[union-attr]
        assert {donor, before.family} not in ({"intent", "topic"}, {before.family})
    assert len({each.state for each in made if each is not None}) > 15
    assert foreign(row(0, "intent"), [row(1, "topic")]) is None
