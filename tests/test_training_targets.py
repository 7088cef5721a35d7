"""Loss terms without labels: the anchor to the frozen backbone, and the mean over a model's own orders."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from reflex.data.rows import Row
from reflex.errors import ConfigError
from reflex.model import DecisionModel
from reflex.readouts.base import OptionScores
from reflex.readouts.continuation import Config as Continuation
from reflex.training import losses as L
from reflex.training.batches import plan_steps, prepare_rows, request_of
from reflex.training.config import TrainConfig
from reflex.training.lora import frozen, merge_all
from reflex.training.lora_config import LoraConfig
from reflex.training.loss_config import LossConfig
from reflex.training.module import TrainingModule, check_targets, prepare, trainable
from tests.test_pointer import model_with
from tests.test_training import rows

LETTERS = dict.fromkeys(("choice", "noul", "score"), "label_tokens")


def training(
    path: str = "llama", moved: bool = True, readout: dict | None = None, **settings
) -> TrainingModule:
    model = model_with(path, **(readout or LETTERS))
    config = TrainConfig(lora=LoraConfig(rank=4), **settings)
    prepare(model, config, seed=0)
    generator = torch.Generator().manual_seed(2)
    for name, parameter in trainable(model).items():
        if moved and name.endswith(".b"):
            torch.nn.init.normal_(parameter, std=0.05, generator=generator)
    merge_all(model)
    data = rows(3)
    compiled = prepare_rows(model, data, config)
    sizes = [each.tree.unique_tokens for each in compiled]
    return TrainingModule(model, data, compiled, plan_steps(sizes, 4000, 4000), config)


def answers(
    model: DecisionModel, data: Sequence[Row], orders: int | None = None
) -> list[OptionScores]:
    output = model([request_of(row, orders) for row in data])
    return [scores for found in output.scores for scores in found.values()]


def test_kl_by_hand_and_its_gradient() -> None:
    r = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]], dtype=torch.float64)
    p = torch.tensor([[0.25, 0.75, 0.0], [0.2, 0.8, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, False]] * 2)
    found = L.kl(r.log(), p.log(), mask)
    by_hand = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert found.tolist() == pytest.approx([by_hand, 0.0])
    scores = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    held = torch.randn(2, 3, dtype=torch.float64).log_softmax(-1)
    everything = torch.ones(2, 3, dtype=torch.bool)
    assert torch.autograd.gradcheck(lambda s: L.kl(held, s.log_softmax(-1), everything), (scores,))


@pytest.mark.parametrize("path", ["llama", "qwen3_5"])
def test_frozen_is_the_backbone_that_was_never_trained(path: str) -> None:
    module = training(path)
    untouched = model_with(path, **LETTERS)
    with torch.no_grad():
        wanted = answers(untouched, module.rows)
    moved = answers(module.model, module.rows)  # with gradients: no prefix is kept
    with frozen(module.model):
        held = answers(module.model, module.rows)
    for a, b, c in zip(wanted, held, moved, strict=True):
        assert torch.allclose(a.scores[0], b.scores[0], atol=1e-4)
        assert (a.scores[0] - c.scores[0]).abs().max() > 1e-3


def test_a_prior_is_that_of_the_weights_that_score() -> None:
    by_prior = {
        **dict.fromkeys(LETTERS, "continuation"),
        "continuation": Continuation(score="prior"),
    }
    wanted = answers(training(readout=by_prior).model, rows(3))
    model = training(readout=by_prior).model
    with frozen(model):
        before = answers(model, rows(3))  # the anchor comes first, then the step
    trained = answers(model, rows(3))
    with frozen(model), torch.no_grad():
        after = answers(model, rows(3))
    again = answers(model, rows(3))
    for a, b, c, d, e in zip(wanted, before, trained, after, again, strict=True):
        assert torch.equal(a.scores[0], c.scores[0])
        assert torch.equal(a.scores[0], e.scores[0])
        assert torch.allclose(b.scores[0], d.scores[0], atol=1e-4)
        assert (a.scores[0] - b.scores[0]).abs().max() > 1e-3


@pytest.mark.parametrize("path", ["llama", "qwen3_5"])
def test_the_anchor_is_the_kl_to_the_frozen_answer(path: str) -> None:
    plain = training(path).losses(range(3))
    module = training(path, loss=LossConfig(nll=1.0, anchor=0.5))
    held = module.losses(range(3))
    with torch.no_grad():
        before = answers(model_with(path, **LETTERS), module.rows)
        after = answers(module.model, module.rows)
    wanted = [
        torch.nn.functional.kl_div(
            b.scores[0].log_softmax(-1),
            a.scores[0].log_softmax(-1),
            log_target=True,
            reduction="sum",
        )
        for a, b in zip(before, after, strict=True)
    ]
    assert min(wanted) > 1e-5
    assert torch.allclose(held - plain, 0.5 * torch.stack(wanted), atol=1e-5)


def test_nothing_pulls_on_a_model_that_has_not_moved() -> None:
    module = training(moved=False, loss=LossConfig(nll=0.0, anchor=1.0))
    losses = module.losses(range(3))
    assert losses.abs().max() < 1e-9
    losses.sum().backward()
    gradients = [p.grad.abs().max() for p in trainable(module).values() if p.grad is not None]
    assert gradients
    assert max(gradients) < 1e-5


def test_the_anchor_needs_a_frozen_answer() -> None:
    pointer = dict.fromkeys(("choice", "noul", "score"), "pointer")
    with pytest.raises(ConfigError, match=r"readout pointer has no frozen answer"):
        training(readout=pointer, loss=LossConfig(anchor=0.1))
    with pytest.raises(ConfigError, match=r"needs train\.method=lora; with full"):
        TrainConfig(method="full", loss=LossConfig(anchor=0.1))


def test_questions_read_by_a_head_are_not_held(caplog: pytest.LogCaptureFixture) -> None:
    mixed = {**LETTERS, "choice": "pointer"}
    plain = training(readout=mixed).losses(range(3))
    module = training(readout=mixed, loss=LossConfig(anchor=1.0))
    held = module.losses(range(3)) - plain
    assert "questions read by pointer are not held" in caplog.text
    choices, others = held[0::3], torch.cat([held[1::3], held[2::3]])
    assert torch.allclose(choices, torch.zeros(3), atol=1e-6)
    assert others.min() > 1e-6


def orders_of(*values: list[float]) -> OptionScores:
    """A three-way choice read in the orders abc and cab."""
    scores = tuple(torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in values)
    keys = (tuple("abc"), tuple("cab"))
    return OptionScores("q", "choice", "label_tokens", tuple("abc"), keys, scores)


def test_self_distillation_draws_every_order_to_their_mean() -> None:
    scored = orders_of([1.0, 0.0, -1.0], [0.5, 0.0, 2.0])
    config = LossConfig(nll=0.0, self_distill=2.0)
    loss = L.question_losses([scored], [dict.fromkeys("abc", 1 / 3)], config)
    p = scored.scores[0].detach().float().softmax(-1)
    q = scored.scores[1].detach().float().softmax(-1)[[1, 2, 0]]  # in the order abc
    mean = (p + q) / 2
    wanted = sum((mean * (mean / each).log()).sum() for each in (p, q)) / 2
    assert loss.item() == pytest.approx(2.0 * float(wanted), abs=1e-6)
    loss.backward()
    # The mean is a target: d/ds KL(m ‖ softmax(s)) = softmax(s) − m, and nothing else.
    assert scored.scores[0].grad is not None
    assert torch.allclose(scored.scores[0].grad.float(), p - mean, atol=1e-6)


def test_self_distillation_through_the_model() -> None:
    module = training(orders=3, loss=LossConfig(nll=0.0, self_distill=1.0))
    found = module.losses(range(3))
    with torch.no_grad():
        scored = answers(module.model, module.rows, 3)
    assert [len(each.scores) for each in scored[:3]] == [3, 2, 3]
    for loss, each in zip(found, scored, strict=True):
        by_key = torch.stack(
            [
                row.softmax(-1)[[keys.index(key) for key in each.keys]]
                for keys, row in zip(each.order_keys, each.scores, strict=True)
            ]
        )
        mean = by_key.mean(0)
        wanted = (mean * (mean / by_key).log()).sum(-1).mean()
        assert loss.item() == pytest.approx(float(wanted), abs=1e-5)


def test_one_order_has_no_mean_to_learn_from() -> None:
    with pytest.raises(ConfigError, match=r"train\.orders=4"):
        training(loss=LossConfig(self_distill=1.0))
    pointer = training(readout=dict.fromkeys(LETTERS, "pointer"), orders=4)
    with pytest.raises(ConfigError, match=r"train\.loss\.self_distill: every question"):
        check_targets(pointer.compiled, TrainConfig(loss=LossConfig(self_distill=1.0)))
    module = training(orders=2)
    assert all(len(each.branches) == 2 for item in module.compiled for each in item.asked)


def test_wrong_settings_name_their_key() -> None:
    with pytest.raises(ConfigError, match=r"train\.orders=0"):
        TrainConfig(orders=0)
    with pytest.raises(ConfigError, match=r"train\.schema_first=2"):
        TrainConfig(schema_first=2.0)
    with pytest.raises(ConfigError, match=r"train\.loss\.anchor=-1"):
        LossConfig(anchor=-1)
