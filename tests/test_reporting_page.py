"""Pages: from records alone, the same bytes again, the newest sweep, nothing hidden."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scipy.stats import t

from reflex import report
from reflex.errors import ConfigError, RecordError
from reflex.metrics import compare
from reflex.reporting import Places, find_sweeps, group_sweep, predictions, print_table, write_page
from reflex.reporting.comparisons import judge_sweep
from reflex.reporting.experiments import own_choice, read_experiment
from reflex.reporting.plots import reliability_svg
from reflex.reporting.sweep import matches
from reflex.tracking.predictions import read_predictions
from reflex.tracking.record import RunRecord, find_records, write_record
from tests.fake_records import fake_predictions, fake_record

FRAMES = {
    orders: fake_predictions(30, seed=index, quality=1.0 + 0.5 * index)
    for index, orders in enumerate(("one", "two", "four"))
}

EXPERIMENT = """\
# Order averaging

**Question.** Does averaging
help?

**Hypothesis.** It lowers NLL.

**Design.** Not shown.
"""


NO_RULE: dict[str, Any] = {"config": {"verdict": None}}
"""A sweep that no rule says is unfinished, whatever its cells."""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments/averaging.md").write_text(EXPERIMENT)
    return Places(tmp_path / "runs", tmp_path / "results")


def cell(places: Places, orders: str, **changes: Any) -> RunRecord:
    frame = FRAMES.get(orders, FRAMES["one"])
    record = fake_record(orders, frame, **changes)
    folder = places.runs / record.hash[:16]
    return write_record(folder, record, None if record.status == "failed" else frame)


def sweep(places: Places, **changes: Any) -> None:
    for orders in ("four", "one", "two"):
        cell(places, orders, **changes)


def page_of(places: Places, group: str = "averaging-1") -> Path:
    found = find_records(places.runs, group=group).found
    return write_page(group_sweep(places, found), places)


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_page_says_what_the_records_say(places: Places):
    sweep(places)
    cell(places, "eight", status="failed", error="BackboneError: out |\nof luck")
    page = page_of(places)
    assert page == places.results / "averaging.md"
    text = page.read_text()
    assert text.startswith("# Order averaging\n")
    assert "**Question.** Does averaging help?" in text
    assert "[../experiments/averaging.md](../experiments/averaging.md)" in text
    assert "2026-01-02: 3 finished, 1 failed." in text
    assert "| orders=eight | BackboneError: out \\| of luck |" in text
    # Baseline first, then the candidates as the rule names them.
    cells = text[text.index("## Cells") : text.index("## Failed")].split("\n\n")[1].splitlines()[2:]
    assert [line.split(" | ")[0] for line in cells] == ["| one", "| two", "| four"]
    nll = find_records(places.runs).found[0].record.metrics["nll"]
    assert f"{nll['value']:.4f} ({nll['low']:.3f} to {nll['high']:.3f})" in text
    ece = fake_record("two", FRAMES["two"]).metrics["ece_15_soft"]  # labels are shares of raters
    reference = f"(cal. {ece['reference_mean']:.3f}, ≤ {ece['reference_high']:.3f})"
    assert f"{ece['value']:.4f} {reference}" in text
    found = compare(FRAMES["one"], FRAMES["four"], names=("orders=one", "orders=four"))
    assert found.verdict == "better"
    assert "**Better**. orders=two is" in text
    assert found.sentence in text
    brier = found.differences["brier"]
    row = next(line for line in text.splitlines() if "four − orders=one | Brier score" in line)
    assert f"| {brier.value:+.4f} | {brier.low:+.4f} to {brier.high:+.4f} |" in row
    assert brier.detectable is not None
    one, two = (t.ppf([1 - 0.025 / many, 0.8], brier.groups - 1).sum() for many in (1, 2))
    assert brier.detectable_of(2) == pytest.approx(brier.detectable * two / one)
    assert row.endswith(f"| {brier.n} | {brier.detectable_of(2):.4f} |")
    assert "| 51.2 | 3.50 |" in text
    assert "`c0ffeec0ffee`" in text
    assert "`python -m reflex.run experiment=averaging`" in text
    assert "torch 2.13.0, transformers 5.24.0" in text
    assert "15 equal-width bins" in text
    assert "| news | orders=one |" in text
    assert "| score | orders=four |" in text
    assert (page.parent / "plots/averaging.svg").read_bytes().startswith(b"<?xml")


def test_page_regenerates_from_the_committed_records_alone(places: Places):
    sweep(places)
    for orders in ("one", "two", "four"):
        older = {"group": "averaging-0", "finished": "2025-12-31T00:00:00Z", "seed": 3}
        cell(places, orders, hash=f"{orders}fedcba9876543210", **older)
    cell(places, "eight", status="failed", error="boom")
    page = page_of(places)
    page.write_text(page.read_text().replace("<!-- hand:notes -->\n", "<!-- hand:notes -->\nMine."))
    page_of(places)
    before = tree(places.results)
    assert b"Mine." in before["averaging.md"]
    assert (
        b"others of this experiment: `averaging-0` (3 cells, 2025-12-31)" in before["averaging.md"]
    )
    shutil.rmtree(places.runs)
    for name in ("averaging.md", "README.md", "plots/averaging.svg"):
        text = (places.results / name).read_bytes()
        if name == "averaging.md":
            head, _, tail = text.partition(b"<!-- hand:")
            (places.results / name).write_bytes(
                head[: head.index(b"## Verdict")] + b"## Notes\n\n<!-- hand:" + tail
            )
        else:
            (places.results / name).unlink()
    (sweeps, problems) = find_sweeps(places, "averaging")
    assert problems == []
    for found in sweeps:
        write_page(found, places)
    assert tree(places.results) == before


def test_same_page_from_two_places(places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing of the machine (folders, time, order of reading) gets into page or plot; no cell is read twice."""
    read: list[Path] = []

    def noted(path: Path) -> Any:
        read.append(path)
        return read_predictions(path)

    monkeypatch.setattr(predictions, "read_predictions", noted)
    sweep(places)
    page_of(places)
    assert len(read) == len(set(read)) == 3
    other = Places(tmp_path / "elsewhere/deep/runs", tmp_path / "elsewhere/results")
    shutil.copytree(places.runs, other.runs)
    shutil.copytree(tmp_path / "experiments", tmp_path / "elsewhere/experiments")
    cells = find_records(other.runs).found
    write_page(group_sweep(other, list(reversed(cells))), other)
    assert tree(other.results) == tree(places.results)


