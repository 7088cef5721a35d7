"""Training: losses, the one forward with gradients, exact resume."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from unittest.mock import MagicMock

import lightning
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reflex.data.rows import Row
from reflex.errors import ConfigError, RecordError, TrainingError
from reflex.forward import calls
from reflex.forward.groups import by_sum
from reflex.training import losses as L
from reflex.training.batches import plan_steps, plan_training, prepare_rows
from reflex.training.checkpoint import checkpoints, load_newest, save_checkpoint
from reflex.training.config import TrainConfig
from reflex.training.lora_config import LoraConfig
from reflex.training.loss_config import LossConfig
from reflex.training.module import TrainingModule, prepare, rate, trainable
from tests.test_pointer import pointer_model


def rows(count: int = 6) -> list[Row]:
    found = []
    for i in range(count):
        raw = {
            "id": f"r{i}",
            "state": f"Message number {i}. " + "word " * (3 * i),
            "questions": {
                "topic": {
                    "type": "choice",
                    "criteria": {"a": None, "bee": "a longer text", "c": None},
                },
                "yes": {"type": "noul", "instructions": "Is it so?"},
                "level": {"type": "score", "criteria": ["low", "mid", "high"]},
            },
            "labels": {
                "topic": "abeec"[i % 2 :][0] if i % 2 == 0 else "bee",
                "yes": 0.3,
                "level": i % 3,
            },
        }
        found.append(Row.from_json(raw))
    return found


def training(
    path: str = "llama", count: int = 6, step_tokens: int = 400, micro_tokens: int = 200, **settings
) -> TrainingModule:
    torch.manual_seed(0)
    model = pointer_model(path)
    config = TrainConfig(
        lora=LoraConfig(rank=4), step_tokens=step_tokens, micro_tokens=micro_tokens, **settings
    )
    prepare(model, config, seed=0)
    generator = torch.Generator().manual_seed(2)
    for name, parameter in trainable(model).items():
        if name.endswith(".b"):  # B starts at 0, where A has no gradient: move it for the checks
            torch.nn.init.normal_(parameter, std=0.05, generator=generator)
    from reflex.training.lora import merge_all

    merge_all(model)
    data = rows(count)
    compiled = prepare_rows(model, data)
    sizes = [each.tree.unique_tokens for each in compiled]
    return TrainingModule(model, data, compiled, plan_steps(sizes, step_tokens, 200), config)


def gradients(module: TrainingModule) -> dict[str, torch.Tensor]:
    found = {name: p.grad.clone() for name, p in trainable(module).items() if p.grad is not None}
    module.zero_grad()
    return found


def each_alone(module: TrainingModule) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Losses of the module's rows with every question as a request of its own, and their mean's gradients."""
    alone = []
    for row in module.rows:
        for name in row.questions:
            single = Row(row.id, row.state, {name: row.questions[name]}, {name: row.labels[name]})
            module.rows = [single]
            module.compiled = prepare_rows(module.model, [single])
            alone.append(module.losses([0]))
    losses = torch.cat(alone)
    losses.mean().backward()
    return losses, gradients(module)


def together_equals_alone(module: Callable[[], TrainingModule]) -> None:
    """All rows through one call, against every question as a request of its own.

    In float32: losses within 1e-5, gradients within 1e-4 of the largest. A gradient that nearly cancels may lose
    more than that of its own size to rounding, how much depends on the machine's kernels: with the decoder in
    float64 every gradient is within 1e-4 of its own largest.
    """
    for dtype in (torch.float32, torch.float64):
        subject = module()
        subject.model.backbone.model.to(dtype)
        losses = subject.losses(range(len(subject.rows)))
        losses.mean().backward()
        packed = gradients(subject)
        apart, wanted = each_alone(subject)
        assert torch.allclose(losses, apart, atol=1e-5)
        assert packed.keys() == wanted.keys()
        largest = max(float(gradient.abs().max()) for gradient in wanted.values())
        assert largest > 1e-2
        for name, gradient in packed.items():
            # What moves all options alike (a bias) has the gradient 0, give or take the last bits.
            own = max(float(wanted[name].abs().max()), 1e-4)
            scale = own if dtype == torch.float64 else largest
            assert (gradient - wanted[name]).abs().max() <= 1e-4 * scale, (name, dtype)


@pytest.mark.parametrize("path", ["llama", "qwen3", "qwen3_5"])
def test_packed_rows_give_the_loss_and_gradients_of_single_questions(path):
    together_equals_alone(lambda: training(path))


