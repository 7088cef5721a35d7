"""The README is true: its commands are known and compose, its recipes run as printed."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from reflex.data.jsonl import write_lines
from tests.conftest import REPO

FENCE = re.compile(r"^```(\w+)(?: title=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)#\s]+)")


@dataclass(frozen=True)
class Block:
    """One fenced block; `title` is the file that a recipe would create."""

    language: str
    title: str
    text: str


def blocks(language: str) -> list[Block]:
    found = [Block(*groups) for groups in FENCE.findall((REPO / "README.md").read_text())]
    return [block for block in found if block.language == language]


def commands() -> list[str]:
    lines = [line.strip() for block in blocks("bash") for line in block.text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def run_arguments(command: str) -> list[str] | None:
    """The arguments that a README command gives to `reflex.run`; None if it runs something else."""
    words = shlex.split(command)
    if words[:2] == ["make", "run"]:
        given = [word.removeprefix("ARGS=") for word in words[2:]]
        return ["experiment=order_averaging", *shlex.split(" ".join(given))]
    if words[:3] == ["python", "-m", "reflex.run"]:
        return words[3:]
    return None


def cells(arguments: list[str]) -> list[list[str]]:
    """Every combination of a sweep's values, as the overrides of one cell each."""
    axes: list[list[str]] = []
    parser = OverridesParser.create()
    for override in parser.parse_overrides([word for word in arguments if "=" in word]):
        if override.is_sweep_override():
            key = override.get_key_element()
            axes.append([f"{key}={value}" for value in override.sweep_string_iterator()])
        else:
            axes.append([override.input_line or ""])
    return [list(cell) for cell in product(*axes)]


def environment(root: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(root), **more}