def test_newest_sweep_wins_and_older_records_leave_the_repository(places: Places):
    sweep(places)
    page_of(places)
    late = {"group": "averaging-2", "finished": "2026-02-01T00:00:00Z"}
    cell(places, "one", hash="b" * 40, **late)
    before = tree(places.results)
    text = page_of(places, "averaging-2").read_text()  # ended before its other cells: no result yet
    assert "**Not a result.** The sweep ended before orders=two, orders=four; run" in text
    assert tree(places.results) == before
    cell(places, "two", hash="c" * 40, status="failed", error="boom", **late)
    cell(places, "four", hash="d" * 40, status="failed", error="boom", **late)
    sweeps, _ = find_sweeps(places, "averaging")
    assert [found.group for found in sweeps] == ["averaging-2"]
    text = page_of(places, "averaging-2").read_text()
    assert "others of this experiment: `averaging-1` (3 cells, 2026-01-02)" in text
    kept = places.results / "records/averaging"
    folders = sorted(path.name for path in kept.iterdir() if path.is_dir())
    assert folders == ["b" * 16, "c" * 16, "d" * 16]
    assert "**Cannot tell**" in text
    assert "orders=two has no result to compare with orders=one." in text


DATA = fake_record().data
BACKBONE = fake_record().backbone


