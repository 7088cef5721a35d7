"""Training that goes on from a trained adapter: same start, counted together, guarded together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from reflex.errors import ConfigError
from reflex.loading import compose
from reflex.tasks.begun import write_begun
from reflex.tasks.lineage import trained_on
from reflex.training.lora import lora_layers
from reflex.training.lora_config import LoraConfig
from reflex.training.save import load_adapter, save_adapter
from tests.test_training import TINY, command, fit, training


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained adapter, and below `fitted` of its folder what the training ended with."""
    folder = tmp_path_factory.mktemp("trained")
    module = training("llama")
    fit(module, folder / "checkpoints")
    save_adapter(module.model.backbone.model, folder / "adapter", module.config.lora, "base")
    ended = {name: layer.weight for name, layer in lora_layers(module.model.backbone.model)}
    torch.save(ended, folder / "ended.pt")
    return folder / "adapter"


def test_a_loaded_adapter_is_the_one_that_was_saved(adapter: Path) -> None:
    ended = torch.load(adapter.parent / "ended.pt")
    module = training("llama")
    model = module.model.backbone.model
    before = {name: layer.weight.clone() for name, layer in lora_layers(model)}
    assert any(not torch.equal(before[name], ended[name]) for name in ended)
    load_adapter(model, adapter, module.config.lora)
    for name, layer in lora_layers(model):
        assert torch.equal(layer.weight, ended[name]), name
        assert layer.a.requires_grad
        assert layer.b.requires_grad


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"r": 3}, r"its rank is 3, train\.lora\.rank is"),
        ({"lora_alpha": 7}, r"its alpha is 7, train\.lora\.alpha is"),
        ({"use_rslora": True}, "made with use_rslora"),
        (None, "not a readable LoRA adapter"),
    ],
)
def test_another_adapter_is_refused_by_what_differs(
    adapter: Path, tmp_path: Path, changes: dict | None, message: str
) -> None:
    import shutil

    other = tmp_path / "other"
    shutil.copytree(adapter, other)
    description = other / "adapter_config.json"
    if changes is None:
        description.write_text("{")
    else:
        description.write_text(json.dumps({**json.loads(description.read_text()), **changes}))
    module = training("llama")
    with pytest.raises(ConfigError, match=message):
        load_adapter(module.model.backbone.model, other, module.config.lora)


def test_an_adapter_of_other_layers_is_refused(adapter: Path) -> None:
    model = training("qwen3_5").model.backbone.model
    with pytest.raises(ConfigError, match=r"other layers than train\.lora\.targets=all"):
        load_adapter(model, adapter, training("llama").config.lora)


def test_a_release_tells_its_own_training(tmp_path: Path) -> None:
    told = {"training": {"steps": 3}}
    (tmp_path / "manifest.json").write_text(
        json.dumps({"schema": 1, "files": {}, "training": told})
    )
    assert trained_on(tmp_path) == told
    assert trained_on(tmp_path / "nothing") is None


def test_what_was_trained_before_is_kept_when_a_training_begins(tmp_path: Path) -> None:
    """A release that replaces the one gone on from does not count twice in the next release of the same run."""
    released, run = tmp_path / "released", tmp_path / "run"

    def release(name: str, facts: dict) -> None:
        released.mkdir(exist_ok=True)
        told = {"schema": 1, "files": {}, "run": name, "training": facts}
        (released / "manifest.json").write_text(json.dumps(told))

    sources = {"emotion": {"rows": 40, "times_seen": 0.5}}
    first = {"steps": 3, "rows": 40, "tokens": 500}
    release("first", {"training": first, "mixture": {"sources": sources}, "allow": ["boolq"]})
    adapter = released / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    (adapter / "adapter_model.safetensors").write_bytes(b"made up")
    cfg = compose(
        ["task=train", "backbone=tiny_llama", "mixture=embedded", "train=lora"]
        + [f"backbone.adapter={adapter}"]
    )
    run.mkdir()
    write_begun(run, cfg)
    own = {"steps": 5, "rows": 60, "tokens": 900, "went_on_from": str(released)}
    (run / "training.json").write_text(json.dumps(own))
    counted = trained_on(run)
    assert counted is not None
    told = {"trainings": 2, "steps": 8, "rows": 100, "tokens": 1400, "went_on_from": "first"}
    assert counted["training"] == told
    assert counted["mixture"]["sources"] == sources
    assert counted["allow"] == ["boolq"]
    release("second", counted)
    assert trained_on(run) == counted
    (run / "rows.jsonl").touch()
    write_begun(run, cfg)  # the same command, started again
    assert trained_on(run) == counted
    (run / "begun.json").unlink()  # as a version before left it
    again = trained_on(run)
    assert again is not None
    assert again["training"]["trainings"] == 3


@pytest.mark.slow
def test_a_second_training_goes_on_and_is_counted_with_the_first(
    tmp_path: Path, data_root: Path
) -> None:
    command(tmp_path, data_root, "train.name=first")
    first = tmp_path / "first"
    begin = (
        f"backbone.adapter={first / 'adapter'}",
        f"readout.pointer.weights={first / 'heads.safetensors'}",
    )
    # Without the head's weights the adapter alone goes on, and that is said.
    told = command(tmp_path, data_root, "train.name=bare", "train.max_tokens=3000", begin[0])
    assert "readout.pointer: the adapter goes on, but its head begins untrained" in told
    # A rate that moves nothing: what is saved must be what it began with.
    command(
        tmp_path, data_root, "train.name=still", "train.lr=1e-12", "train.head_lr=1e-12", *begin
    )
    for name in ("adapter/adapter_model.safetensors", "heads.safetensors"):
        old, new = load_file(first / name), load_file(tmp_path / "still" / name)
        assert old.keys() == new.keys()
        assert all(torch.allclose(old[key], new[key], atol=1e-6) for key in old)

    one, both = trained_on(first), trained_on(tmp_path / "still")
    assert one is not None
    assert both is not None
    assert both["training"]["trainings"] == 2
    for key in ("steps", "rows", "tokens"):
        assert both["training"][key] == 2 * one["training"][key]
    assert both["mixture"]["trained_rows"] == 2 * one["mixture"]["trained_rows"]
    for name, each in one["mixture"]["sources"].items():
        assert both["mixture"]["sources"][name]["rows"] == 2 * each["rows"]

    # What the first was trained on counts for the guard, too.
    mixture = json.loads((first / "mixture.json").read_text())
    mixture["sources"]["boolq"] = {**mixture["sources"]["emotion"]}
    (first / "mixture.json").write_text(json.dumps(mixture))
    from tests.cli import run

    refused = run(*TINY, "train.name=again", *begin)
    assert refused.status == 1
    assert "boolq" in refused.err


def test_the_default_rank_is_the_release_s() -> None:
    """A config whose LoRA is not the release's could not go on from it."""
    released = json.loads(Path("releases/embedded/adapter/adapter_config.json").read_text())
    assert (released["r"], released["lora_alpha"]) == (LoraConfig().rank, LoraConfig().alpha)
