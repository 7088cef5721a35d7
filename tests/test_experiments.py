"""Every experiment: composes typed, has its page and its rule, and runs on a tiny model to a page."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from reflex.metrics import check_block
from reflex.reporting.experiments import read_experiment
from tests.conftest import REPO

TRAINING = (
    *("abstention", "frozen_vs_trained", "kl_anchor", "loss", "readout_agreement", "readouts"),
    *("schema_first", "self_distill_orders", "taxonomy_share"),
)
OTHERS = {"embedded_release", "embedded_release_continued", "embedded_release_facts", *TRAINING}
"""Experiments of training: they have tests of their own (tests/test_training_experiments.py)."""

EXPERIMENTS = sorted(
    path.stem for path in (REPO / "conf/experiment").glob("*.yaml") if path.stem not in OTHERS
)
ASKED = {
    *(
        "order_averaging",
        "order_kinds",
        "mmlu_calibration",
        "s1bench",
        "prompt_style",
        "noul_readout",
        "overflow",
    ),
    *(
        "calibration_bucketing",
        "position_prior",
        "wording_ensemble",
        "continuation",
        "weight_classes",
    ),
}


def composed(name: str, *overrides: str) -> dict:
    from reflex.config import register

    register()
    with initialize_config_dir(str(REPO / "conf"), version_base="1.3"):
        cfg = compose("config", [f"experiment={name}", *overrides], return_hydra_config=True)
        found = OmegaConf.to_container(cfg, resolve=False)
    assert isinstance(found, dict)
    return found


def test_all_that_were_asked_for_are_there() -> None:
    assert set(EXPERIMENTS) >= ASKED


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_rule_names_cells_that_the_sweep_has(name: str) -> None:
    cfg = composed(name)
    params = cfg["hydra"]["sweeper"]["params"]
    cells = {f"{key}={value}" for key, values in params.items() for value in values.split(",")}
    block = {key: value for key, value in cfg["verdict"].items() if value is not None}
    if block["baseline"].endswith("=*"):
        assert block["baseline"][:-2] in params
        assert not block["candidates"]
        return
    _, baseline, candidates, _ = check_block(block)
    assert {baseline, *candidates} == cells


def written_before(name: str) -> str:
    """The text of an experiment's page, which says what is asked, expected, done and by which rule."""
    page = read_experiment(REPO / "experiments", name)
    assert page.page is not None
    assert page.question.endswith("?")
    assert page.hypothesis
    text = page.page.read_text()
    assert "**Design.**" in text
    assert f"conf/experiment/{name}.yaml" in text
    return text


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_page_was_written_before_the_result(name: str) -> None:
    written_before(name)
    comment = (REPO / f"conf/experiment/{name}.yaml").read_text().splitlines()[1]
    assert re.fullmatch(r"# .{20,}", comment)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_keeps_its_suite_on_a_gpu(name: str) -> None:
    cfg = composed(name, "profile=gpu")
    own = composed(name)["benchmark"]["name"]
    assert cfg["backbone"]["name"] == "qwen3_5_4b"
    expected = (
        "mmlu_s1bench" if own == "human_ratings" and "human" not in composed_text(name) else own
    )
    assert cfg["benchmark"]["name"] == expected


def composed_text(name: str) -> str:
    return (REPO / f"conf/experiment/{name}.yaml").read_text()


@contextmanager
def answering(name: str) -> Iterator[str]:
    """Address of a server for the experiment that asks one, else nothing."""
    if "remote" not in composed_text(name):
        yield ""
        return
    from scripts.serve_process import Server

    with Server("backbone=tiny_llama", "prompt=short") as server:
        yield server.url


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_runs_to_a_page(
    name: str,
    data_root: Path,
    tmp_runs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In one process, because importing takes longer than any of them."""
    from reflex.run import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    arguments = [f"experiment={name}", "debug=smoke", "tracker=none"]
    monkeypatch.setattr(sys, "argv", ["reflex.run", *arguments])
    with answering(name) as url:
        monkeypatch.setenv("REFLEX_URL", url)
        assert main() == 0, capfd.readouterr().err
    last = capfd.readouterr().out.strip().splitlines()[-1]
    page = Path(last.removeprefix("page: "))
    assert last.startswith("page: ")
    assert page.is_file()
    text = page.read_text()
    assert "**Not a result.** A debug run" in text
    params = composed(name)["hydra"]["sweeper"]["params"]
    (values,) = (values.split(",") for values in params.values())
    assert f": {len(values)} finished." in text
    assert "## Paired comparisons" in text
    assert "no finished cell" not in text.lower()
    assert "has no result" not in text