@pytest.mark.parametrize(
    "changed",
    [
        {"numerics": 2},
        {"packages": {"torch": "2.14.0", "transformers": "5.24.0"}},
        {"data": {**DATA, "sha256": "corrected"}},
        {"prompt_hash": "reworded"},
        {"backbone": {**BACKBONE, "dtype": "bfloat16"}},
        {"backbone": {**BACKBONE, "weights_sha256": "moved"}},
    ],
    ids=["numerics", "torch", "rows", "prompt", "dtype", "weights"],
)
def test_a_sweep_that_goes_on_after_a_change_is_unfinished_until_all_is_run_again(
    places: Places, changed: dict[str, Any]
):
    """Killed after its first cell: no page compares that with what was measured before, which is still whole."""
    before = {"backbone": {**BACKBONE, "weights_sha256": "first"}}
    sweep(places, **before)
    late = {"finished": "2026-02-01T00:00:00Z", **before, **changed}
    cell(places, "one", hash="b" * 40, **late)
    sweeps, _ = find_sweeps(places, "averaging")
    assert [(each.full, [c.record.name for c in each.cells], each.missing) for each in sweeps] == [
        (False, ["orders=one"], ["orders=two", "orders=four"]),
        (True, ["orders=one", "orders=two", "orders=four"], []),
    ]
    for orders in ("two", "four"):
        cell(places, orders, hash=orders * 12, **late)
    (again,), _ = find_sweeps(places, "averaging")
    assert (again.full, {c.record.finished for c in again.cells}) == (True, {late["finished"]})


def test_the_page_of_a_sweep_stays_while_it_is_run_again_after_a_change(places: Places):
    sweep(places)
    page_of(places)
    kept = tree(places.results)
    cell(places, "one", hash="b" * 40, numerics=2, finished="2026-02-01T00:00:00Z")
    unfinished = page_of(places)
    assert unfinished == places.runs / "pages/averaging.md"
    assert "The sweep ended before orders=two, orders=four; run" in unfinished.read_text()
    assert tree(places.results) == kept


def test_a_sweep_without_named_cells_is_unfinished_after_a_change_too(places: Places):
    sweep(places, **NO_RULE)
    cell(places, "one", hash="b" * 40, numerics=2, finished="2026-02-01T00:00:00Z", **NO_RULE)
    sweeps, _ = find_sweeps(places, "averaging")
    assert [(each.full, each.missing) for each in sweeps] == [
        (False, ["orders=four", "orders=two"]),
        (True, []),
    ]


def test_cells_of_one_sweep_may_differ_in_rows_and_dtype(places: Places):
    """A sweep over suites or dtypes; one that failed has neither."""
    for orders, dtype in (("one", "float32"), ("two", "bfloat16"), ("four", "float16")):
        data = {**DATA, "sha256": f"rows of {orders}"}
        cell(places, orders, data=data, backbone={**BACKBONE, "dtype": dtype})
    late = {"finished": "2026-02-01T00:00:00Z"}
    cell(places, "one", hash="b" * 40, data={**DATA, "sha256": "corrected"}, **late)
    cell(places, "eight", status="failed", error="boom", packages={}, numerics=0)
    (found,), _ = find_sweeps(places, "averaging")
    assert (found.full, len(found.cells), len(found.failed)) == (True, 4, 1)