def test_several_trees_share_a_row(monkeypatch):
    module = training()
    seen = []
    run = calls.run_tree_rows

    def counted(backbone, group):
        seen.append(group)
        return run(backbone, group)

    monkeypatch.setattr(calls, "run_tree_rows", counted)
    module.model.engine.config.tree_row_tokens = 4000
    module.losses(range(len(module.rows)))
    assert [len(group) for group in seen] == [1]


def test_accumulation_is_the_loss_of_the_whole_step(monkeypatch):
    module = training()
    module.model.backbone.model.double()  # so that no kernel's rounding decides
    monkeypatch.setattr(module, "manual_backward", lambda loss: loss.backward())
    everything = [tuple(range(6))]
    parts = [(0,), (1, 2), (3, 4, 5)]
    whole = module.accumulate(everything)
    first = gradients(module)
    assert module.accumulate(parts) == pytest.approx(whole, abs=1e-6)
    for name, gradient in gradients(module).items():
        assert (gradient - first[name]).abs().max() <= 1e-4 * first[name].abs().max(), name


def test_merged_product_equals_peft_arithmetic():
    from reflex.training.lora import LoraLinear

    base = torch.nn.Linear(7, 5)
    layer = LoraLinear(base, LoraConfig(rank=2, alpha=6.0), torch.Generator().manual_seed(0))
    torch.nn.init.normal_(layer.b)
    layer.merge()
    x = torch.randn(3, 4, 7, requires_grad=True)
    y = layer(x)
    y.square().sum().backward()
    found = [layer.a.grad, layer.b.grad, x.grad]
    a, b = layer.a.detach().requires_grad_(), layer.b.detach().requires_grad_()
    x2 = x.detach().requires_grad_()
    plain = torch.nn.functional.linear(x2, base.weight, base.bias) + 3.0 * (x2 @ a.T) @ b.T
    assert torch.allclose(y, plain, atol=1e-5)
    plain.square().sum().backward()
    for ours, theirs in zip(found, [a.grad, b.grad, x2.grad], strict=True):
        assert ours is not None
        assert theirs is not None
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4)


# -- losses ----------------------------------------------------------------------------------------


def matrices(q: int = 3, k: int = 4):
    generator = torch.Generator().manual_seed(5)
    scores = torch.randn(q, k, generator=generator, dtype=torch.float64, requires_grad=True)
    target = torch.rand(q, k, generator=generator, dtype=torch.float64)
    mask = torch.ones(q, k, dtype=torch.bool)
    mask[0, 3] = False
    target[0, 3] = 0
    return scores, target / target.sum(-1, keepdim=True), mask


def log_p(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return scores.masked_fill(~mask, float("-inf")).log_softmax(-1).masked_fill(~mask, 0.0)


@pytest.mark.parametrize("name", ["nll", "brier", "rps", "ordinal"])
def test_gradcheck(name):
    scores, target, mask = matrices()
    term = getattr(L, name)
    assert torch.autograd.gradcheck(lambda s: term(log_p(s, mask), target, mask), (scores,))


def test_values_by_hand():
    p = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    target = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
    mask = torch.ones(1, 3, dtype=torch.bool)
    logs = p.log()
    assert L.nll(logs, target, mask).item() == pytest.approx(-torch.log(torch.tensor(0.2)).item())
    assert L.brier(logs, target, mask).item() == pytest.approx(0.25 + 0.09 + 0.64)
    assert L.rps(logs, target, mask).item() == pytest.approx((0.5**2 + 0.8**2) / 2)
    assert L.ordinal(logs, target, mask).item() == pytest.approx((0.5 * 4 + 0.3) / 4)


def test_terms_are_weighted_added_and_ordinal_ones_are_of_levels_alone():
    """A choice and a `score` question with the same p and t: nll −log .2, brier .98, rps .445, ordinal .575."""
    p = torch.tensor([[0.5, 0.3, 0.2]] * 2, dtype=torch.float64)
    target = torch.tensor([[0.0, 0.0, 1.0]] * 2, dtype=torch.float64)
    mask, ordered = torch.ones(2, 3, dtype=torch.bool), torch.tensor([False, True])

    def losses(**weights: float) -> list[float]:
        config = LossConfig(**{"nll": 0.0, **weights})
        return L.combined(p.log(), target, mask, ordered, config).tolist()

    both = 2 * math.log(5) + 0.5 * 0.98
    assert losses(nll=2.0, brier=0.5) == pytest.approx([both, both])
    assert losses(rps=3.0) == pytest.approx([0.0, 3 * 0.445])
    assert losses(ordinal=4.0) == pytest.approx([0.0, 4 * 0.575])
    everything = losses(nll=2.0, brier=0.5, rps=3.0, ordinal=4.0)
    assert everything == pytest.approx([both, both + 3 * 0.445 + 4 * 0.575])


SOFT = {
    "topic": {"a": 0.0, "bee": 1.0, "c": 0.0},
    "yes": 1.0,
    "level": [0.0, 0.0, 1.0],
}
HARD = {"topic": "bee", "yes": True, "level": 2}


@pytest.mark.parametrize(
    "loss",
    [{"nll": 1.0}, {"brier": 1.0}, {"rps": 1.0}, {"ordinal": 1.0}, {"nll": 1.0, "brier": 0.5}],
)
def test_a_one_hot_soft_target_gives_the_loss_of_the_hard_label(loss: dict[str, float]):
    module = training(count=1, loss=LossConfig(**{"nll": 0.0, **loss}))
    (row,) = module.rows
    found = {}
    for name, labels in (("soft", SOFT), ("hard", HARD)):
        module.rows = [Row.from_json({**row.to_json(), "labels": labels})]
        found[name] = module.losses([0]).tolist()
    assert found["soft"] == found["hard"]
    of_levels = loss.keys() <= {"rps", "ordinal"}
    assert [value > 0 for value in found["hard"]] == [not of_levels, not of_levels, True]
    # And that loss is the label's own: another answer has another one.
    module.rows = [Row.from_json({**row.to_json(), "labels": {**HARD, "level": 0}})]
    assert module.losses([0]).tolist()[2] != found["hard"][2]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-30, 30), min_size=2, max_size=8), st.data())
