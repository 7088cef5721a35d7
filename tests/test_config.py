"""Composing a configuration: everything typed, precedence, and every mistake one line that says where."""

from __future__ import annotations

import dataclasses
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import OmegaConf

import reflex
from reflex.config import RootConfig, register
from reflex.errors import ConfigError, RecordError
from reflex.loading import compose, run_folder
from reflex.overrides import as_typed
from reflex.places import runs_folder
from reflex.tasks.check_config import check_config
from tests import cli

CONF = cli.REPO / "conf"
WHOLE_RUN = ("profile", "experiment", "debug")
"""Groups whose files change the typed root instead of having a schema of their own."""

FILES = sorted(
    path.relative_to(CONF)
    for path in CONF.rglob("*.yaml")
    if path.relative_to(CONF).parts[0] not in ("hydra", "launcher", "local") and path.parent != CONF
)


def extra(folder: Path, name: str, text: str) -> list[str]:
    """Arguments that make `experiment=name` this text, from a folder outside the repository."""
    (folder / "experiment").mkdir(exist_ok=True)
    (folder / "experiment" / f"{name}.yaml").write_text(f"# @package _global_\n{text}")
    return ["--config-dir", str(folder), f"experiment={name}"]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_every_file_composes_into_a_typed_group(file: Path) -> None:
    group = "/".join(file.parts[:-1])
    if group in WHOLE_RUN:
        cfg = compose([f"{group}={file.stem}"])
        assert set(cfg) == set(RootConfig.__dataclass_fields__)
        assert (CONF / file).read_text().startswith("# @package _global_\n")
        return
    register()
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        schema = OmegaConf.get_type(hydra_compose(f"{group}/{file.stem}")[group])
    assert dataclasses.is_dataclass(schema), f"{file}: start it from its schema"


def test_composing_imports_no_torch_and_help_takes_under_a_second() -> None:
    code = (
        "import sys; from reflex.loading import compose; compose(['experiment=order_averaging']);"
        "import reflex.run; heavy = {'torch', 'pandas', 'transformers', 'lightning', 'wandb', 'scipy'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=cli.REPO
    )
    assert done.stdout.strip() == "[]", done.stderr
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "reflex.run", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cli.REPO)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0
    assert done.returncode == 0
    for folder in CONF.iterdir():
        if folder.is_dir() and folder.name not in ("hydra", "local"):
            assert f"\n{folder.name}\n" in done.stdout
            for file in folder.glob("*.yaml"):
                assert re.search(rf"^  [ *] {file.stem} +\S", done.stdout, re.M), "says what it is"
    assert "* smollm2_135m" in done.stdout


# -- who wins ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "backbone", "tokens"),
    [
        (["profile=gpu"], "qwen3_5_4b", 16384),
        (["profile=gpu", "experiment=x"], "tiny_qwen3", 777),
        (["profile=gpu", "experiment=x", "debug=smoke"], "tiny_llama", 777),
        (
            ["debug=smoke", "experiment=x", "backbone=qwen3_8b", "forward.max_tokens=5"],
            "qwen3_8b",
            5,
        ),
    ],
)
def test_command_line_over_debug_over_experiment_over_profile(
    words: list[str], backbone: str, tokens: int, tmp_path: Path
) -> None:
    text = "defaults: [override /backbone: tiny_qwen3]\nforward: {max_tokens: 777}\n"
    flags = extra(tmp_path, "x", text)[:2]
    ended = cli.run(*flags, *words, "--cfg", "job")
    found = yaml.safe_load(ended.out)
    assert found["backbone"]["name"] == backbone
    assert found["forward"]["max_tokens"] == tokens


def test_the_gpu_profile_composes_anywhere_and_smoke_puts_it_on_the_cpu() -> None:
    assert compose(["profile=gpu"]).device.name == "cuda"
    small = compose(["profile=gpu", "debug=smoke"])
    assert (small.device.name, small.device.dtype) == ("cpu", "float32")
    assert small.backbone.source == "random"
    assert small.smoke


# -- mistakes ---------------------------------------------------------------------------------