@pytest.mark.slow
def test_another_suite_has_its_own_page_records_and_verdict(places: Places):
    """A negative verdict on one suite stays when the experiment is run on another."""
    texts = []
    for month, (suite, name, baseline, candidate) in enumerate(
        [
            ("human_ratings", "averaging", "orders=four", "orders=one"),
            ("mmlu", "averaging-mmlu", "orders=one", "orders=four"),
        ],
        start=1,
    ):
        rule = {"metric": "nll", "baseline": baseline, "candidates": [candidate]}
        for orders in ("one", "four"):
            cell(
                places,
                orders,
                hash=f"{orders}{suite}0123456789",
                group=f"averaging-{suite}",
                axes={"orders": orders, "benchmark": suite},
                config={"verdict": rule},
                finished=f"2026-0{month}-02T00:00:00Z",
            )
        page = page_of(places, f"averaging-{suite}")
        assert page == places.results / f"{name}.md"
        kept = find_records(places.results / "records" / name).found
        assert [each.record.axes["benchmark"] for each in kept] == [suite] * 2
        texts.append(page.read_text())
    own, other = texts
    assert own.startswith("# Order averaging\n")
    assert "**Worse**. orders=one is" in own
    assert other.startswith("# Order averaging on mmlu\n")
    assert "**Better**. orders=four is" in other
    assert "[records/averaging-mmlu](records/averaging-mmlu)" in other
    assert "others of this experiment" not in own + other
    index = (places.results / "README.md").read_text()
    assert [line for line in index.splitlines() if line.startswith("| [")] == [
        "| [Order averaging on mmlu](averaging-mmlu.md) | Does averaging help? | "
        "better (orders=four: better) | 2026-02-02 |",
        "| [Order averaging](averaging.md) | Does averaging help? | "
        "worse (orders=one: worse) | 2026-01-02 |",
    ]
    # Both are rebuilt by the experiment's name, from the committed records alone.
    before = tree(places.results)
    shutil.rmtree(places.runs)
    for path in (*places.results.glob("*.md"), *places.results.glob("plots/*")):
        path.unlink()
    assert report_in(places, "experiment=averaging") == 0
    assert tree(places.results) == before


def test_every_task_file_has_its_own_page(places: Places):
    """No verdict on one file takes the place of that on another, not even of the same name."""
    names = {}
    for path in ("a.jsonl", "b.jsonl", "x/a.jsonl", "x/my rows (2).jsonl"):
        axes = {"orders": "one", "benchmark": "task_file", "benchmark.path": path}
        group = f"averaging-{path}"
        cell(
            places,
            "one",
            hash=hashlib.sha256(path.encode()).hexdigest(),
            group=group,
            axes=axes,
            **NO_RULE,
        )
        found = group_sweep(places, find_records(places.runs, group=group).found)
        names[path] = places.page(found).name
    assert {path: re.sub(r"-[0-9a-f]{6}\.md$", "", name) for path, name in names.items()} == {
        "a.jsonl": "averaging-task_file-a",
        "b.jsonl": "averaging-task_file-b",
        "x/a.jsonl": "averaging-task_file-a",
        "x/my rows (2).jsonl": "averaging-task_file-my_rows_2_",
    }
    assert len(set(names.values())) == 4
    assert {f"{each.name}.md" for each in find_sweeps(places, "averaging")[0]} == set(
        names.values()
    )


def test_a_sweep_over_suites_is_named_by_all_of_them(places: Places):
    for suite in ("mmlu", "human_ratings"):
        axes = {"orders": "one", "benchmark": suite}
        cell(places, "one", hash=suite * 8, name=f"benchmark={suite}", axes=axes, **NO_RULE)
    assert page_of(places) == places.results / "averaging-human_ratings+mmlu.md"


def test_another_backbone_has_its_own_page(places: Places):
    sweep(places)
    own = page_of(places)
    before = own.read_bytes()
    for group, axes, name in (
        ("averaging-2", {"backbone": "tiny_qwen3"}, "averaging-tiny_qwen3"),
        (
            "averaging-3",
            {"backbone": "tiny_qwen3", "benchmark": "mmlu"},
            "averaging-mmlu-tiny_qwen3",
        ),
    ):
        for orders in ("one", "two", "four"):
            late = {"finished": "2026-03-01T00:00:00Z", "hash": f"{orders}{group}" * 4}
            cell(places, orders, group=group, axes={"orders": orders, **axes}, **late)
        page = page_of(places, group)
        assert page == places.results / f"{name}.md"
        assert f"[records/{name}](records/{name})" in page.read_text()
    assert page.read_text().startswith("# Order averaging on mmlu with tiny_qwen3\n")
    assert own.read_bytes() == before
    assert [found.name for found in find_sweeps(places, "averaging")[0]] == [
        *("averaging", "averaging-mmlu-tiny_qwen3", "averaging-tiny_qwen3"),
    ]