def test_one_hot_target_is_cross_entropy(values, data):
    gold = data.draw(st.integers(0, len(values) - 1))
    scores = torch.tensor([values], dtype=torch.float64)
    target = torch.zeros_like(scores)
    target[0, gold] = 1
    mask = torch.ones_like(scores, dtype=torch.bool)
    hard = torch.nn.functional.cross_entropy(scores, torch.tensor([gold]))
    assert L.nll(scores.log_softmax(-1), target, mask).item() == pytest.approx(
        hard.item(), abs=1e-12
    )


def test_an_impossible_option_is_no_nan():
    logs = torch.tensor([[0.0, float("-inf")]])
    target = torch.tensor([[1.0, 0.0]])
    assert L.nll(logs, target, torch.ones(1, 2, dtype=torch.bool)).item() == 0


def test_non_finite_loss_names_its_rows():
    module = training()
    with torch.no_grad():
        next(iter(module.model.heads.parameters())).fill_(float("nan"))
    with pytest.raises(TrainingError, match=r"rows: r0, r1"):
        module.accumulate([(0, 1)])


def test_wrong_settings_name_the_key():
    with pytest.raises(ConfigError, match=r"train\.method"):
        TrainConfig(method="magic")
    with pytest.raises(ConfigError, match=r"train\.loss: every term"):
        LossConfig(nll=0)


@pytest.mark.parametrize(
    ("config", "key", "values"),
    [
        (TrainConfig, "lr", (0, -1e-3, math.nan, math.inf)),
        (TrainConfig, "head_lr", (0, math.nan, math.inf)),
        (TrainConfig, "clip", (0, -1, math.nan, math.inf)),
        (TrainConfig, "checkpoint_minutes", (0, -1, math.nan, math.inf)),
        (TrainConfig, "weight_decay", (-0.1, math.nan, math.inf)),
        (TrainConfig, "warmup", (-0.1, 1, math.nan)),
        (TrainConfig, "schema_first", (-0.1, 1.1, math.nan)),
        (TrainConfig, "max_tokens", (0, -5)),
        (TrainConfig, "orders", (0,)),
        (TrainConfig, "step_tokens", (0,)),
        (TrainConfig, "name", (".", "..", "../other", "a/b", "/tmp/run", "run/")),
        (LoraConfig, "lora.rank", (0, -1)),
        (LoraConfig, "lora.alpha", (0, -2.0, math.nan, math.inf)),
        (LossConfig, "loss.nll", (-1, math.nan, math.inf)),
        (LossConfig, "loss.anchor", (-1, math.nan)),
    ],
)
def test_numbers_and_names_that_cannot_be_trained_with_are_refused(config, key, values):
    for value in values:
        with pytest.raises(ConfigError, match=re.escape(f"train.{key}={value}: ")) as caught:
            config(**{key.rpartition(".")[2]: value})
        assert "\n" not in str(caught.value)
    TrainConfig(name="run-1.a", max_tokens=1, weight_decay=0.0)