MISTAKES = {
    "benchmark.limt=3": "benchmark.limt: no such key; did you mean limit?",
    "benchmrk=human_ratings": "benchmrk",
    "orders=2": "orders=2: use one of cyclic, four, four_levels_kept, one, reversed, two\n",
    "device=0": "device=0: use one of cpu, cuda, mps",
    "mixture=null": "mixture=null: use one of broad, embedded, embedded_continued, embedded_facts; ~mixture",
    "debug=true": "debug=true: use one of smoke; ~debug leaves the group out",
    "hydra/launcher=1": "hydra/launcher=1: use a name; ~hydra/launcher leaves the group out",
    "verdict.margin=1": "verdict.margin=1: verdict is null here; add an experiment=… that has one",
    "verdict={metric: nll}": "verdict={metric: nll}: verdict is null here",
    "+a.b=1": "+a.b=1: a holds one value and no keys",
    "seed.x=1": "seed.x=1: seed holds one value and no keys",
    "mixture.rows=3": "mixture.rows: no such key; nothing is chosen for mixture: add mixture=…",
    "seed=-1": "seed=-1: must be in 0..4294967295",
    "seed=4294967296": "seed=4294967296: must be in 0..4294967295",
    "backbone.seed=9223372036854775808": "backbone.seed=9223372036854775808: must fit 64 bits",
    "readout.rating.levels=1": "readout.rating.levels: no such key\n",
    "runs_dir=": "runs_dir= has no value; leave the key out for its default",
    "orders.permutations=9": "orders.permutations=9: at most 8 orders",
    "device.threads=0": "device.threads=0: use 1 to 4096, or null",
    "device.threads=-2": "device.threads=-2: use 1 to 4096, or null",
    "seeed=3": "seeed: no such key; did you mean seed?",
    "+benchmrk.limit=3": "benchmrk: no such key",
    "+backbone.colour=red": "backbone.colour: no such key",
    "seed=many": "seed=many: Value 'many' of type 'str' could not be converted to Integer",
    "tracker.mode=sometimes": "expected one of [auto, online, offline, disabled]",
    "backbone=tiny_lama": "backbone=tiny_lama: no such option (did you mean tiny_llama?); use one of",
    "orders=one,two": "add -m",
    "orders=[": "orders=[: cannot be read as key=value",
    "orders": "orders: not understood; write key=value",
    "run=nosuch": "run=nosuch: only task=gate reads it; serve it",
    "a=nosuch": "a=nosuch: only task=compare reads it",
    "orders.permutations=0": "orders.permutations=0: must be at least 1",
    "forward.strategy=fast": "forward.strategy=fast: use one of auto, packed, batched, flat",
    "forward.reuse_tokens=-1": "forward.reuse_tokens=-1: must be a number of 0 or more",
    "readout.noul=guess": "readout.noul=guess: no such readout; use one of",
    "device.dtype=float31": "device.dtype=float31: use one of",
    "backbone.name=???": "backbone.name: no value given",
    "~backbone": "backbone: no value given",
    "benchmark.limit=0": "benchmark.limit=0: must be at least 1",
    "+prompt.texts.greeting=hi": "prompt.texts.greeting: no such component",
    "prompt.texts.system_prompt=hi": "a new entry is written +prompt.texts.system_prompt=",
    "device=cuda": "device=cuda: this machine has no such device",
    "profile=gpu": "device=cuda: this machine has no such device",
}


@pytest.mark.parametrize("word", MISTAKES)
def test_a_mistake_on_the_command_line_is_one_line(word: str, tmp_runs: Path) -> None:
    if "cuda" in MISTAKES[word]:
        import torch

        if torch.cuda.is_available():
            pytest.skip("this machine has a GPU")
    small = [] if word in ("~backbone", "profile=gpu") else ["backbone=tiny_llama"]
    ended = cli.run(*small, word)
    assert ended.status == 1
    assert ended.out == ""
    assert len(ended.err.splitlines()) == 1, ended.err
    assert ended.err.startswith("error: ")
    assert MISTAKES[word] in ended.err
    assert not list(tmp_runs.glob("[!.]*")), "nothing is left behind"