@pytest.mark.parametrize(
    ("experiment", "axes", "name"),
    [
        ("weight_classes", {"backbone": "tiny_qwen3"}, "weight_classes"),  # it sweeps over them
        ("order_averaging", {"backbone": None}, "order_averaging"),
        # A server's is its own.
        ("order_averaging", {"backbone": "x", "model": "remote"}, "order_averaging"),
    ],
)
def test_a_backbone_that_does_not_name_the_page(
    places: Places, experiment: str, axes: dict[str, Any], name: str
):
    cell(places, "one", experiment=experiment, axes=axes, **NO_RULE)
    assert page_of(places) == places.results / f"{name}.md"


@pytest.mark.parametrize(
    ("name", "group", "choice"),
    [
        ("order_averaging", "benchmark", "human_ratings"),  # says nothing: the default
        ("mmlu_calibration", "benchmark", "mmlu"),
        ("embedded_release_facts", "benchmark", "held_out"),  # as what it starts from
        ("not_there", "benchmark", "human_ratings"),
        ("order_averaging", "backbone", "smollm2_135m"),
        ("weight_classes", "backbone", None),
    ],
)
def test_what_an_experiment_chooses_by_itself(name: str, group: str, choice: str | None):
    assert own_choice(name, group) == choice


def test_a_servers_answers_are_kept_beside_the_record_that_names_them(places: Places):
    cost = {**fake_record().cost, "requests": {"file": "answers.jsonl"}}
    one, two = (cell(places, orders, cost=cost, **NO_RULE).hash[:16] for orders in ("one", "two"))
    (places.runs / two / "answers.jsonl").write_text('{"row": 0, "ms": 12.5}\n')
    (places.runs / one / "fit_predictions.parquet").write_bytes(b"what temperatures came from")
    page_of(places)
    kept = places.results / "records/averaging"
    assert (kept / two / "answers.jsonl").read_text() == '{"row": 0, "ms": 12.5}\n'
    own = {"record.json", "predictions.parquet", "fit_predictions.parquet"}
    assert {path.name for path in (kept / one).iterdir()} == own


def test_only_the_newest_try_of_a_cell_counts(places: Places):
    sweep(places)
    later = {"finished": "2026-01-03T00:00:00Z"}
    cell(places, "two", hash="c" * 40, status="failed", error="second try", **later)
    cell(places, "eight", status="failed", error="first try")
    cell(places, "eight", hash="d" * 40, **later)
    text = page_of(places).read_text()
    assert "second try" in text
    assert "first try" not in text
    assert "| eight |" in text
    assert "3 finished, 1 failed" in text


@pytest.mark.parametrize("changes", [{"limited": True}, {"debug": True}, {"status": "failed"}])
def test_what_is_no_result_does_not_touch_results(places: Places, changes: dict[str, Any]):
    sweep(places)
    page_of(places)
    before = tree(places.results)
    for orders in ("one", "two"):
        cell(
            places,
            orders,
            hash=orders * 10,
            group="averaging-9",
            finished="2026-03-01T00:00:00Z",
            error="boom",
            **changes,
        )
    page = page_of(places, "averaging-9")
    assert page == places.runs / "pages/averaging.md"
    assert "**Not a result.**" in page.read_text()
    assert tree(places.results) == before
    sweeps, _ = find_sweeps(places, "averaging")
    assert [(found.group, found.full) for found in sweeps] == [
        ("averaging-9", False),
        ("averaging-1", True),
    ]