# -- plan ------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 900), min_size=1, max_size=60),
    st.integers(100, 2000),
    st.integers(50, 1000),
    st.sampled_from([None, 1, 4]),
)
def test_plan_holds_every_row_once_within_the_budgets(tokens, step, micro, bucket):
    plan = plan_steps(tokens, step, micro, bucket_steps=bucket)
    flat = [i for part in plan.steps for m in part for i in m]
    assert sorted(flat) == list(range(len(tokens)))
    for part in plan.steps:
        size = sum(tokens[i] for m in part for i in m)
        assert size <= step or sum(len(m) for m in part) == 1
        for m in part:
            assert sum(tokens[i] for i in m) <= micro or len(m) == 1


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 300), st.sets(st.integers(1, 9))), min_size=1, max_size=40),
    st.integers(100, 2000),
    st.integers(50, 1000),
    st.sampled_from([None, 1, 4]),
)
def test_what_is_read_apart_counts_once_per_micro_batch(rows, step, micro, bucket):
    tokens = [size for size, _ in rows]
    apart = [tuple((n,) * (20 * n) for n in own) for _, own in rows]
    plan = plan_steps(tokens, step, micro, bucket_steps=bucket, apart=apart)
    assert sorted(i for part in plan.steps for m in part for i in m) == list(range(len(rows)))

    def read(rows) -> int:
        return sum(tokens[i] for i in rows) + sum(map(len, {ids for i in rows for ids in apart[i]}))

    for part in plan.steps:
        assert sum(map(read, part)) <= step or sum(map(len, part)) == 1
        assert all(read(m) <= micro or len(m) == 1 for m in part)
    assert plan.total_tokens == sum(read(m) for part in plan.steps for m in part)
    # Where nothing is read apart: rows by their sum into steps, those again into micro-batches.
    plain = plan_steps(tokens, step, micro)
    steps = by_sum(range(len(tokens)), tokens.__getitem__, step)
    wanted = [[tuple(m) for m in by_sum(each, tokens.__getitem__, micro)] for each in steps]
    assert [list(each) for each in plain.steps] == wanted


def test_rows_behind_the_token_budget_are_not_tokenised(monkeypatch):
    model, data = pointer_model("llama"), rows(6)
    sizes = [each.unique_tokens for each in prepare_rows(model, data)]
    prepared = MagicMock(side_effect=model.prepare)
    monkeypatch.setattr(model, "prepare", prepared)
    compiled, plan = plan_training(model, data, TrainConfig(max_tokens=sum(sizes[:3])))
    assert (len(compiled), plan.tokens, prepared.call_count) == (
        3,
        tuple(sizes[:3]),
        4,
    )  # the fourth is over
    compiled, plan = plan_training(model, data, TrainConfig(max_tokens=1))
    assert (len(compiled), plan.total_tokens) == (1, sizes[0])  # at least one
    compiled, plan = plan_training(model, data, TrainConfig())
    assert plan.tokens == tuple(sizes)


@pytest.mark.parametrize("readout", ["pointer", "candidates"])
def test_a_row_that_is_too_long_is_named_before_the_first_step(readout):
    from reflex.errors import ContextLengthError
    from tests.test_pointer import model_with

    model = model_with(**dict.fromkeys(("choice", "noul", "score"), readout))
    limit = model.backbone.facts.context_length
    fine = rows(2)
    state, option = "x" * (limit + 1), {"a": None, "y" * (limit + 1): None}
    questions = fine[0].questions
    asked = {"topic": type(questions["topic"])(criteria=option)}
    long = [
        Row("long-state", state, questions, fine[0].labels),
        Row("long-option", "short", asked, {"topic": {"a": 1.0, "y" * (limit + 1): 0.0}}),
    ]
    for row in long:
        with pytest.raises(
            ContextLengthError, match=rf"^row {row.id}: .* exceed .* mixture\.max_chars"
        ):
            plan_training(model, [*fine, row], TrainConfig())
        budget = sum(each.unique_tokens for each in prepare_rows(model, fine))
        compiled, _ = plan_training(model, [*fine, row], TrainConfig(max_tokens=budget))
        assert len(compiled) <= 2  # what is behind the budget is never read


def test_rate_warms_up_and_ends_at_zero():
    config = TrainConfig(warmup=0.1)
    values = [rate(step, 100, config) for step in range(101)]
    assert values[0] == pytest.approx(0.1)
    assert max(values) == 1
    assert values[100] == pytest.approx(0, abs=1e-9)


