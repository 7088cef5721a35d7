"""A release with an adapter and a head: pushed by command, served over HTTP, refused when a byte differs."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import huggingface_hub
import pytest

import reflex
from reflex.build import build_decider
from reflex.data.augment import build, subsample
from reflex.data.rows import question_to_json
from reflex.data.sources import source
from reflex.release import manifest_of, verify
from reflex.serve import main
from reflex.serving.source import checked, resolve
from reflex.training.save import save_adapter, save_heads
from scripts.serve_process import Server, numbers
from tests import cli
from tests.serving import REQUEST, post, serving
from tests.test_training import training

EMBEDDED = Path("releases/embedded")
TINY = ("backbone=tiny_llama", "device=cpu", "device.dtype=float32", "readout=pointer")


class Hub:
    """The hub client as far as a push needs it: what it was asked, what lies there, how it refuses."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[tuple[str, str]] = []
        self.files: dict[str, bytes] = {}
        self.error = error

    def create_repo(self, repository: str, *, exist_ok: bool) -> None:
        assert exist_ok  # pushed again, it is a new version
        if self.error is not None:
            raise self.error
        self.calls.append(("create", repository))

    def upload_folder(self, *, folder_path: str, repo_id: str) -> None:
        self.calls.append(("upload", repo_id))
        self.files = contents(Path(folder_path))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded evaluation of a tiny backbone with an adapter and a head that answer unlike it."""
    folder = tmp_path_factory.mktemp("evaluated")
    module = training("llama", count=1)  # moved away from where training begins
    save_adapter(module.model.backbone.model, folder / "adapter", module.config.lora, "base")
    save_heads(module.model, folder / "heads.safetensors")
    ended = cli.run(
        *TINY, "tracker=none", f"runs_dir={folder}", f"results_dir={folder / 'results'}",
        f"backbone.adapter={folder / 'adapter'}",
        f"readout.pointer.weights={folder / 'heads.safetensors'}",
        "benchmark=task_file", f"benchmark.path={cli.write_tasks(folder / 'tasks.jsonl')}",
    )  # fmt: skip
    assert ended.status == 0, ended.err
    (record,) = folder.glob("*/record.json")
    return record.parent


def release(run: Path, out: Path, hub: Hub) -> cli.Ended:
    with mock.patch.object(huggingface_hub, "HfApi", return_value=hub):
        return cli.run(
            "task=release", f"task.run_id={run}", f"task.out={out}", "task.push=some-lab/tiny"
        )


@pytest.fixture(scope="module")
def released(evaluated: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Hub]:
    out, hub = tmp_path_factory.mktemp("released") / "tiny", Hub()
    ended = release(evaluated, out, hub)
    assert ended.status == 0, ended.err
    assert ended.out.splitlines()[-1] == f"release: {out}"
    return out, hub


@pytest.mark.slow
def test_a_release_is_pushed_whole(released: tuple[Path, Hub]) -> None:
    out, hub = released
    assert hub.calls == [("create", "some-lab/tiny"), ("upload", "some-lab/tiny")]
    assert hub.files == contents(out)
    assert {"manifest.json", "README.md", "heads.safetensors", "record.json"} <= set(hub.files)
    assert "adapter/adapter_model.safetensors" in hub.files


@pytest.mark.slow
def test_a_hub_that_refuses_leaves_the_release_complete(evaluated: Path, tmp_path: Path) -> None:
    hub = Hub(ConnectionError("no route\nto host"))
    out = tmp_path / "tiny"
    ended = release(evaluated, out, hub)
    assert ended.status == 1
    assert ended.err.splitlines()[-1].endswith(
        f"task.push=some-lab/tiny: the hub refused (no route to host); the release is complete in {out}"
    )
    manifest = manifest_of(out)
    assert manifest is not None
    verify(out, manifest)
    assert hub.files == {}


@pytest.mark.slow
def test_a_served_release_answers_as_the_loaded_one(released: tuple[Path, Hub]) -> None:
    out, _ = released
    cfg, served = resolve([f"run={out}"])
    assert cfg.backbone.adapter == str(out / "adapter")
    assert cfg.readout.pointer.weights == str(out / "heads.safetensors")
    with serving(checked(build_decider(cfg), served)) as url:
        status, reply, _ = post(url, REQUEST)
    assert status == 200
    found = numbers(reply["answers"])
    loaded = reflex.load(str(out)).answer(REQUEST).model_dump()["answers"]
    assert found == pytest.approx(numbers(loaded), abs=1e-6)
    bare = reflex.load([*TINY]).answer(REQUEST).model_dump()["answers"]
    assert found != pytest.approx(numbers(bare), abs=1e-3)  # adapter and head were there


def refused(folder: Path, name: str) -> str:
    """What the server says of a copy of the release in which one byte of `name` differs."""
    path = folder / name
    data = bytearray(path.read_bytes())
    place = random.Random(name).randrange(len(data))
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(SystemExit) as ended:
        main([f"run={folder}"])
    data[place] ^= 1
    path.write_bytes(data)
    return str(ended.value)


def flipped(folder: Path, copy: Path) -> None:
    shutil.copytree(folder, copy)
    manifest = manifest_of(copy)
    assert manifest is not None
    for name in manifest["files"]:
        if (
            name == "record.json"
        ):  # read before it is compared: whatever is wrong with it is one line
            continue
        told = refused(copy, name)
        assert told == (
            f"error: {copy / name}: not the file that was released (its sha256 differs from "
            "manifest.json); not loaded. Fetch the release again"
        )
    assert "\n" not in refused(copy, "record.json")
    verify(copy, manifest)


@pytest.mark.slow
def test_a_release_with_one_bit_flipped_is_refused_in_one_line(
    released: tuple[Path, Hub], tmp_path: Path
) -> None:
    flipped(released[0], tmp_path / "copy")


# -- the release that comes with the project -------------------------------------------------------


def test_the_embedded_release_is_what_was_released() -> None:
    manifest = manifest_of(EMBEDDED)
    assert manifest is not None
    verify(EMBEDDED, manifest)
    assert set(contents(EMBEDDED)) == {*manifest["files"], "manifest.json"}
    assert manifest["parts"] == {
        "backbone.adapter": "adapter",
        "readout.pointer.weights": "heads.safetensors",
        "calibration.path": "calibration.json",
    }
    assert sum(map(len, contents(EMBEDDED).values())) <= 25e6


@pytest.mark.slow
@pytest.mark.real
def test_the_embedded_release_with_one_bit_flipped_is_refused_in_one_line(tmp_path: Path) -> None:
    flipped(EMBEDDED, tmp_path / "copy")


@pytest.fixture(scope="module")
def embedded() -> Any:
    return reflex.load(str(EMBEDDED))


OPTIONS = {
    "card arrival": None,
    "lost or stolen card": "the card is gone",
    "refund not showing up": None,
    "exchange rate": "what a foreign currency costs",
    "top up failed": None,
    "verify my identity": None,
    "change pin": None,
    "age limit": None,
}


@pytest.mark.slow
@pytest.mark.real
def test_no_order_of_the_options_moves_a_bit_of_an_answer(embedded: Any) -> None:
    def answer(names: list[str]) -> dict[str, float]:
        question = {"type": "choice", "criteria": {name: OPTIONS[name] for name in names}}
        request = {"state": "My new card has still not come.", "questions": {"q": question}}
        return dict(embedded.answer(request).answers["q"].probabilities)

    names = list(OPTIONS)
    wanted = answer(names)
    assert len(set(wanted.values())) == len(names)
    orders = [names[::-1], sorted(names)]
    shuffled = random.Random(0)
    orders += [shuffled.sample(names, len(names)) for _ in range(6)]
    for order in orders:
        assert answer(order) == wanted, order


@pytest.fixture(scope="module")
def embedded_url() -> Iterator[str]:
    with Server(f"run={EMBEDDED}", "serve.timeout_s=900") as server:
        yield server.url


def real_questions(data_root: Path) -> dict[str, list[tuple[Any, dict[str, Any]]]]:
    """(state, question) of held-out rows: all 77 intents, 8 of them, and a yes/no question."""
    found: dict[str, list[tuple[Any, dict[str, Any]]]] = {}
    for name, key, count in (("banking77", "intent", 3), ("mrpc", "same", 2)):
        items = [item for split, item in source(name).items(data_root) if split == "report"]
        for item in items[:count]:
            ask = item.asks[key]
            shown = ask.sets[-1]  # names in words; outcomes with their descriptions
            question, _ = build(ask, ask.wordings[0], shown)
            asked = [("noul" if ask.kind == "noul" else "77 options", question)]
            if ask.kind == "choice":
                few = subsample(ask, shown, 8, random.Random(item.id))
                asked.append(("8 options", build(ask, ask.wordings[0], few)[0]))
            for kind, each in asked:
                found.setdefault(kind, []).append((item.states[0], question_to_json(each)))
    return found


@pytest.mark.slow
@pytest.mark.real
def test_no_order_of_the_options_moves_a_bit_of_an_answer_over_http(
    embedded_url: str, data_root: Path
) -> None:
    def answer(state: Any, question: dict[str, Any], names: list[str]) -> dict[str, float]:
        shown = {**question, "criteria": {name: question["criteria"][name] for name in names}}
        status, reply, _ = post(embedded_url, {"state": state, "questions": {"q": shown}})
        assert status == 200
        own = reply["answers"]["q"]
        return {"true": own["noul"]} if own["type"] == "noul" else own["probabilities"]

    rows = real_questions(data_root)
    counts = {kind: len(each) for kind, each in rows.items()}
    assert counts == {"77 options": 3, "8 options": 3, "noul": 2}
    rng = random.Random(0)
    for kind, each in rows.items():
        for state, question in each:
            names = list(question["criteria"])
            wanted = answer(state, question, names)
            assert len(set(wanted.values())) == len(wanted), kind
            for order in (names[::-1], rng.sample(names, len(names))):
                assert answer(state, question, order) == wanted, (kind, state, order)


@pytest.mark.slow
@pytest.mark.real
def test_the_embedded_release_over_http_answers_as_loaded(embedded: Any, embedded_url: str) -> None:
    status, reply, _ = post(embedded_url, REQUEST)
    assert status == 200
    loaded = embedded.answer(REQUEST).model_dump()["answers"]
    assert numbers(reply["answers"]) == pytest.approx(numbers(loaded), abs=1e-6)
