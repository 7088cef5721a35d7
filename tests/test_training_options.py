"""What `train` switches: precision, recomputed activations, schedule, clipping, targets, other readouts."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch

from reflex.backbones.backbone import load_backbone
from reflex.backbones.config import BackboneConfig, DeviceConfig
from reflex.config import readout_config
from reflex.data.mixture_files import write_checked
from reflex.forward.config import ForwardConfig
from reflex.loading import compose
from reflex.model import DecisionModel
from reflex.prompts.orders import OrdersConfig
from reflex.prompts.styles.chat import ChatStyle
from reflex.tasks.train import build_training, fit
from reflex.training.batches import plan_steps, plan_training, prepare_rows
from reflex.training.config import TrainConfig
from reflex.training.lora import add_lora, lora_layers
from reflex.training.lora_config import LoraConfig
from reflex.training.module import TrainingModule, prepare, rate, trainable
from tests.test_pointer import CANDIDATES, model_with, pointer_model
from tests.test_training import gradients, rows, together_equals_alone, training, weights
from tests.test_training_progress import CPU
from tests.test_training_targets import LETTERS
from tests.test_training_targets import training as training_with

PATHS = ["llama", pytest.param("qwen3_5", marks=pytest.mark.slow)]


def test_bfloat16_trains_adapters_and_heads_in_float32(tmp_path: Path) -> None:
    backbone = load_backbone(
        BackboneConfig(name="tiny_llama", source="random", path="llama"),
        DeviceConfig(dtype="bfloat16"),
    )
    readouts = readout_config()(**dict.fromkeys(LETTERS, "pointer"))
    model = DecisionModel(backbone, ChatStyle(), OrdersConfig(), readouts, ForwardConfig())
    config = TrainConfig(lora=LoraConfig(rank=4), lr=1e-2, head_lr=1e-2)
    prepare(model, config, seed=0)
    data = rows(4)
    compiled = prepare_rows(model, data)
    plan = plan_steps([each.unique_tokens for each in compiled], 700, 700)
    module = TrainingModule(model, data, compiled, plan, config)
    assert {p.dtype for p in trainable(module).values()} == {torch.float32}
    assert {p.dtype for p in module.parameters() if not p.requires_grad} == {torch.bfloat16}
    layers = dict(lora_layers(module.model))
    before = weights(module)
    merged = {name: layer.weight.clone() for name, layer in layers.items()}
    fit(module, CPU, tmp_path)
    assert math.isfinite(module.last["loss"])
    assert math.isfinite(module.last["grad_norm"])
    for name, value in weights(module).items():
        assert value.dtype == torch.float32, name
        assert torch.isfinite(value).all(), name
        assert not torch.equal(value, before[name]), name
    for name, layer in layers.items():
        assert layer.weight.dtype == torch.bfloat16, name
        assert not torch.equal(layer.weight, merged[name]), name


def test_the_command_adds_to_the_weights_as_stored(tmp_path: Path) -> None:
    write_checked(tmp_path / "rows.jsonl", rows(2))  # a run's rows are read from its folder
    words = ("backbone=tiny_llama", "readout=pointer", "device=cpu", "device.dtype=bfloat16")
    cfg = compose(["task=train", "mixture=embedded", "train=lora", *words])
    model = build_training(cfg, tmp_path).model
    for name, layer in lora_layers(model):
        base = layer.base
        assert isinstance(base, torch.Tensor)
        assert not torch.equal(base, base.bfloat16().float()), name
        assert torch.equal(layer.weight, base.bfloat16()), name
    trained = set(trainable(model))
    kept = {p.dtype for name, p in model.named_parameters() if name not in trained}
    assert kept == {torch.bfloat16}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("asked", [{"gradient_checkpointing": True}, {"micro_tokens": 64}])
def test_recomputed_activations_give_the_same_gradients(path: str, asked: dict[str, Any]) -> None:
    """Where it is asked for, and for a row longer than a micro-batch may be."""
    found = []
    for recomputed in (False, True):
        settings = {"micro_tokens": 10_000, **(asked if recomputed else {})}
        module = training(path, count=1, **settings)
        assert module.plan.read([0]) > 64
        calls: list[int] = []
        block = module.model.backbone.decoder.layers[0]
        block.input_layernorm.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        losses = module.losses([0])
        read = len(calls)
        losses.mean().backward()
        assert len(calls) == (2 * read if recomputed else read)
        found.append((losses.detach(), gradients(module)))
    (plain, wanted), (again, own) = found
    assert torch.equal(again, plain)
    assert own.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert torch.equal(own[name], gradient), name


@pytest.mark.parametrize("path", PATHS)
def test_candidates_are_planned_with_every_token_that_is_read(path: str) -> None:
    """Options are encoded apart from the tree: they count in micro-batches, steps and `max_tokens`."""
    model = model_with(path, **CANDIDATES)
    micro = {"qwen3_5": 2400}.get(path, 1300)  # a hybrid reads the state again for each question
    config = TrainConfig(lora=LoraConfig(rank=4), step_tokens=2 * micro, micro_tokens=micro)
    prepare(model, config, seed=0)
    data = rows(8)
    compiled, plan = plan_training(model, data, config)
    module = TrainingModule(model, data, compiled, plan, config)
    cells = model.backbone.cells
    assert len(plan.steps) > 1
    for number, step in enumerate(plan.steps):
        read = []
        for indices in step:
            cells.clear()
            module.losses(indices)
            read.append(cells.used)
            assert path == "qwen3_5" or cells.laid < 1.2 * cells.used  # nor are options padded
        assert read == [plan.read(indices) for indices in step]
        assert max(read) <= micro
        assert max(map(len, step)) > 1 or number == len(plan.steps) - 1
        assert plan.step_tokens(number) == sum(read) <= 2 * micro
    assert plan.total_tokens > sum(plan.tokens)
    limit = plan.total_tokens - 1
    fewer, planned = plan_training(model, data, replace(config, max_tokens=limit))
    assert len(fewer) < len(data)
    assert planned.total_tokens <= limit


def test_the_linear_schedule_at_given_steps() -> None:
    config = TrainConfig(schedule="linear", warmup=0.1)
    at = {0: 0.1, 4: 0.5, 9: 1.0, 10: 1.0, 55: 0.5, 82: 0.2, 100: 0.0}
    for step, wanted in at.items():
        assert rate(step, 100, config) == pytest.approx(wanted), step
    cosine = replace(config, schedule="cosine")
    assert rate(55, 100, cosine) == pytest.approx(0.5)
    assert rate(32, 100, cosine) == pytest.approx(0.5 * (1 + math.cos(math.pi * 22 / 90)))


def test_gradients_are_clipped_to_the_norm_asked_for() -> None:
    norms: dict[float, list[float]] = {}

    class Watch(lightning.Callback):
        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
            grads = [p.grad for p in trainable(pl_module).values() if p.grad is not None]
            norm = torch.stack([grad.norm() for grad in grads]).norm()
            norms[pl_module.config.clip].append(float(norm))

    for clip in (1e-3, 1e6):
        module = training(count=1, clip=clip)
        norms[clip] = []
        lightning.Trainer(
            accelerator="cpu", logger=False, max_epochs=1, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, callbacks=[Watch()],
        ).fit(module)  # fmt: skip
        (norm,) = norms[clip]
        wanted = min(clip, module.last["grad_norm"])  # what is told is the norm before clipping
        assert norm == pytest.approx(wanted, rel=1e-4)
        assert module.last["grad_norm"] > 1e-2


MIXER = {"in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj"}
ATTENTION = {"q_proj", "k_proj", "v_proj", "o_proj"}
MLP = {"gate_proj", "up_proj", "down_proj"}


@pytest.mark.parametrize(
    ("targets", "linear", "full", "both"),
    [
        ("linear_attention", MIXER, set(), set()),
        ("attention", set(), ATTENTION, set()),
        ("mlp", set(), set(), MLP),
        ("all", MIXER, ATTENTION, MLP),
    ],
)
def test_the_presets_adapt_a_hybrid_s_own_layers(
    targets: str, linear: set[str], full: set[str], both: set[str]
) -> None:
    model = pointer_model("qwen3_5").backbone.model
    kinds = model.config.get_text_config().layer_types
    assert set(kinds) == {"linear_attention", "full_attention"}
    wanted = set()
    for number, kind in enumerate(kinds):
        mixer, leaves = (
            ("linear_attn", linear) if kind == "linear_attention" else ("self_attn", full)
        )
        wanted |= {f"layers.{number}.{mixer}.{leaf}" for leaf in leaves}
        wanted |= {f"layers.{number}.mlp.{leaf}" for leaf in both}
    names = add_lora(model, LoraConfig(rank=2, targets=targets), seed=0)
    assert {name[name.index("layers.") :] for name in names} == wanted
    assert [name for name, _ in lora_layers(model)] == names


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("readout", [LETTERS, CANDIDATES], ids=["label_tokens", "candidates"])
def test_packed_rows_give_the_loss_of_single_questions_with_every_readout(
    readout: dict[str, str], path: str
) -> None:
    """As for the pointer in test_training.py."""

    def two_rows() -> TrainingModule:
        module = training_with(path, readout=readout)
        module.rows = module.rows[:2]
        return module

    together_equals_alone(two_rows)
