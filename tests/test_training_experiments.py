"""Every experiment that trains: its rule names cells it has, its page was written first, and it runs to a page."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from reflex.data.contamination import blocked_subsets
from reflex.data.mixture import mixture_names
from reflex.loading import compose
from reflex.metrics import check_block
from reflex.tracking.record import find_records
from tests.cli import run
from tests.test_experiments import TRAINING, composed, written_before


def cells(name: str) -> list[set[str]]:
    """Every cell of the sweep as its settings."""
    params = composed(name)["hydra"]["sweeper"]["params"]
    values = [
        [f"{key}={each}" for each in str(listed).split(",")] for key, listed in params.items()
    ]
    return [set(cell) for cell in itertools.product(*values)]


@pytest.mark.parametrize("name", TRAINING)
def test_the_rule_names_cells_of_the_sweep(name: str) -> None:
    cfg = composed(name)
    block = {key: value for key, value in cfg["verdict"].items() if value is not None}
    _, baseline, candidates, _ = check_block(block)
    for named in (baseline, *candidates):
        assert any(set(named.split(",")) <= cell for cell in cells(name)), named
    assert (cfg["task"]["name"], cfg["mixture"]["name"]) == ("train_evaluate", "embedded")


@pytest.mark.parametrize("name", TRAINING)
def test_the_page_was_written_before_the_result(name: str, repo: Path) -> None:
    """It says that it was not run for as long as there is no result, and no longer."""
    told = "**State.** Not run" not in written_before(name)
    assert told == (repo / "results" / f"{name}.md").is_file()


SECTIONS = {
    "frozen_vs_trained": ("## Training", "## Question sensitivity", "## By category"),
    "readouts": ("## Training", "## Agreement", "## By category"),
    "readout_agreement": ("## Agreement",),
    "abstention": ("## By category",),
}
"""What the page of an experiment has to show beside the verdict."""


def test_nothing_of_the_sets_called_never_trained_is_in_the_mixture() -> None:
    cfg = compose(["benchmark=trained_and_new", "mixture=embedded"])
    new, trained = (cfg.benchmark.parts[name] for name in ("never_trained", "trained"))
    assert (len(new.subsets), list(cfg.mixture.allow)) == (6, [])
    held = {
        name: subsets
        for name in mixture_names(cfg.mixture.sources)
        if (subsets := set(blocked_subsets(name)) & set(new.subsets))
    }
    assert held == {}
    assert blocked_subsets("tals/vitaminc") == ("vitaminc-dev",)  # what would be found
    assert set(trained.sources) <= set(cfg.mixture.sources)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINING)
def test_every_training_experiment_runs_to_a_page(
    name: str, data_root: Path, tmp_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    done = run(f"experiment={name}", "debug=smoke", "tracker=none")
    assert done.status == 0, done.err
    text = done.page.read_text()
    assert "**Not a result.** A debug run" in text
    assert f": {len(cells(name))} finished." in text
    for heading in ("## Paired comparisons", "## Training", *SECTIONS.get(name, ())):
        assert heading in text
    if name == "frozen_vs_trained":
        table = text.split("## By category\n")[1].split("\n## ")[0]
        rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")]
        assert rows[2:] == ["never_trained"] * 4 + ["trained"] * 4
    assert "cannot be applied" not in text
    assert "has no result" not in text
    found = find_records(tmp_runs, name).found
    assert len(found) == len(cells(name))
    trained = {cell.record.backbone["adapter_sha256"] for cell in found}
    assert len(trained - {None}) >= 2