def test_a_run_outside_an_experiment_has_a_page_of_its_own(places: Places):
    cell(places, "one", experiment=None, group="evaluate-1")
    page = page_of(places, "evaluate-1")
    assert page == places.runs / "pages/evaluate-1.md"
    assert "outside an experiment" in page.read_text()


def test_broken_marker_stops_before_anything_is_written(places: Places):
    sweep(places)
    page = page_of(places)
    for broken in (page, places.results / "README.md"):
        sound = broken.read_text()
        broken.write_text(sound.replace("<!-- /hand -->", ""))
        before = tree(places.results)
        cell(places, "one", group="averaging-2", finished="2026-02-01T00:00:00Z", **NO_RULE)
        with pytest.raises(RecordError, match="not closed"):
            page_of(places, "averaging-2")
        assert tree(places.results) == before
        broken.write_text(sound)


def test_index_keeps_every_experiment(places: Places):
    sweep(places)
    page_of(places)
    index = places.results / "README.md"
    index.write_text(
        index.read_text().replace("<!-- hand:notes -->\n", "<!-- hand:notes -->\nWhy.")
    )
    block = {"metric": "nll", "baseline": "orders=four", "candidates": ["orders=one"]}
    for orders in ("one", "four"):
        cell(
            places,
            orders,
            hash=orders * 12,
            experiment="reverse",
            group="reverse-1",
            config={"verdict": block},
            finished="2026-05-05T00:00:00Z",
        )
    (places.results.parent / "experiments/kinds.md").write_text(
        EXPERIMENT.replace("Order averaging", "Kinds | of orders")
    )
    page_of(places, "reverse-1")
    text, open_ = index.read_text().split("## Asked, without a result of full scope yet")
    assert "| [Kinds \\| of orders](../experiments/kinds.md) | Does averaging help? |" in open_
    assert "averaging.md" not in open_
    rows = [line for line in text.splitlines() if line.startswith("| [")]
    assert rows == [
        "| [Reverse](reverse.md) | – | worse (orders=one: worse) | 2026-05-05 |",
        "| [Order averaging](averaging.md) | Does averaging help? | better (orders=two: better; "
        "orders=four: better) | 2026-01-02 |",
    ]
    assert "Why." in open_


def test_rule_is_applied_within_each_setting(places: Places):
    for backbone in ("tiny_llama", "tiny_qwen3"):
        for orders in ("one", "two", "four"):
            if (backbone, orders) == ("tiny_qwen3", "one"):
                continue
            cell(
                places,
                orders,
                hash=f"{backbone}{orders}" * 4,
                name=f"backbone={backbone},orders={orders}",
                axes={"backbone": backbone, "orders": orders},
            )
    (found,), _ = find_sweeps(places, "averaging")
    first, second = judge_sweep(found)
    assert (first.setting, first.verdict) == ("backbone=tiny_llama", "better")
    assert set(first.comparisons) == {"orders=two", "orders=four"}
    assert (second.setting, second.verdict) == ("backbone=tiny_qwen3", "cannot tell")
    assert second.problems == ["The baseline orders=one has no finished cell here."]
    assert matches(fake_record("two"), "orders=two,backbone=smollm2_135m")
    assert not matches(fake_record("two"), "orders=two,backbone=other")


def test_rules_that_cannot_be_applied_are_said(places: Places):
    cell(
        places, "one", config={"verdict": {"metric": "luck", "baseline": "a", "candidates": ["b"]}}
    )
    text = page_of(places).read_text()
    assert "The decision rule cannot be applied: verdict.metric: 'luck'" in text
    cell(places, "one", config={"verdict": None})
    assert "stand without a verdict by this page" in page_of(places).read_text()
    cell(places, "one")
    frame = FRAMES["two"].assign(item_id="other-" + FRAMES["two"]["item_id"])
    record = fake_record("two", frame)
    write_record(places.runs / record.hash[:16], record, frame)
    assert "have no item in common" in page_of(places).read_text()


