"""`readout=auto`: which readout answered and why, in the record, per item and on the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

import reflex
from reflex.config import readout_config
from reflex.errors import ConfigError
from reflex.readouts.base import used_options, used_readouts
from reflex.tracking.predictions import read_predictions
from reflex.tracking.record import find_records
from tests import cli

WORDS = [
    *("backbone=tiny_llama", "device=cpu", "device.dtype=float32", "readout=auto"),
    "readout.auto.max_label_options=3",
    "readout.noul=label_tokens",  # asked without the router
]
FEW = "3 options, each with a single-token label"
MANY = "4 options, max_label_options is 3"


def test_the_record_says_which_readout_and_why(tmp_runs: Path, tmp_path: Path) -> None:
    tasks = cli.write_tasks(tmp_path / "tasks.jsonl", rows=5)
    own = ["benchmark=task_file", f"benchmark.path={tasks}", f"results_dir={tmp_path}"]
    ended = cli.run(*WORDS, *own, "tracker=none")
    assert ended.status == 0, ended.err
    (cell,) = find_records(tmp_runs).found
    assert cell.record.backbone["routes"] == {"label_tokens": {FEW: 5}, "pointer": {MANY: 5}}
    frame = read_predictions(cell.path)
    frame["route"] = frame["route"].fillna("")
    told = set(zip(frame["question_id"], frame["readout"], frame["route"], strict=True))
    assert told == {
        ("good", "label_tokens", ""),
        ("mood", "label_tokens", FEW),
        ("stars", "pointer", MANY),
    }


def test_every_routed_answer_says_so_on_the_wire() -> None:
    request = {"state": "row 1 is fine", "questions": cli.QUESTIONS}
    answers: Any = reflex.load(WORDS).answer(request).model_dump()["answers"]
    assert {key: answers["mood"][key] for key in ("x_readout", "x_route")} == {
        "x_readout": "label_tokens",
        "x_route": FEW,
    }
    assert {key: answers["stars"][key] for key in ("x_readout", "x_route")} == {
        "x_readout": "pointer",
        "x_route": MANY,
    }
    assert "x_route" not in answers["good"]


@pytest.mark.parametrize(
    ("limit", "count", "wanted"),
    [
        (26, 26, ("label_tokens", "26 options, each with a single-token label")),
        (26, 27, ("pointer", "27 options, max_label_options is 26")),
        (0, 2, ("pointer", "2 options, max_label_options is 0")),
    ],
)
def test_the_limit_decides(limit: int, count: int, wanted: tuple[str, str]) -> None:
    from reflex.contract import Choice
    from reflex.readouts.auto import Config
    from tests.test_pointer import model_with

    model = model_with(choice="auto", auto=Config(max_label_options=limit))
    question = Choice(criteria=dict.fromkeys(f"option {i}" for i in range(count)))
    readout, notes = model.route(question)
    assert notes == {"x_readout": wanted[0], "x_route": wanted[1]}
    assert readout.name == wanted[0]


@pytest.mark.parametrize(
    ("config", "count", "wanted"),
    [
        ({}, 26, ("label_tokens", "26 options, each with a single-token label")),
        ({}, 40, ("pointer", "40 options, 26 single-token labels")),
        ({"overflow": "refuse"}, 40, ("pointer", "40 options, 26 single-token labels")),
        ({"labels": "codes"}, 40, ("label_tokens", "40 options, each with a single-token label")),
        ({"overflow": "codes"}, 40, ("label_tokens", "40 options, each with a single-token label")),
        ({"labels": "codes"}, 45, ("pointer", "45 options, max_label_options is 44")),
    ],
)
def test_with_a_limit_above_26_the_labels_that_are_there_decide(
    config: dict[str, str], count: int, wanted: tuple[str, str]
) -> None:
    from reflex.contract import Choice, Request
    from reflex.readouts import auto, label_tokens
    from tests.test_pointer import model_with

    model = model_with(
        choice="auto",
        auto=auto.Config(max_label_options=44),
        label_tokens=label_tokens.Config(**config),
    )
    question = Choice(criteria=dict.fromkeys(f"option {i}" for i in range(count)))
    (asked,) = model.prepare(Request(state="s", questions={"q": question})).asked
    assert asked.notes == {"x_readout": wanted[0], "x_route": wanted[1]}
    assert asked.readout.name == wanted[0]
    # What is said of the labels is so: one list, one label to an option.
    (branch,) = asked.branches
    assert len({*branch.labels}) == (count if wanted[0] == "label_tokens" else 0)


def test_a_part_without_labels_cannot_be_the_one_with_labels() -> None:
    from reflex.readouts.auto import Config
    from tests.test_pointer import model_with

    with pytest.raises(ConfigError, match=r"readout\.auto\.labels=continuation: .*label_tokens"):
        model_with(choice="auto", auto=Config(labels="continuation"))


@pytest.mark.parametrize("head", ["pointer", "candidates"])
def test_the_rest_goes_to_the_head_whose_weights_the_run_has(head: str, tmp_path: Path) -> None:
    from reflex.contract import Choice
    from reflex.readouts import candidates, pointer
    from reflex.training.save import save_heads
    from tests.test_pointer import model_with

    path = str(tmp_path / "heads.safetensors")
    trained = model_with(choice=head)
    save_heads(trained, Path(path))
    own: Any = {"pointer": pointer.Config, "candidates": candidates.Config}[head](weights=path)
    model = model_with(choice="auto", **{head: own})
    question = Choice(criteria=dict.fromkeys(f"option {i}" for i in range(27)))
    readout, notes = model.route(question)
    assert (readout.name, notes) == (
        head,
        {"x_readout": head, "x_route": "27 options, max_label_options is 26"},
    )
    assert set(model.heads) == {head}
    wanted = trained.heads.state_dict()
    assert all(torch.equal(value, wanted[key]) for key, value in model.heads.state_dict().items())


def test_which_head_a_router_has_is_the_same_everywhere_it_is_asked() -> None:
    group: Any = OmegaConf.to_container(OmegaConf.structured(readout_config()(choice="auto")))
    assert used_readouts(group) == ("auto", "label_tokens", "pointer")  # nothing trained yet
    assert used_options(group)["auto"]["head"] == "pointer"
    named = {**group, "auto": {**group["auto"], "head": "pointer"}}
    assert used_options(named) == used_options(group)  # and so one cell, by its hash
    group["candidates"]["weights"] = "heads.safetensors"
    assert used_readouts(OmegaConf.create(group)) == ("auto", "candidates", "label_tokens")
    assert used_options(named) != used_options(group)
    group["pointer"]["weights"] = "heads.safetensors"
    with pytest.raises(
        ConfigError, match=r"readout\.auto\.head: candidates and pointer have weights"
    ):
        used_readouts(group)
    group["auto"]["head"] = "candidates"
    assert used_readouts(group) == ("auto", "candidates", "label_tokens")