FILE_MISTAKES = {
    "benchmark:\n  limt: 4": ("typo.yaml:3: benchmark.limt: no such key", "did you mean limit?"),
    "benchmrk: {limit: 4}": ("typo.yaml:2: benchmrk: no such key", "did you mean benchmark?"),
    "seed: many": ("typo.yaml:2: seed: Value 'many'",),
    "forward: {max_tokens: [1\nseed: 2": ("typo.yaml:3:",),
    "seed: 1\nseed: 2": ("typo.yaml:3:", "duplicate key seed"),
    "defaults: [override /orders: tow]": (
        "typo.yaml:2: orders=tow: no such option",
        "one, reversed",
    ),
    "hydra:\n  mode: MULTIRUN\n  sweeper: {params: {orders: 'one,tow'}}": (
        "typo.yaml:4: orders=tow",
    ),
    "hydra:\n  mode: MULTIRUN\n  sweeper: {params: {orderz: 'one,two'}}": ("orderz: no such key",),
    "hydra: {swepeer: {}}": ("typo.yaml:2: hydra.swepeer", "did you mean sweeper?"),
    "verdict: {metric: nll, candidates: [a]}": ("verdict.baseline: no value given",),
}


@pytest.mark.parametrize("text", FILE_MISTAKES)
def test_a_mistake_in_a_file_is_one_line_with_the_file(
    text: str, tmp_path: Path, tmp_runs: Path
) -> None:
    ended = cli.run(*extra(tmp_path, "typo", text + "\n"), "backbone=tiny_llama")
    assert ended.status == 1
    assert len(ended.err.splitlines()) == 1, ended.err
    assert all(part in ended.err for part in FILE_MISTAKES[text]), ended.err
    assert not list(tmp_runs.glob("*/record.json"))


def test_load_raises_the_same_line() -> None:
    with pytest.raises(ConfigError, match=r"^backbone.nam: no such key; did you mean name\?$"):
        reflex.load(["backbone.nam=x"])
    with pytest.raises(ConfigError, match="no such option"):
        reflex.load(["orders=nine"])
    with pytest.raises(ConfigError, match=r"^orders=1: use one of cyclic"):
        reflex.load(["orders=1"])
    with pytest.raises(ConfigError, match=r"^orders=: no such option"):
        reflex.load(["orders="])


def test_a_sweep_over_what_is_no_name_is_one_line(tmp_runs: Path) -> None:
    ended = cli.run("-m", "orders=1,2")
    assert (ended.status, ended.out) == (1, "")
    assert (
        ended.err
        == "error: orders=1: use one of cyclic, four, four_levels_kept, one, reversed, two\n"
    )


def test_an_error_that_composing_did_not_raise_keeps_its_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_runs: Path
) -> None:
    def broken() -> None:
        raise ValueError("a fault of this code")

    monkeypatch.setattr("reflex.tasks.outcome.hand_over", lambda name: broken())
    with pytest.raises(ValueError, match="a fault of this code"):
        cli.run("seed=-1", "backbone=tiny_llama")


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("a=12e45678", "a='12e45678'"),
        ("b=[1E3,0123,12ab]", "b=['1E3','0123',12ab]"),
        ("task.run_id=1e10,00012", "task.run_id='1e10','00012'"),
        ("task.from_run=0012345", "task.from_run='0012345'"),
        ("run='12'", "run='12'"),
        ("run=runs/12", "run=runs/12"),
        ("seed=12", "seed=12"),
        ("-m", "-m"),
    ],
)
def test_a_hash_reaches_the_task_as_it_was_typed(word: str, quoted: str) -> None:
    assert as_typed([word]) == [quoted]


@pytest.mark.parametrize("words", [["a=12e45678", "b=0123"], ["a=12e45678", "b=[0123]"]])
def test_a_hash_of_digits_is_looked_up_as_one(words: list[str], tmp_runs: Path) -> None:
    composed = compose(words)
    assert composed.a == "12e45678"
    assert composed.b in ("0123", ["0123"])
    ended = cli.run("backbone=tiny_llama", "task=compare", *words)
    assert ended.err.startswith("error: run 12e45678: neither a folder")


def test_an_empty_runs_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEX_RUNS", "")
    assert compose().runs_dir == str(runs_folder()) == "runs"
    with pytest.raises(RecordError, match=r"nor a hash below runs/$"):
        run_folder("0123")
    for pattern in ("", "*", "**", "?", "[0-9]*"):  # names, not patterns
        with pytest.raises(RecordError, match="neither a folder with a record"):
            run_folder(pattern)
    monkeypatch.setenv("REFLEX_RUNS", "there")
    assert compose().runs_dir == "there"


def test_components_of_a_prompt_may_be_added() -> None:
    cfg = compose(["+prompt.texts.system_prompt=Judge."])
    check_config(cfg)
    assert cfg.prompt.texts == {"system_prompt": "Judge."}
