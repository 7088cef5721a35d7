"""The pointer readout: order cannot matter, any number of options, head files."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from reflex.backbones.backbone import load_backbone
from reflex.backbones.config import BackboneConfig, DeviceConfig
from reflex.config import readout_config
from reflex.contract import Choice, Noul, Request, Score
from reflex.errors import ConfigError, ReadoutError
from reflex.forward.config import ForwardConfig
from reflex.model import DecisionModel
from reflex.prompts.orders import OrdersConfig
from reflex.prompts.styles.chat import ChatStyle
from reflex.readouts.pointer import Config
from reflex.readouts.pointer_head import load_head, make_head
from reflex.training.save import save_heads


def pointer_model(path: str = "llama", *, permutations: int = 1, **settings) -> DecisionModel:
    backbone = load_backbone(
        BackboneConfig(name=f"tiny_{path}", source="random", path=path),
        DeviceConfig(dtype="float32"),
    )
    readouts = readout_config()(
        choice="pointer", noul="pointer", score="pointer", pointer=Config(**settings)
    )
    orders = OrdersConfig(permutations=permutations)
    model = DecisionModel(backbone, ChatStyle(), orders, readouts, ForwardConfig())
    generator = torch.Generator().manual_seed(1)
    for parameter in model.heads.parameters():  # an untrained head scores 0 everywhere
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return model


OPTIONS = ("refund", "card_arrival: new", "card_arrival", "a much longer name of an option", "ß")


def probabilities(model: DecisionModel, question) -> dict[str, float]:
    with torch.inference_mode():
        scores = model([Request(state="Where is my card?", questions={"q": question})]).scores[0][
            "q"
        ]
    values = scores.scores[0].softmax(-1).tolist()
    return dict(zip(scores.order_keys[0], values, strict=True))


@pytest.mark.parametrize("path", ["llama", "qwen3", "qwen3_5"])
def test_reordering_options_changes_not_one_bit(path):
    model = pointer_model(path)
    wanted = probabilities(model, Choice(criteria=dict.fromkeys(OPTIONS)))
    assert len(set(wanted.values())) == len(OPTIONS)
    for order in itertools.islice(itertools.permutations(OPTIONS), 0, 120, 17):
        assert probabilities(model, Choice(criteria=dict.fromkeys(order))) == wanted


def test_more_orders_are_one_pass():
    model = pointer_model(permutations=4)
    request = Request(state="s", questions={"q": Choice(criteria=dict.fromkeys(OPTIONS))})
    scores = model([request]).scores[0]["q"]
    assert len(scores.scores) == 1
    assert sorted(scores.order_keys[0]) == sorted(OPTIONS)


def test_options_are_blind_to_each_other():
    model = pointer_model()
    with torch.inference_mode():
        few = model([_ask(OPTIONS[:2])]).scores[0]["q"]
        many = model([_ask(OPTIONS)]).scores[0]["q"]
    few_by = dict(zip(few.order_keys[0], few.scores[0].tolist(), strict=True))
    many_by = dict(zip(many.order_keys[0], many.scores[0].tolist(), strict=True))
    for key in OPTIONS[:2]:
        assert many_by[key] == pytest.approx(few_by[key], abs=1e-4)


def _ask(options) -> Request:
    return Request(state="s", questions={"q": Choice(criteria=dict.fromkeys(options))})


def test_three_hundred_options_and_all_types():
    model = pointer_model()
    names = [f"option {i}" for i in range(300)]
    questions = {
        "many": Choice(criteria=dict.fromkeys(names)),
        "yes": Noul(instructions="Is it?"),
        "level": Score(criteria=["low", "middle", "high"]),
    }
    scores = model([Request(state="s", questions=questions)]).scores[0]
    assert sorted(scores["many"].order_keys[0]) == sorted(names)
    assert set(scores["yes"].order_keys[0]) == {"true", "false"}
    assert set(scores["level"].order_keys[0]) == {"0", "1", "2"}


def test_untrained_head_calls_every_option_equally_likely():
    model = pointer_model()
    model.heads["pointer"].load_state_dict(
        make_head(Config(), model.backbone.hidden_size).state_dict()
    )
    assert set(probabilities(model, Choice(criteria=dict.fromkeys("abcd"))).values()) == {0.25}


def test_heads_file_round_trip(tmp_path: Path):
    model = pointer_model()
    save_heads(model, tmp_path / "heads.safetensors")
    again = make_head(Config(), model.backbone.hidden_size)
    load_head(again, str(tmp_path / "heads.safetensors"), "pointer")
    for name, value in model.heads["pointer"].state_dict().items():
        assert torch.equal(again.state_dict()[name], value)


def test_wrong_heads_are_refused(tmp_path: Path):
    model = pointer_model(head="linear")
    save_heads(model, tmp_path / "heads.safetensors")
    with pytest.raises(ReadoutError, match=r"heads\.safetensors"):
        pointer_model(weights=str(tmp_path / "heads.safetensors"))
    (tmp_path / "broken").write_text("not tensors")
    with pytest.raises(ReadoutError, match=r"broken"):
        pointer_model(weights=str(tmp_path / "broken"))
    with pytest.raises(ConfigError, match=r"readout\.pointer\.head"):
        Config(head="square")