def test_experiment_page_is_read(tmp_path: Path):
    (tmp_path / "a.md").write_text(
        "# T\n\n## Question\nOne\ntwo?\n\n## Hypothesis\n\nH.\n## Next\n"
    )
    found = read_experiment(tmp_path, "a")
    assert (found.title, found.question, found.hypothesis) == ("T", "One two?", "H.")
    assert read_experiment(tmp_path, "not_there").title == "Not there"


def test_plot_is_deterministic_and_may_be_absent(places: Places):
    sweep(places)
    cells = find_records(places.runs).found
    assert reliability_svg(cells) == reliability_svg(cells)
    frame = FRAMES["one"].assign(gold=-1)
    record = fake_record("one", frame)
    write_record(places.runs / record.hash[:16], record, frame)
    assert reliability_svg(find_records(places.runs).found[1:2]) is None


def test_terminal_table():
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    records = [fake_record(orders, FRAMES[orders]) for orders in FRAMES]
    failed = fake_record("[red]", FRAMES["one"], status="failed", error="no\nluck")
    print_table([*records, failed], console)
    text = console.export_text()
    for record in records:
        assert f"{record.metrics['nll']['value']:.4f}" in text
    assert "failed: orders=[red]: no luck" in text


def report_in(places: Places, *words: str) -> int:
    return report.main([*words, f"runs_dir={places.runs}", f"results_dir={places.results}"])


def test_command(places: Places, capsys: pytest.CaptureFixture[str]):
    sweep(places)
    cell(places, "one", experiment="other", group="other-1", hash="e" * 40, **NO_RULE)
    (places.runs / "broken").mkdir()
    (places.runs / "broken/record.json").write_text("{")
    assert report_in(places) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-2:] == [
        f"page: {places.results / 'averaging.md'}",
        f"page: {places.results / 'other.md'}",
    ]
    (line,) = shown.err.splitlines()
    assert line.startswith(f"warning: {places.runs / 'broken/record.json'}: not a whole record")
    assert report_in(places, "experiment=other", "target=markdown") == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"page: {places.results / 'other.md'}"
    shutil.rmtree(places.results)
    assert report_in(places, "experiment=othr") == 1
    assert "no records of experiment 'othr'" in capsys.readouterr().err
    cell(places, "one", experiment=None, group="evaluate-1", hash="f" * 40)
    assert report_in(places, "experiment=evaluate-1") == 0
    assert not (places.results / "evaluate-1.md").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["order_averaging"], "'order_averaging' is not key=value"),
        (["experimnt=a"], "unknown key 'experimnt' in 'experimnt=a'; known keys: experiment,"),
        (["experiment="], "experiment= has no value"),
        (["target=pdf"], "target='pdf' is not one of markdown"),
        (["experiment=a", "experiment=b"], "experiment is given twice"),
    ],
)
def test_command_errors_are_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    assert report.main(words) == 1
    shown = capsys.readouterr()
    assert said in shown.err
    assert len(shown.err.splitlines()) == 1
    assert shown.out == ""
    if not words[0].startswith("target"):
        with pytest.raises(ConfigError):
            report.parse(words)


def test_help_and_report_import_no_torch(places: Places):
    sweep(places)
    code = (
        "import sys; from reflex import report; report.main(sys.argv[1:]);"
        "assert not {'torch', 'wandb', 'lightning', 'transformers'} & set(sys.modules)"
    )
    arguments = [f"runs_dir={places.runs}", f"results_dir={places.results}"]
    root = Path(__file__).parents[1]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, cwd=root)
    done = subprocess.run(
        [sys.executable, "-m", "reflex.report", "--help"],
        check=True,
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("python -m reflex.report [experiment=NAME]")
    manifest = json.loads((places.results / "records/averaging/sweep.json").read_text())
    assert manifest["group"] == "averaging-1"
