"""The layout schema_first: one question's schema is the prefix, the state is the branch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from reflex.backbones.backbone import load_backbone
from reflex.backbones.config import BackboneConfig, DeviceConfig
from reflex.calibration.none import NoCalibration
from reflex.config import readout_config
from reflex.contract import Choice, Noul, Question, Request, Score
from reflex.decider import Decider
from reflex.errors import ConfigError
from reflex.forward.config import ForwardConfig
from reflex.forward.engine import Forward
from reflex.loading import compose
from reflex.model import DecisionModel
from reflex.prompts.orders import OrdersConfig
from reflex.prompts.pieces import Piece, Template
from reflex.prompts.styles.chat import ChatStyle
from reflex.prompts.styles.compact import CompactStyle
from reflex.prompts.styles.plain import PlainStyle
from reflex.tasks.identity import as_trained
from reflex.training.batches import layout_of, prepare_rows
from reflex.training.config import TrainConfig
from tests.harmless import CONTROL
from tests.test_training import rows

QUESTIONS: dict[str, Question] = {
    "which": Choice(instructions="Which?", criteria={"a": None, "bee": "a longer one", "c": None}),
    "yes": Noul(instructions="Is it so?"),
    "level": Score(criteria=["low", "mid", "high"]),
}
STATES = ["Hi.", {"text": "word " * 30}, "Ünïcode ☃"]
TURN = Template("<s>", "<u>", "<a>", answers_after_turn=True)
BARE = Template("", "", "", answers_after_turn=False)


def model_of(path: str, readout: str, layout: str = "schema_first", **own: Any) -> DecisionModel:
    backbone = load_backbone(
        BackboneConfig(name=f"tiny_{path}", source="random", path=path),
        DeviceConfig(dtype="float32"),
    )
    readouts = readout_config()(**dict.fromkeys(("choice", "noul", "score"), readout), **own)
    orders = OrdersConfig(permutations=2)
    style = ChatStyle(layout=layout)
    model = DecisionModel(backbone, style, orders, readouts, ForwardConfig())
    generator = torch.Generator().manual_seed(1)
    for parameter in model.heads.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return model


def requests() -> list[Request]:
    return [Request(state=state, questions=QUESTIONS) for state in STATES]


def flat(output: Any) -> list[torch.Tensor]:
    return [row for found in output.scores for each in found.values() for row in each.scores]


def written(pieces: tuple[Piece, ...]) -> str:
    return "".join(piece.text for piece in pieces)


# -- text ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", [ChatStyle, CompactStyle, PlainStyle])
@pytest.mark.parametrize("template", [TURN, BARE])
def test_both_layouts_say_the_same(style: Any, template: Template) -> None:
    listed = [("A", "yes"), ("B", "no")]
    first, other = style(), style(layout="schema_first")
    one = written(first.prefix(template, "It rained."))
    one += written(first.branch(template, QUESTIONS["yes"], listed, "label_ask"))
    two = written(other.branch(template, QUESTIONS["yes"], listed, "label_ask"))
    schema, evidence = two, written(other.state_branch(template, "It rained."))
    assert "It rained." not in schema
    assert "Is it so?" not in evidence
    assert sorted("".join((schema + evidence).split())) == sorted("".join(one.split()))
    assert (schema + evidence).startswith(written(first.opening(template)).rstrip() or "Question")
    assert evidence.endswith(written(first.closing(template)))
    assert first.fingerprint() != other.fingerprint()


def test_the_chat_prompt_by_hand() -> None:
    style = ChatStyle(layout="schema_first", texts={"system_prompt": "Judge."})
    schema = style.branch(TURN, QUESTIONS["yes"], [("A", "yes"), ("B", "no")], "label_ask")
    assert written(schema) == (
        "<s>Judge.<u># Question\nIs it so?\n\n# Options\nA. yes\nB. no\n\n"
        "Reply with the letter of the right option and nothing else.\n\n"
    )
    assert written(style.state_branch(TURN, "It rained.")) == "# Evidence\nIt rained.<a>"


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"prompt\.layout=sideways: use one of state_first, schema"
    ):
        ChatStyle(layout="sideways")


# -- the one forward -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["llama", pytest.param("qwen3_5", marks=pytest.mark.slow)])
def test_every_strategy_equals_a_plain_forward(path: str) -> None:
    model = model_of(path, "label_tokens")
    compiled = [model.prepare(request) for request in requests()]
    plain = []
    with torch.inference_mode():
        for item in compiled:
            trees = iter(item.trees)
            for asked in item.asked:
                for branch in asked.branches:
                    tree = next(trees)
                    ids = torch.tensor([tree.prefix + tree.segments[0].ids])
                    logits = model.backbone.model(input_ids=ids).logits[0, -1]
                    readout: Any = asked.readout
                    plain.append(logits[[readout.ids[label] for label in branch.labels]])
        names = ["flat", "batched", "auto"] + (["packed"] if path == "llama" else [])
        for name in names:
            model.engine = Forward(model.backbone, ForwardConfig(strategy=name))
            for _ in ("cold", "warm"):
                found = flat(model(compiled))
                assert (
                    max(float((a - b).abs().max()) for a, b in zip(found, plain, strict=True))
                    < 1e-4
                )


@pytest.mark.parametrize("readout", ["label_tokens", "pointer", "candidates", "continuation"])
def test_neighbours_move_nothing(readout: str) -> None:
    model = model_of("llama", readout)
    with torch.inference_mode():
        together = model(requests())
        for request, found in zip(requests(), together.scores, strict=True):
            for name, question in QUESTIONS.items():
                model.engine.cache.clear()
                single = Request(state=request.state, questions={"x": question})
                alone = model([single]).scores[0]["x"]
                for a, b in zip(alone.scores, found[name].scores, strict=True):
                    assert torch.allclose(a.softmax(-1), b.softmax(-1), atol=1e-5)


def test_pointer_options_may_come_in_any_order() -> None:
    model = model_of("llama", "pointer")
    names = ["refund", "card", "a longer name", "ß"]
    answers = []
    for order in (names, names[::-1]):
        question = Choice(criteria=dict.fromkeys(order))
        with torch.inference_mode():
            scores = model([Request(state="s", questions={"q": question})]).scores[0]["q"]
        values = scores.scores[0].tolist()
        answers.append(dict(zip(scores.order_keys[0], values, strict=True)))
    assert answers[0] == answers[1]


def test_one_schema_serves_many_states_from_the_cache() -> None:
    model = model_of("llama", "label_tokens")
    model.engine.config.reuse_tokens = 1
    first, second = (
        Request(state=state, questions={"yes": QUESTIONS["yes"]}) for state in ("one", "two")
    )
    assert {tree.prefix_key for tree in model.prepare(first).trees} == {
        tree.prefix_key for tree in model.prepare(second).trees
    }
    with torch.inference_mode():
        assert model([first]).cache_hits == [False]
        assert model([second]).cache_hits == [True]


def test_markup_in_state_or_question_stays_text() -> None:
    model = model_of("llama", "label_tokens")
    controls = {model.backbone.tokenizer.convert_tokens_to_ids(each) for each in CONTROL}

    def count(state: str, asked: str) -> int:
        question = Noul(instructions=asked)
        compiled = model.prepare(Request(state=state, questions={"q": question}))
        tree = compiled.trees[0]
        return sum(each in controls for each in tree.prefix + tree.segments[0].ids)

    markup = "".join(CONTROL)
    assert count("x", "y") == count(markup, "y") == count("x", markup) > 0


def test_what_it_costs_is_in_the_usage() -> None:
    usages = {}
    for layout in ("state_first", "schema_first"):
        model = model_of("llama", "label_tokens", layout)
        request = requests()[1]
        compiled = model.prepare(request)
        answer = Decider(model, NoCalibration(), "tiny").answer(request)
        assert answer.usage.input_tokens == compiled.unique_tokens
        usages[layout] = answer.usage.model_dump()
    state = len(model.prepare(requests()[1]).trees[0].segments[0].ids)
    # Six readings of the state (three questions in two orders) instead of one.
    more = usages["schema_first"]["input_tokens"] - usages["state_first"]["input_tokens"]
    assert more > 5 * (state - 10)
    assert usages["schema_first"]["x_state_tokens"] == 0


def test_a_prior_over_an_empty_state_is_refused() -> None:
    from reflex.readouts.continuation import Config

    with pytest.raises(ConfigError, match=r"not with readout\.continuation\.score=prior"):
        model_of("llama", "continuation", continuation=Config(score="prior"))


# -- training --------------------------------------------------------------------------------------


def test_a_share_of_the_rows_is_trained_schema_first() -> None:
    data = [replace(row, id=f"row {i}") for i, row in enumerate(rows(6) * 20)]
    drawn = [layout_of(row, 0.5) for row in data]
    assert 40 < drawn.count("schema_first") < 80
    assert {layout_of(row, 0.0) for row in data} == {"state_first"}
    assert {layout_of(row, None) for row in data} == {None}


def test_one_training_serves_both_layouts_where_it_gives_the_rows_their_own() -> None:
    words = [
        "backbone=tiny_llama",
        "prompt=short",
        "readout=pointer",
        "mixture=embedded",
        "train=lora",
    ]
    words += ["task=train"]

    def trains(*more: str) -> Any:
        return as_trained(compose([*words, *more]))

    for share in ("0", "0.5"):
        first, other = (
            trains(f"train.schema_first={share}", f"prompt.layout={layout}")
            for layout in ("state_first", "schema_first")
        )
        assert first == other
    assert trains("prompt.layout=schema_first") != trains()  # here the layout is what is trained


def test_mixed_layouts_train_as_each_alone() -> None:
    """One model prepares both layouts; scores are those of a model configured for that layout."""
    model = model_of("llama", "pointer", "state_first")
    other = model_of("llama", "pointer")
    config = TrainConfig(schema_first=1.0)
    data = rows(2)
    mixed = prepare_rows(model, data, config) + prepare_rows(model, data)
    for parameter in model.heads.parameters():
        parameter.requires_grad_(True)
    model.backbone.model.requires_grad_(True)  # tree rows, the path that gradients take
    found = flat(model(mixed))
    with torch.inference_mode():
        wanted = flat(other(prepare_rows(other, data)))
    for a, b in zip(found[: len(wanted)], wanted, strict=True):
        assert torch.allclose(a, b, atol=1e-4)


def test_a_sliced_request_counts_what_it_reads() -> None:
    from reflex.serving.slices import cut

    model = model_of("llama", "label_tokens")
    request = requests()[1]
    whole = model.prepare(request).unique_tokens
    slices = cut(model, request, slice_tokens=1, max_tokens=whole)
    assert len(slices) == 3
    assert sum(each.tokens + each.state_tokens for each in slices) == whole