def call(root: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """`python ARGUMENTS` in `root`; a failure shows what the command printed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env=environment(root, **more),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def test_the_readme_has_commands() -> None:
    assert {"make run", "make test"} <= set(commands())


@pytest.mark.parametrize("command", commands())
def test_every_command_in_the_readme_is_of_a_tested_kind(command: str) -> None:
    words = shlex.split(command)
    if words[0] == "make":
        rule = rf"^{re.escape(words[1])}:"
        assert re.search(rule, (REPO / "Makefile").read_text(), re.MULTILINE), command
        assert all(word.startswith("ARGS=") for word in words[2:])
    elif words[:3] == ["python", "-m", "reflex.report"]:
        assert (REPO / "reflex" / "report.py").is_file()
        for word in words[3:]:
            key, _, value = word.partition("=")
            assert key in {"experiment", "target"}
            assert key != "experiment" or (REPO / f"conf/experiment/{value}.yaml").is_file()
    elif words[0] == "curl":  # against a running server in tests/test_serving_contract.py
        assert words[1] == "http://127.0.0.1:8000/v1/systemone"
        assert (REPO / words[-1].removeprefix("@")).is_file()
    elif words[:3] == ["python", "-m", "reflex.answer"]:  # itself in tests/test_answer.py
        assert (REPO / words[3]).is_file()
        assert words[4:] == ["run=stable"]
    elif words[:3] == ["python", "-m", "reflex.serve"]:
        from reflex.serving.source import resolve

        cfg, _ = resolve(words[3:])
        assert cfg.backbone.name == "smollm2_135m"
    else:
        assert run_arguments(command) is not None, f"{command}: no test knows this command"


@pytest.mark.parametrize("command", [c for c in commands() if run_arguments(c) is not None])
def test_every_run_in_the_readme_composes(command: str) -> None:
    from reflex.config import register

    register()
    arguments = run_arguments(command) or []
    flags = [word for word in arguments if "=" not in word]
    assert set(flags) <= {"-m", "--help"}
    with initialize_config_dir(str(REPO / "conf"), version_base="1.3"):
        for cell in cells(arguments):
            cfg = compose("config", overrides=cell)
            assert OmegaConf.missing_keys(cfg) == set(), cell


def recipe_files() -> list[Block]:
    return [block for language in ("python", "yaml") for block in blocks(language) if block.title]


TICKET = {
    "state": {"subject": "Box crushed", "body": "It came two weeks late."},
    "questions": {
        "topic": {"type": "choice", "criteria": {"delivery": None, "price": None, "other": None}},
        "angry": {"type": "noul", "instructions": "Is the customer angry?"},
    },
    "labels": {"topic": "delivery", "angry": True},
    "split": "report",
}


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and its configs with the README's recipes added as printed."""
    root = tmp_path_factory.mktemp("recipes")
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("reflex", "conf", "experiments"):
        shutil.copytree(REPO / name, root / name, ignore=ignore)
    for block in recipe_files():
        path = root / block.title
        assert not path.exists(), f"{block.title} exists: the recipe would replace it"
        path.write_text(block.text)
    rows = [{"id": f"t{i}", **TICKET} for i in range(6)]
    write_lines(root / "inbox.jsonl", rows)
    return root


def test_the_recipes_need_no_registration(extended: Path) -> None:
    assert {Path(block.title).suffix for block in recipe_files()} == {".py", ".yaml"}
    done = call(extended, "-m", "reflex.run", "--cfg", "job", "prompt=quoted", "benchmark=inbox")
    cfg = OmegaConf.create(done.stdout)
    assert cfg.prompt.name == "quoted"
    assert cfg.benchmark == {
        "_target_": "reflex.benchmarks.inbox.Inbox",
        "name": "inbox",
        "path": "inbox.jsonl",
        "limit": None,
    }


def test_the_words_of_a_style_change_as_the_readme_says(extended: Path) -> None:
    (command,) = [command for command in commands() if "prompt.texts" in command]
    done = call(extended, "-m", "reflex.run", "--cfg", "job", *(run_arguments(command) or []))
    assert OmegaConf.create(done.stdout).prompt.texts == {"question_heading": "# Task"}


@pytest.mark.slow
def test_the_experiment_of_the_readme_runs(extended: Path, tmp_path: Path) -> None:
    done = call(
        extended,
        *("-m", "reflex.run", "experiment=quotes", "backbone=tiny_llama", "tracker=none"),
        REFLEX_RUNS=str(tmp_path / "runs"),
    )
    records = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/record.json")]
    assert sorted(record["name"] for record in records) == ["prompt=chat", "prompt=quoted"]
    assert {record["status"] for record in records} == {"finished"}
    assert {record["data"]["n_rows"] for record in records} == {6}
    assert len({record["prompt_hash"] for record in records}) == 2
    page = Path(done.stdout.strip().splitlines()[-1].removeprefix("page: "))
    assert "prompt=quoted" in (extended / page).read_text()


def test_the_python_example_of_the_readme_runs() -> None:
    (example,) = [block for block in blocks("python") if not block.title]
    printed = call(REPO, "-c", example.text).stdout.strip().splitlines()[-1]
    probabilities = ast.literal_eval(printed)
    assert list(probabilities) == ["delivery", "price", "other"]
    assert sum(probabilities.values()) == pytest.approx(1, abs=1e-6)


def pages() -> list[Path]:
    return [REPO / "README.md", *sorted((REPO / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(REPO).as_posix())
def test_links_to_files_lead_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    # A results page appears with its first run.
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


def test_the_index_lists_every_decision_once() -> None:
    folder = REPO / "docs" / "decisions"
    files = sorted(path.name for path in folder.glob("[0-9]*.md"))
    index = (folder / "README.md").read_text()
    listed = re.findall(
        r"^\| \[(\d{3})\]\((\d{3}-[a-z0-9-]+\.md)\) \| (.+) \|$", index, re.MULTILINE
    )
    assert [name for _, name, _ in listed] == files
    for number, name, title in listed:
        first = (folder / name).read_text().splitlines()[0]
        assert first == f"# {number} {title}", f"the index calls {name} otherwise than its page"
    numbers = [name[:3] for name in files]
    assert len(set(numbers)) == len(numbers), "two decisions share a number"


def test_every_decision_says_what_would_reopen_it() -> None:
    for path in sorted((REPO / "docs" / "decisions").glob("[0-9]*.md")):
        text = path.read_text()
        assert text.startswith(f"# {path.name[:3]} "), path.name
        for part in ("**Context", "**Choice", "**Reopen if"):
            assert part in text, f"{path.name} lacks {part}"


def test_every_experiment_has_its_page_with_a_decision_rule() -> None:
    for path in sorted((REPO / "conf" / "experiment").glob("*.yaml")):
        page = REPO / "experiments" / f"{path.stem}.md"
        assert page.is_file(), f"experiments/{path.stem}.md is missing"
        text = page.read_text().lower()
        assert "hypothesis" in text
        assert "decision rule" in text
