"""The pointer readout: order cannot matter, any number of options, head files."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from reflex.backbones.backbone import load_backbone
from reflex.backbones.config import BackboneConfig, DeviceConfig
from reflex.config import readout_config
from reflex.contract import Choice, Noul, Request, Score
from reflex.errors import ConfigError, ReadoutError, RequestError
from reflex.forward.config import ForwardConfig
from reflex.model import DecisionModel
from reflex.prompts.orders import OrdersConfig
from reflex.prompts.styles.chat import ChatStyle
from reflex.readouts.auto import Config as AutoConfig
from reflex.readouts.merge import merge
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


def test_what_is_served_does_not_depend_on_the_order_it_is_summed_in():
    for _ in range(50):
        p = torch.rand(1, 9, dtype=torch.float64).numpy()
        for order in (slice(None, None, -1), [3, 1, 4, 0, 5, 8, 2, 6, 7]):
            assert (merge(p[:, order]) == merge(p)[order]).all()


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


# -- candidates and the router ---------------------------------------------------------------------


def model_with(path: str = "llama", **readout) -> DecisionModel:
    backbone = load_backbone(
        BackboneConfig(name=f"tiny_{path}", source="random", path=path),
        DeviceConfig(dtype="float32"),
    )
    return DecisionModel(
        backbone, ChatStyle(), OrdersConfig(), readout_config()(**readout), ForwardConfig()
    )


CANDIDATES = dict.fromkeys(("choice", "noul", "score"), "candidates")


@pytest.mark.parametrize("path", ["llama", "qwen3_5"])
def test_candidates_do_not_depend_on_order_cache_or_neighbours(path):
    model = model_with(path, **CANDIDATES)
    wanted = probabilities(model, Choice(criteria=dict.fromkeys(OPTIONS)))
    assert len(set(wanted.values())) == len(OPTIONS)
    readout: Any = model.readouts["choice"]
    assert len(readout.known) == len(OPTIONS)
    for order in itertools.islice(itertools.permutations(OPTIONS), 0, 120, 37):
        assert probabilities(model, Choice(criteria=dict.fromkeys(order))) == wanted
    readout.known.clear()
    with torch.inference_mode():
        both = model([_ask(["x", "y"]), _ask(OPTIONS)]).scores[1]["q"]
        alone = model([_ask(OPTIONS)]).scores[0]["q"]
    assert torch.allclose(both.scores[0], alone.scores[0], atol=1e-4)


def test_a_candidate_cache_keyed_by_sorted_options_is_caught(monkeypatch):
    """The fault of a predecessor: an equal set of options came back in the order first seen."""
    from reflex.readouts import base, candidates

    encode = candidates.Readout._encode
    known: dict = {}

    def by_set(self, wanted):
        kept = known.setdefault(tuple(sorted(wanted)), list(encode(self, wanted).values()))
        return dict(zip(wanted, kept, strict=True))

    def moved() -> float:
        """How far an answer moves when the options are listed backwards."""
        model = model_with(**CANDIDATES)
        forth, back = (probabilities(model, _choice(o)) for o in (OPTIONS, OPTIONS[::-1]))
        return max(abs(forth[key] - back[key]) for key in OPTIONS)

    monkeypatch.setattr(base, "sorted", list, raising=False)  # options as the caller lists them
    assert moved() < 1e-5
    monkeypatch.setattr(candidates.Readout, "_encode", by_set)
    assert moved() > 1e-3
    with pytest.raises(AssertionError):
        test_candidates_do_not_depend_on_order_cache_or_neighbours("llama")


def _choice(options) -> Choice:
    return Choice(criteria=dict.fromkeys(options))


def test_candidates_are_encoded_once_and_train(monkeypatch):
    model = model_with(**CANDIDATES)
    readout: Any = model.readouts["choice"]
    trees = []
    run = readout.engine.run

    def counted(given):
        trees.append(len(given))
        return run(given)

    monkeypatch.setattr(readout.engine, "run", counted)
    with torch.inference_mode():
        model([_ask(OPTIONS), _ask(OPTIONS[:3])])
        model([_ask(OPTIONS[1:])])
    assert trees == [len(OPTIONS)]
    scores = model([_ask(OPTIONS)]).scores[0]["q"].scores[0]
    scores.log_softmax(-1)[0].backward()
    assert all(p.grad is not None for p in model.heads["candidates"].parameters())
    assert not readout.known


def test_options_that_are_encoded_apart_count_and_keep_the_limits():
    from reflex.errors import ContextLengthError
    from reflex.serving.slices import cut

    model = model_with(**CANDIDATES)
    encode = model.backbone.tokens.encode_plain
    questions = {"q": _choice(OPTIONS), "again": _choice(OPTIONS)}
    request = Request(state="s", questions=questions)
    prepared = model.prepare(request)
    assert prepared.apart == tuple(tuple(encode(text)) for text in sorted(OPTIONS))
    first, again = prepared.asked
    assert first.tokens - again.tokens == sum(len(encode(text)) for text in OPTIONS)  # read once
    limit = prepared.state_tokens + first.tokens + again.tokens
    assert (
        sum(part.tokens for part in cut(model, request, 10**6, limit))
        == first.tokens + again.tokens
    )
    with pytest.raises(ContextLengthError, match=f"longer than {limit - 1} tokens"):
        cut(model, request, 10**6, limit - 1)
    longest = model.backbone.facts.context_length
    with pytest.raises(ContextLengthError, match="exceed the context"):
        cut(model, _ask(["a ! " * longest, "b"]), 10**6, 10**9)


@pytest.mark.parametrize("name", ["pointer", "candidates", "continuation"])
def test_an_option_without_text_is_refused(name: str, monkeypatch) -> None:
    """Not scored by what stands around it: a line end, the space before a label, another row's padding."""
    model = model_with(**dict.fromkeys(("choice", "noul", "score"), name))
    for readout in model.built.values():
        readout.prefix = " "
    for options in ([""], ["", "b"]):
        with pytest.raises(RequestError, match="option '' has no text"):
            model.prepare(_ask(options))
    # Text of which the tokenizer leaves nothing.
    encode = model.backbone.tokens.encode
    none_of_one = lambda pieces, **how: encode(pieces, **how) if len(pieces) > 1 else ()  # noqa: E731
    monkeypatch.setattr(model.backbone.tokens, "encode", none_of_one)
    with pytest.raises(RequestError, match="option 'a' has no text"):
        model.prepare(_ask(["a", "b"]))