# -- resume ----------------------------------------------------------------------------------------


def fit(module: TrainingModule, folder: Path, stop_at: int | None = None) -> None:
    from reflex.training.progress import Checkpoints

    class Stop(lightning.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if pl_module.step == stop_at:
                trainer.should_stop = True

    trainer = lightning.Trainer(
        accelerator="cpu", logger=False, max_epochs=1, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, min_epochs=0,
        callbacks=[Checkpoints(folder, module.config), Stop()],
    )  # fmt: skip
    trainer.fit(module)


def weights(module: TrainingModule) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in trainable(module).items()}


def test_interrupted_and_resumed_equals_uninterrupted_bit_for_bit(tmp_path: Path):
    settings: dict = {"count": 16, "step_tokens": 200, "checkpoint_minutes": 1e-9}
    whole = training(**settings)
    assert len(whole.plan.steps) >= 6
    start = weights(whole)
    fit(whole, tmp_path / "whole")
    first = training(**settings)
    fit(first, tmp_path / "cut", stop_at=3)
    assert first.step == 3
    second = training(**settings)
    fit(second, tmp_path / "cut")
    assert second.step == len(whole.plan.steps)
    for name, value in weights(whole).items():
        assert torch.equal(weights(second)[name], value), name
        assert not torch.equal(start[name], value), name


@pytest.mark.slow
def test_killed_and_resumed_equals_uninterrupted_bit_for_bit(tmp_path: Path):
    """kill -9 in the middle of a real process, at whatever step it happens to be."""
    code = (
        "import sys; from pathlib import Path; from tests.test_training import *\n"
        "module = training(count=40, step_tokens=200, checkpoint_minutes=1e-9)\n"
        "fit(module, Path(sys.argv[1]))\n"
        "torch.save(weights(module), sys.argv[2])\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "killed"), str(tmp_path / "resumed.pt")]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and len(checkpoints(tmp_path / "killed")) < 2:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    newest = checkpoints(tmp_path / "killed")
    assert newest
    assert not (tmp_path / "resumed.pt").exists()
    subprocess.run(command, check=True)
    whole = training(count=40, step_tokens=200, checkpoint_minutes=60.0)
    fit(whole, tmp_path / "whole")
    resumed = torch.load(tmp_path / "resumed.pt")
    for name, value in weights(whole).items():
        assert torch.equal(resumed[name], value), name


def test_newest_by_step_and_partial_ones_ignored(tmp_path: Path, caplog):
    for step in (5, 12, 100):
        save_checkpoint(tmp_path, step, {"value": step}, keep=5)
    (tmp_path / "step-0000100.pt").write_bytes(b"torn")
    (tmp_path / ".step-0000200.pt.77.tmp").write_bytes(b"partial")
    state = load_newest(tmp_path)
    assert state is not None
    assert state["step"] == 12
    assert "step-0000100.pt" in caplog.text
    assert "partial" in caplog.text
    assert "begins at step 0" not in caplog.text
    for path in checkpoints(tmp_path):
        path.write_bytes(b"torn")
    assert load_newest(tmp_path) is None
    assert "no checkpoint can be read; training begins at step 0" in caplog.text


def test_what_is_saved_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch):
    from reflex.training.save import save_adapter, save_backbone, save_heads

    synced: set[int] = set()
    sync, replace = os.fsync, os.replace
    named: list[str] = []

    def synced_first(source: Path, target: Path) -> None:
        assert os.stat(source).st_ino in synced, target
        named.append(Path(target).name)
        replace(source, target)

    def noted(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "replace", synced_first)
    module = training(count=1)
    backbone = module.model.backbone
    save_checkpoint(tmp_path, 1, {}, keep=1)
    save_adapter(backbone.model, tmp_path / "adapter", module.config.lora, "base")
    save_heads(module.model, tmp_path / "heads.safetensors")
    assert named == [
        *("step-0000001.pt", "adapter_model.safetensors", "adapter_config.json"),
        "heads.safetensors",
    ]
    save_backbone(pointer_model("llama").backbone, tmp_path / "backbone")
    written = [path for path in (tmp_path / "backbone").iterdir() if path.is_file()]
    assert {"model.safetensors", "config.json"} < {path.name for path in written}
    assert {path.stat().st_ino for path in written} <= synced


