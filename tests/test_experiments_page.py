"""Pages tell what suites know: words, baselines, macro, published figures, calibration, any list of values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reflex.benchmarks.held_out import HeldOut
from reflex.benchmarks.s1.definitions import FAST
from reflex.errors import ConfigError
from reflex.evaluation.splits import metrics_by
from reflex.metrics.baselines import constant_correct
from reflex.reporting import Places, find_sweeps
from reflex.reporting.comparisons import judge_sweep
from reflex.reporting.experiments import Experiment
from reflex.reporting.page import page_plots, page_sections
from reflex.reporting.sources import against, constant_answer
from reflex.reporting.sweep import Sweep, verdict_block
from reflex.reporting.words import combined, word_of
from reflex.tracking.record import write_record
from reflex.tracking.wandb_payload import summary_of
from tests.fake_records import fake_predictions, fake_record

PUBLISHED = {"boolq": {"jev": 0.9, "other (board)": 0.5}, "paws": {"jev": 0.8}}


def suite_facts(words: dict[str, str], n: int = 20) -> dict[str, Any]:
    sources = {
        name: {
            "word": word,
            "n": n,
            "n_pinned": 20,
            "published": PUBLISHED.get(name, {}),
        }
        | ({"reason": "no file of it"} if word == "missing" else {})
        for name, word in words.items()
    }
    notes = {"size": "24 tickets | are too few " + "for much " * 60}
    return {"sources": sources, "macro": {"subsets": list(words)}, "notes": notes}


def frame_of(sources: tuple[str, ...]) -> pd.DataFrame:
    """Items go to the sources in turn, so every source has every question type."""
    frame = fake_predictions(20)
    named = [sources[int(item.split("-")[1]) % len(sources)] for item in frame["item_id"]]
    return frame.assign(source=named, family=named)


def sweep_of(tmp_path: Path, facts: dict[str, Any], frame: pd.DataFrame, **changes: Any) -> Sweep:
    places = Places(tmp_path / "runs", tmp_path / "results")
    by = metrics_by(frame, facts, 0)
    for orders in ("one", "two"):
        data = {"suite": "s1bench", "n_rows": 20, "facts": facts, **changes.get("data", {})}
        record = fake_record(orders, frame, by=by, data=data)
        write_record(places.runs / record.hash[:16], record, frame)
    return find_sweeps(places, "averaging")[0][-1]


def text_of(sweep: Sweep, tmp_path: Path) -> dict[str, str]:
    page = tmp_path / "results/averaging.md"
    found = page_sections(sweep, Experiment("t"), judge_sweep(sweep), page, list(page_plots(sweep)))
    return {section.heading or "": section.body for section in found}


def test_every_figure_of_an_incomplete_suite_has_its_word_and_no_macro(tmp_path: Path) -> None:
    facts = suite_facts({"boolq": "exact", "paws": "stand-in", "squad2": "missing"})
    sections = text_of(sweep_of(tmp_path, facts, frame_of(("boolq", "paws"))), tmp_path)
    assert sections["Macro"] == "No macro is given: 1 of 3 subsets have no figure: squad2."
    rows = sections["By source"].split("\n\n")[0].splitlines()[2:]
    assert [row.split(" | ")[:2] for row in rows] == [
        ["| boolq", "exact"],
        ["| boolq", "exact"],
        ["| paws", "stand-in"],
        ["| paws", "stand-in"],
        ["| squad2", "missing"],
    ]
    assert "no file of it" in rows[-1]
    for heading in ("Cells", "By question type", "Reliability", "Paired comparisons"):
        assert "stand-in (weakest of 2)" in sections[heading], heading
    (uniform,) = [
        line for line in sections["Cells"].splitlines() if line.startswith("Every option")
    ]
    assert "on these rows (stand-in (weakest of 2)) (n 60)" in uniform
    (means, _) = [line for line in sections["By source"].splitlines() if line.startswith("- ")]
    against = "2 of them against the labels' own probabilities"
    assert f"mean ECE-10 over 2 sources, {against} (stand-in (weakest of 2))" in means
    assert "On these rows: exact: boolq; stand-in: paws; missing: squad2." in sections["Verdict"]
    accuracy = metrics_by(frame_of(("boolq", "paws")), {}, 0)["source"]["boolq"]["accuracy"][
        "value"
    ]
    assert (
        f"| **orders=one** | this page | {accuracy:.3f} (exact) |" in sections["Published figures"]
    )
    assert "| jev | – | 0.900 | 0.800 |" in sections["Published figures"]
    assert "| other (board) | – | 0.500 | – |" in sections["Published figures"]
    assert "By family" not in sections  # it would repeat the sources


@pytest.mark.parametrize("names", [FAST, ("boolq", "paws")], ids=["fast", "a choice"])
def test_a_complete_suite_has_a_macro_with_its_weakest_word(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    facts = suite_facts({**dict.fromkeys(names, "exact"), "paws": "rebuilt"})
    frame = frame_of(names)
    by = metrics_by(frame, facts, 0)["source"]
    mean = sum(by[name]["accuracy"]["value"] for name in names) / len(names)
    sections = text_of(sweep_of(tmp_path, facts, frame), tmp_path)
    n = sum(by[name]["accuracy"]["n"] for name in names)
    (row,) = [line for line in sections["Macro"].splitlines() if "orders=one" in line]
    assert row.startswith(f"| orders=one | rebuilt | {mean:.4f} (")
    assert row.endswith(f") | {len(names)} | {n} |")
    assert ("macro accuracy" in sections["Macro"]) == (names == FAST)
    assert ("these subsets are a choice of ours" in sections["Macro"]) == (names != FAST)


def test_a_part_of_the_items_is_said_to_be_one(tmp_path: Path) -> None:
    facts = suite_facts({"boolq": "exact", "paws": "exact"}, n=10)
    sections = text_of(sweep_of(tmp_path, facts, frame_of(("boolq", "paws"))), tmp_path)
    assert "| boolq | exact, 10 of 20 |" in sections["By source"]
    assert "| exact, a part of the items |" in sections["Macro"]
    assert word_of({"word": "exact", "n": 10, "n_pinned": 20}) == "exact, 10 of 20"
    assert combined([{"word": "exact"}, {"word": "rebuilt"}, {"word": "missing"}]) == (
        "rebuilt (weakest of 2)"
    )
    assert combined([{"n": 3}]) is None


def test_a_plot_beside_published_figures_has_the_words_of_every_cell(tmp_path: Path) -> None:
    """One server left items unanswered, another answered all."""
    frame, whole = frame_of(("boolq",)), suite_facts({"boolq": "exact"})
    sweep = sweep_of(tmp_path, whole, frame)
    (_, plot) = page_plots(sweep).values()
    assert b"boolq (exact)" in plot
    for cell, n in zip(sweep.finished, (20, 17), strict=True):
        cell.record.data["facts"] = suite_facts({"boolq": "exact"}, n=n)
    (_, plot) = page_plots(sweep).values()
    assert b"boolq (exact; exact, 17 of 20)" in plot


def test_notes_are_told_whole(tmp_path: Path) -> None:
    facts = suite_facts({"boolq": "exact"})
    facts["notes"]["majority"] = "as older records defined it"
    sections = text_of(sweep_of(tmp_path, facts, frame_of(("boolq",))), tmp_path)
    assert facts["notes"]["size"].strip().replace("|", "\\|") in sections["About the data"]
    assert "as older records defined it" not in sections["About the data"]


def test_against_the_majority_answer() -> None:
    assert against({"value": 0.2, "low": 0.1, "high": 0.3}) == "+0.200 above"
    assert against({"value": -0.1, "low": -0.2, "high": -0.01}) == "-0.100 below"
    assert against({"value": -0.05, "low": -0.3, "high": 0.05}) == "-0.050 cannot tell"
    assert against({"value": 0.25, "low": None, "high": None}) == "+0.250"
    assert against({"value": None}) == "–"


def rows_of(question: str, keys: list[list[str]], gold: list[int], top: list[int]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "item_id": [f"{question}-{i}" for i in range(len(gold))],
            "question_id": question,
            "type": "choice",
            "keys": keys,
            "gold": gold,
            "target": [[float(i == g) for i in range(len(k))] for k, g in zip(keys, gold)],
            "probabilities": [[float(i == t) for i in range(len(k))] for k, t in zip(keys, top)],
        }
    )


def test_every_question_of_a_source_has_its_own_constant_answer() -> None:
    """Of one question "b" is right in 6 of 10, wherever it stands; of the other, whose options differ, the second
    place in 4 of 6; a tied label counts in neither."""
    same = rows_of("same", [["a", "b"], ["b", "a"]] * 5, [1, 0, 1, 0, 1, 0, 0, 1, 0, 1], [0] * 10)
    assert constant_correct(same).tolist() == [1.0] * 6 + [0.0] * 4
    differing = rows_of(
        "other", [[f"x{i}", f"y{i}"] for i in range(6)], [1, 1, 1, 1, 0, -1], [1] * 6
    )
    differing["target"] = [*differing["target"][:5], [0.5, 0.5]]
    both = pd.concat([same, differing], ignore_index=True)
    majority, beyond = constant_answer(both)
    assert majority == pytest.approx((6 + 4) / 15)
    # Ours is right where the first option is (5 of 10) and in the same 4 of 5.
    assert beyond["value"] == pytest.approx((5 + 4) / 15 - 10 / 15)
    assert (beyond["n"], beyond["low"] < beyond["value"] < beyond["high"]) == (15, True)
    assert constant_answer(differing.iloc[5:])[0] is None
    once = same.assign(question_id=[f"q{n}" for n in range(10)])
    assert constant_correct(once).tolist() == constant_correct(same).tolist(), "asked once each"


def test_long_tables_are_folded_and_categories_shown(tmp_path: Path) -> None:
    frame = frame_of(("mmlu",))
    families = [f"subject {int(item.split('-')[1]) % 15:02}" for item in frame["item_id"]]
    frame = frame.assign(family=families)
    categories = {name: "STEM" if name < "subject 07" else "other" for name in set(families)}
    facts = {"sources": {"mmlu": {"word": "exact", "n": 20}}, "categories": categories}
    sweep = sweep_of(tmp_path, facts, frame)
    assert set(sweep.cells[0].record.by) == {"type", "family", "source", "category"}
    sections = text_of(sweep, tmp_path)
    assert sections["By family"].startswith("<details><summary>15 values</summary>\n\n| family |")
    assert "| STEM | exact | orders=one |" in sections["By category"]


def test_families_without_a_category_have_the_word_of_their_sources(tmp_path: Path) -> None:
    frame = frame_of(("mmlu", "boolq", "paws"))
    facts = suite_facts({"mmlu": "exact", "boolq": "exact", "paws": "stand-in"})
    facts["categories"] = {"mmlu": "STEM"}
    sweep = sweep_of(tmp_path, facts, frame)
    text = text_of(sweep, tmp_path)["By category"]
    assert "| STEM | exact | orders=one |" in text
    assert "| none | stand-in (weakest of 2) | orders=one |" in text
    told = summary_of(sweep.cells[0].record, frame)
    assert told["category/none/word"] == "stand-in (weakest of 2)"


def test_calibration_and_what_it_does_to_families_left_out(tmp_path: Path) -> None:
    error = {"n": 9, "nll": 1.25, "ece_15": 0.5}
    beside = {"n": 7, "reference_mean": 0.125, "reference_high": 0.25}
    news = {"n": 40, "nll_raw": 1.0, "nll": 1.25, "low": 0.125, "high": 0.375}
    fit = {
        "temperatures": {"choice": 2.5},
        "fallbacks": {"noul": {"to": "all", "why": "3 rows, 50 are needed"}},
        "errors": {
            "raw": {**error, "ece_15_of": beside},
            "left_out": {**error, "families": {"news": news}},
        },
        "warnings": ["fitted without news, it makes news worse", "30 rows are few"],
        "prior": None,
    }
    frame = frame_of(("boolq",))
    sweep = sweep_of(tmp_path, suite_facts({"boolq": "exact"}), frame, data={"calibration": fit})
    text = text_of(sweep, tmp_path)["Calibration"]
    assert "| orders=one | choice | 2.500 |" in text
    assert "| orders=one | a family left out of the fit | 1.2500 | 0.5000 | – | 9 |" in text
    assert (
        "| orders=one | fit rows, before | 1.2500 | 0.5000 (cal. 0.125, ≤ 0.250) | 7 | 9 |" in text
    )
    assert "bucket noul uses all: 3 rows, 50 are needed" in text
    assert "- orders=one: 30 rows are few" in text
    # Every family left out, better or worse, with n and interval.
    assert "| orders=one | news | 1.0000 | 1.2500 | 0.2500 (0.125 to 0.375) | 40 |" in text
    assert "it makes news worse" not in text
    fit["prior"] = "permuted"  # estimated on the same rows: nothing was held out
    text = text_of(
        sweep_of(tmp_path, suite_facts({"boolq": "exact"}), frame, data={"calibration": fit}),
        tmp_path,
    )["Calibration"]
    assert "a family left out" not in text
    assert "news" not in text
    assert "no part of them is held out from it" in text


def test_a_rule_over_any_list_takes_the_first_cell_as_baseline(tmp_path: Path) -> None:
    places = Places(tmp_path / "runs", tmp_path / "results")
    frame = fake_predictions(20)
    block = {"metric": "nll", "baseline": "orders=*", "candidates": []}
    for second, orders in enumerate(("six", "one", "two")):
        started = f"2026-01-02T03:04:0{second}Z"
        record = fake_record(orders, frame, config={"verdict": block}, started=started)
        write_record(places.runs / record.hash[:16], record, frame)
    sweep = find_sweeps(places, "averaging")[0][-1]
    found = verdict_block(sweep) or {}
    assert found["baseline"] == "orders=six"
    assert found["candidates"] == ["orders=one", "orders=two"]
    assert set(judge_sweep(sweep)[0].comparisons) == {"orders=one", "orders=two"}


def test_held_out_rows_are_halves_with_opposites(
    data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    suite = HeldOut(sources=["banking77", "mrpc"], per_source=6, opposites=True).load()
    assert suite.facts["sources"]["banking77"]["splits"] == {"fit": 6, "report": 6}
    assert suite.facts["question_pairs"] == [
        {"kind": "opposite", "a": "same", "b": "same_not"},
        {"kind": "paraphrase", "a": "same", "b": "same_reworded"},
    ]
    pair = next(row for row in suite.rows if row.source == "mrpc")
    assert pair.labels["same"]["true"] == pair.labels["same_not"]["false"]
    measured = [row for row in suite.rows if row.source == "banking77" and row.split == "report"]
    assert {len(row.labels["intent"]) for row in measured} == {77}
    fewer = HeldOut(sources=["banking77", "mrpc"], per_source=6, limit=2).load()
    assert {row.id for row in fewer.rows} < {row.id for row in suite.rows}
    with pytest.raises(ConfigError, match=r"benchmark\.split=train: use one of all, fit, report"):
        HeldOut(split="train")