@pytest.mark.parametrize(("kept", "times"), [(64, 1), (0, 3)])
def test_a_suite_counts_the_options_that_were_read(kept: int, times: int, monkeypatch) -> None:
    """Once where they are kept; again for every batch where not."""
    from reflex.calibration.none import NoCalibration
    from reflex.data.rows import Row
    from reflex.decider import Decider
    from reflex.evaluation.suite import run_suite
    from reflex.readouts.candidates import Config as Candidates

    model = model_with(**CANDIDATES, candidates=Candidates(kept=kept))
    rows = [
        Row(
            f"r{i}",
            f"state {i}",
            {"q": _choice(OPTIONS)},
            {"q": {key: float(key == OPTIONS[0]) for key in OPTIONS}},
        )
        for i in range(3)
    ]
    trees = sum(
        model.prepare(Request(state=r.state, questions=r.questions)).unique_tokens for r in rows
    )
    options = sum(len(model.backbone.tokens.encode_plain(text)) for text in OPTIONS)
    decider = Decider(model, NoCalibration(), "tiny")
    assert not any(module.training for module in model.modules())  # as measured, so served
    moved: list[Any] = []
    monkeypatch.setattr(model, "_apply", moved.append)
    result = run_suite(decider, rows, batch_tokens=1)
    assert not moved  # a second suite finds it where it was
    assert result.unique_tokens == trees + times * options
    assert result.cost(decider)["tokens_per_decision"] == (trees + times * options) / 3


def test_router_takes_labels_while_there_are_enough_and_says_why():
    model = model_with(
        choice="auto", noul="auto", score="auto", auto=AutoConfig(max_label_options=4)
    )
    questions = {
        "few": Choice(criteria=dict.fromkeys("abcd")),
        "many": Choice(criteria=dict.fromkeys("abcde")),
        "yes": Noul(instructions="Is it?"),
    }
    scores = model([Request(state="s", questions=questions)]).scores[0]
    assert {name: each.readout for name, each in scores.items()} == {
        "few": "label_tokens",
        "many": "pointer",
        "yes": "label_tokens",
    }
    assert scores["many"].notes == {
        "x_readout": "pointer",
        "x_route": "5 options, max_label_options is 4",
    }
    plain = model_with(choice="label_tokens")
    few = {"few": questions["few"]}
    with torch.inference_mode():
        routed = model([Request(state="s", questions=few)]).scores[0]["few"].scores[0]
        direct = plain([Request(state="s", questions=few)]).scores[0]["few"].scores[0]
    assert torch.equal(routed, direct)
    assert set(model.heads) == {"pointer"}


def test_no_negative_number_of_options_is_kept():
    from reflex.readouts.candidates import Config as Candidates

    with pytest.raises(ConfigError, match=r"readout\.candidates\.kept=-1: must not be negative"):
        Candidates(kept=-1)


def test_router_cannot_route_to_itself():
    with pytest.raises(ConfigError, match=r"readout\.auto\.head"):
        AutoConfig(head="auto")