def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(tmp_path: Path, monkeypatch):
    from reflex.training.save import save_adapter, save_heads

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    module = training(count=1)
    monkeypatch.setattr(os, "fsync", full)
    why = r"cannot be written \(No space left on device\); free space or choose another folder"
    with pytest.raises(RecordError, match=rf"step-0000001\.pt: {why}"):
        save_checkpoint(tmp_path, 1, {}, keep=1)
    with pytest.raises(RecordError, match=rf"adapter_model\.safetensors: {why}"):
        save_adapter(module.model.backbone.model, tmp_path, module.config.lora, "base")
    with pytest.raises(RecordError, match=rf"heads\.safetensors: {why}"):
        save_heads(module.model, tmp_path / "heads.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_checkpoint_of_another_plan_is_refused(tmp_path: Path):
    fit(training(checkpoint_minutes=1e-9), tmp_path)
    other = training(count=5, checkpoint_minutes=1e-9)
    with pytest.raises(TrainingError, match=r"train\.fresh=true"):
        fit(other, tmp_path)


# -- what is saved ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["llama", "qwen3_5"])
def test_saved_adapter_and_heads_answer_what_training_answered(tmp_path: Path, path: str):
    """Through PEFT's own loader, merged: also the proof that the adapter is in PEFT's format."""
    from reflex.backbones.backbone import load_backbone
    from reflex.backbones.config import BackboneConfig, DeviceConfig
    from reflex.config import readout_config
    from reflex.model import DecisionModel
    from reflex.readouts.pointer import Config
    from reflex.training.save import save_adapter, save_heads

    base = pointer_model(path).backbone
    base.model.save_pretrained(tmp_path / "base")
    base.tokenizer.save_pretrained(tmp_path / "base")
    module = training(path)
    fit(module, tmp_path / "checkpoints")
    save_adapter(module.model.backbone.model, tmp_path / "adapter", module.config.lora, "base")
    save_heads(module.model, tmp_path / "heads.safetensors")
    backbone = load_backbone(
        BackboneConfig(
            name="tiny",
            source="folder",
            path=str(tmp_path / "base"),
            adapter=str(tmp_path / "adapter"),
        ),
        DeviceConfig(dtype="float32"),
    )
    readouts = readout_config()(
        choice="pointer",
        noul="pointer",
        score="pointer",
        pointer=Config(weights=str(tmp_path / "heads.safetensors")),
    )
    trained_model = module.model
    served = DecisionModel(
        backbone,
        trained_model.style,
        trained_model.orders,
        readouts,
        trained_model.engine.config,
    )
    from reflex.training.batches import request_of

    with torch.inference_mode():
        for row in module.rows:
            trained = module.model([request_of(row)]).scores[0]
            found = served([request_of(row)]).scores[0]
            for name in row.questions:
                assert torch.allclose(trained[name].scores[0], found[name].scores[0], atol=2e-5)


# -- whole commands --------------------------------------------------------------------------------

TINY = (
    *("experiment=embedded_release", "task=train", "backbone=tiny_llama", "device.dtype=float32"),
    "tracker=none",
    *("mixture.rows=100", "train.max_tokens=12000", "train.log_steps=1", "train.name=null"),
)


def command(runs: Path, data: Path, *arguments: str) -> str:
    environment = {**os.environ, "REFLEX_RUNS": str(runs), "REFLEX_DATA": str(data)}
    done = subprocess.run(
        [sys.executable, "-m", "reflex.run", *TINY, *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def logged(folder: Path) -> list[float]:
    lines = (folder / "log.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


@pytest.mark.slow
def test_two_processes_give_the_loss_of_one(tmp_path: Path, data_root: Path):
    command(tmp_path, data_root, "train.name=one")
    command(tmp_path, data_root, "train.name=two", "trainer=ddp")
    one, two = logged(tmp_path / "one"), logged(tmp_path / "two")
    assert len(one) >= 5
    assert two == pytest.approx(one, abs=1e-4)


@pytest.mark.slow
def test_several_processes_end_when_the_first_is_told_to_and_one_goes_on(
    tmp_path: Path, data_root: Path
):
    environment = {**os.environ, "REFLEX_RUNS": str(tmp_path), "REFLEX_DATA": str(data_root)}
    started = subprocess.Popen(
        [sys.executable, "-m", "reflex.run", *TINY, "train.name=two", "trainer=ddp",
         "train.max_tokens=120000", "train.checkpoint_minutes=0.001"],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    psutil = import_module("psutil")  # without types
    first = psutil.Process(started.pid)
    try:
        wait_until(lambda: len(logged(tmp_path / "two")) >= 2)
        own = [first, *first.children(recursive=True)]
        assert len([each for each in own if "trainer=ddp" in each.cmdline()]) == 2
        started.terminate()
        assert started.wait(60) != 0
        psutil.wait_procs(own, timeout=60)
        assert not [each for each in own if each.is_running()]
    finally:
        for each in first.children(recursive=True) if first.is_running() else ():
            each.kill()
        started.kill()
    told = command(
        tmp_path,
        data_root,
        "train.name=two",
        "train.max_tokens=120000",
        "train.checkpoint_minutes=0.001",
    )
    assert "resumed at step" in told


def wait_until(holds: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError):
            if holds():
                return
        time.sleep(0.1)
    raise AssertionError("waited in vain")


@pytest.mark.slow
def test_training_evaluation_and_release_by_command(tmp_path: Path, data_root: Path):
    """Trained, evaluated with its calibration, released, moved, loaded; a tampered file is refused."""
    import shutil

    import reflex
    from reflex.errors import RecordError

    command(tmp_path, data_root, "train.name=tiny")
    assert "already trained" in command(tmp_path, data_root, "train.name=tiny")
    trained = tmp_path / "tiny"
    told = command(
        tmp_path, data_root, "task=evaluate", f"backbone.adapter={trained / 'adapter'}",
        f"readout.pointer.weights={trained / 'heads.safetensors'}", "benchmark=held_out",
        "benchmark.sources=[emotion,sst5,mrpc]", "benchmark.per_source=25",
        "calibration=transfer", "calibration.min_rows=20",
    )  # fmt: skip
    assert "page: " in told
    (record,) = tmp_path.glob("*/record.json")
    out = tmp_path / "out" / "tiny"
    told = command(
        tmp_path, data_root, "task=release", f"task.run_id={record.parent.name}", f"task.out={out}",
    )  # fmt: skip
    assert f"release: {out}" in told
    assert {path.stat().st_mode & 0o777 for path in (out, out / "adapter")} == {0o755}
    assert (out / "heads.safetensors").stat().st_mode & 0o777 == 0o644
    card = (out / "README.md").read_text()
    assert "Rows are those that were trained on." in card
    assert "| emotion |" in card
    assert "overlapping" in card
    assert "**The weights were trained partly on data that may be used for non-commercial" in card
    moved = tmp_path / "moved"
    out.rename(moved)
    request = {"state": "I love it", "questions": {"q": {"type": "noul", "instructions": "Glad?"}}}
    before = reflex.load(str(record.parent)).answer(request)
    shutil.rmtree(trained)
    assert reflex.load(str(moved)).answer(request) == before
    heads = moved / "heads.safetensors"
    data = bytearray(heads.read_bytes())
    data[-1] ^= 1
    heads.write_bytes(data)
    with pytest.raises(RecordError, match=r"heads\.safetensors: not the file that was released"):
        reflex.load(str(moved))


def test_a_named_folder_is_not_taken_for_other_settings(tmp_path: Path):
    from reflex.backbones.config import DeviceConfig
    from reflex.backbones.dtype import resolve_dtype
    from reflex.loading import compose
    from reflex.tasks.begun import check_same, write_begun

    def configured(*changes: str):
        return compose(["experiment=embedded_release", *changes])

    check_same(tmp_path, configured())
    write_begun(tmp_path, configured())
    check_same(tmp_path, configured("seed=3"))  # nothing was made with it yet
    (tmp_path / "rows.jsonl").touch()
    check_same(tmp_path, configured("train.checkpoint_minutes=9", "train.name=other"))
    check_same(tmp_path, configured(f"device.dtype={resolve_dtype(DeviceConfig())}"))
    check_same(tmp_path, configured("trainer.devices=2"))  # gives the same training
    for change, told in (
        ("train.lr=0.1", r"holds a training with train\.lr=0\.0006, not 0\.1; train\.name=OTHER"),
        ("train.lora.rank=4", r"train\.lora\.rank=16, not 4"),
        ("mixture.rows=50", r"mixture\.rows=30000, not 50"),
        ("seed=3", r"seed=0, not 3"),
        ("orders=four", r"orders\.permutations=1, not 4"),
        ("trainer.precision=bf16-true", r"trainer\.precision=None, not bf16-true"),
        ("device.dtype=float16", r"device\.dtype=b?float(16|32), not float16"),
    ):
        with pytest.raises(ConfigError, match=told):
            check_same(tmp_path, configured(change))


def test_a_training_from_before_a_correction_is_not_taken_for_its_successor(tmp_path, monkeypatch):
    """Neither by its hash nor in a named folder; what a correction does not touch keeps both."""
    from types import SimpleNamespace

    from reflex.loading import compose
    from reflex.tasks import train
    from reflex.tasks.begun import check_same, write_begun
    from reflex.tasks.lineage import BEGUN

    told: list[dict] = []

    def identity(cfg, facts):
        told.append(facts)
        return SimpleNamespace(hash="0" * 64)

    monkeypatch.setattr(train, "run_identity", identity)
    common = ("task=train", "backbone=tiny_llama", "mixture=embedded")
    by_rule = "pairs made by rule are what their label says"
    foreign = "no states that answer stand in for foreign ones"
    apart, stored = "options read apart count as tokens", "LoRA adds to the weights as stored"
    for number, (readout, method, dtype, sources, mended) in enumerate(
        (
            ("pointer", "lora", "float32", ("mrpc", "halueval"), []),
            ("candidates", "lora", "float32", ("mrpc",), [apart]),
            ("candidates", "lora", "bfloat16", ("mrpc",), [apart, stored]),
            ("pointer", "head", "bfloat16", ("feedbackqa", "emotion"), []),
            ("pointer", "head", "float32", ("word_swaps",), [by_rule]),
            ("pointer", "head", "float32", ("feedbackqa", "halueval"), [foreign]),
        )
    ):
        cfg = compose([*common, f"readout={readout}", f"train={method}", f"device.dtype={dtype}"])
        cfg.mixture.sources = dict.fromkeys(sources, 1.0)
        train.training_identity(cfg)
        assert told[-1].get("corrections", []) == mended, number
        folder = tmp_path / str(number)
        folder.mkdir()
        write_begun(folder, cfg)
        (folder / "rows.jsonl").touch()
        check_same(folder, cfg)
        (folder / BEGUN).unlink()  # as a version before it left the folder
        if not mended:
            check_same(folder, cfg)
            continue
        with pytest.raises(ConfigError, match=r"from before a correction \(.*train\.fresh=true"):
            check_same(folder, cfg)


def test_a_training_is_told_by_the_heads_that_it_goes_on_from(tmp_path, monkeypatch):
    """By what is in their file, not by its path; without any the hash is made of what it always was."""
    from types import SimpleNamespace

    from reflex.loading import compose
    from reflex.tasks import train
    from reflex.tasks.begun import check_same, write_begun

    def identity(cfg, facts):
        return SimpleNamespace(hash=json.dumps(facts, default=str), facts=facts)

    monkeypatch.setattr(train, "run_identity", identity)
    common = (
        "task=train",
        "backbone=tiny_llama",
        "mixture=embedded",
        "device.dtype=float32",
        "readout=pointer",
        "train=head",
    )

    def configured(*words: str):
        cfg = compose([*common, *words])
        cfg.mixture.sources = {"emotion": 1.0}
        return cfg

    plain = train.training_identity(configured())[1].facts
    assert set(plain) == {"weights", "adapter", "dtype", "prompt", "mixture", "train"}
    one, other = tmp_path / "one.safetensors", tmp_path / "other.safetensors"
    one.write_bytes(b"one")
    other.write_bytes(b"one")
    cfg = configured(f"readout.pointer.weights={one}")
    first = train.training_identity(cfg)[1].facts
    assert first == {**plain, "heads": {"pointer": sha256(b"one").hexdigest()}}
    same = configured(f"readout.pointer.weights={other}")
    assert train.training_identity(same)[1].facts == first
    folder = tmp_path / "named"
    folder.mkdir()
    write_begun(folder, cfg)
    (folder / "rows.jsonl").touch()
    check_same(folder, cfg)
    one.write_bytes(b"two")
    assert train.training_identity(cfg)[1].facts != first
    with pytest.raises(ConfigError, match=r"went on from other heads .* train\.fresh=true"):
        check_same(folder, cfg)


def test_rows_of_a_start_that_broke_off_are_not_trained_on_with_other_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from reflex.tasks import train
    from tests.cli import run

    def broken(cfg: object, folder: Path) -> None:
        (folder / "rows.jsonl").touch()
        raise TrainingError("broke off")

    monkeypatch.setattr(train, "build_training", broken)
    words = (*TINY, f"runs_dir={tmp_path}", "train.name=run")
    assert "broke off" in run(*words).err
    assert "broke off" in run(*words).err  # the same command goes on
    other = run(*words, "mixture.rows=50")
    assert other.status == 1
    assert "holds a training with mixture.rows=100, not 50" in other.err
