"""Readouts against plain transformers arithmetic, on tiny random backbones in float32."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from reflex.backbones.backbone import Backbone, load_backbone
from reflex.backbones.config import BackboneConfig, DeviceConfig
from reflex.calibration.none import NoCalibration
from reflex.config import readout_config
from reflex.contract import Request, parse_request
from reflex.decider import Decider
from reflex.errors import ConfigError, ReadoutError, RequestError
from reflex.forward.config import ForwardConfig
from reflex.model import DecisionModel
from reflex.prompts.orders import OrdersConfig
from reflex.prompts.pieces import Piece
from reflex.prompts.styles.chat import ChatStyle
from reflex.prompts.styles.compact import CompactStyle
from reflex.prompts.styles.plain import PlainStyle
from reflex.readouts.rating import EXPAND

FAMILIES = ("llama", "qwen3", "qwen3_5")


@cache
def backbone(family: str = "llama") -> Backbone:
    return load_backbone(
        BackboneConfig(name=family, source="random", path=family), DeviceConfig(dtype="float32")
    )


def decider(
    family: str = "llama",
    *,
    style: ChatStyle | None = None,
    orders: OrdersConfig | None = None,
    strategy: str = "auto",
    **readout: Any,
) -> Decider:
    chosen = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(readout_config()), readout))
    model = DecisionModel(
        backbone(family),
        style or ChatStyle(),
        orders or OrdersConfig(),
        chosen,
        ForwardConfig(strategy=strategy),
    )
    return Decider(model, NoCalibration(), family)


def ask(state: Any, permutations: int | None = None, **questions: dict) -> Request:
    return parse_request({"state": state, "questions": questions, "permutations": permutations})


CITY: dict[str, Any] = {
    "type": "choice",
    "instructions": "Which city?",
    "criteria": {"New York": "in the east", "Rome": None, "Los Angeles": "in the west", "a": None},
}
IS_IT = {"type": "noul", "instructions": "Is it raining?", "criteria": {"true": "drops fall"}}
LEVEL = {"type": "score", "criteria": ["dry", "damp", "wet through"]}


def next_logits(model: DecisionModel, ids: tuple[int, ...]) -> torch.Tensor:
    with torch.inference_mode():
        return model.backbone.model(input_ids=torch.tensor([ids])).logits[0].float()


# -- continuation ---------------------------------------------------------------------------------


def summed_losses(model: DecisionModel, prompt: tuple[int, ...], options: list[tuple[int, ...]]):
    """Σ log p of each option from transformers' own loss: one row per option, labels on its tokens."""
    found = []
    for option in options:
        row = torch.tensor([prompt + option])
        labels = torch.tensor([[-100] * len(prompt) + list(option)])
        with torch.inference_mode():
            loss = model.backbone.model(input_ids=row, labels=labels).loss
        found.append(-float(loss) * len(option))
    return torch.tensor(found)


@pytest.mark.parametrize(
    ("family", "style"), [*((f, ChatStyle()) for f in FAMILIES), ("llama", PlainStyle())]
)
def test_continuation_is_the_models_own_loss(family: str, style: ChatStyle) -> None:
    request, names = ask("It rained in the north.", q=CITY), tuple(CITY["criteria"])
    got = {
        score: decider(family, style=style, choice="continuation", continuation={"score": score})
        for score in ("sum", "mean", "prior")
    }
    model = got["sum"].model
    encode, prefix = (
        model.backbone.tokens.encode,
        style.label_prefix(model.backbone.tokens.template),
    )
    options = [encode([Piece(prefix + name)]) for name in names]
    assert max(map(len, options)) > 3
    asked = model.prepare(request)
    question = encode(asked.asked[0].branches[0].text)
    total = summed_losses(model, asked.tree.prefix + question, options)
    nothing = model.prepare(ask("N/A", q=CITY)).tree.prefix
    expected = {
        "sum": total,
        "mean": total / torch.tensor([len(option) for option in options]),
        "prior": total - summed_losses(model, nothing + question, options),
    }
    for score, answering in got.items():
        decision = answering.decide([request])[0]["q"]
        assert decision.order_keys == (names,)
        assert torch.tensor(decision.scores[0]) == pytest.approx(expected[score], abs=2e-4)


@pytest.mark.parametrize("strategy", ["packed", "batched", "flat", "auto"])
def test_continuation_is_the_same_in_every_strategy(strategy: str) -> None:
    requests = [ask("x " * n, q=CITY, n=IS_IT, s=LEVEL) for n in (2, 40)]
    kinds: dict[str, Any] = {
        "choice": "continuation",
        "noul": "continuation",
        "score": "continuation",
    }
    plain = decider(strategy="flat", **kinds)
    other = decider(strategy=strategy, **kinds)
    one_by_one = [plain.decide([request])[0] for request in requests]
    for alone, together in zip(one_by_one, other.decide(requests), strict=True):
        for name in alone:
            assert together[name].scores[0] == pytest.approx(alone[name].scores[0], abs=1e-4)


def test_continuation_does_not_move_when_options_are_reordered() -> None:
    answering = decider(choice="continuation", continuation={"score": "prior"})
    shuffled = {**CITY, "criteria": dict(reversed(CITY["criteria"].items()))}
    here, there = (answering.decide([ask("rain", 4, q=each)])[0]["q"] for each in (CITY, shuffled))
    assert len(here.order_keys) == 1  # further orders would ask the same tokens again
    first, other = (dict(zip(d.order_keys[0], d.scores[0], strict=True)) for d in (here, there))
    assert first == other  # to the last bit: the model saw the very same tokens
    assert here.order_keys[0] != there.order_keys[0]


def test_what_a_readout_asks_besides_keeps_the_limits_of_the_forward() -> None:
    limits = ForwardConfig(
        strategy="batched", max_tokens=96, max_mask=4096, reuse_tokens=9, state_cache_mb=128
    )
    readouts = {
        "choice": "continuation",
        "noul": "candidates",
        "continuation": {"score": "prior"},
        "candidates": {"width": 16, "heads": 2},
    }
    for config, strategies in ((limits, {"batched", "flat"}), (ForwardConfig(), None)):
        chosen = OmegaConf.merge(OmegaConf.structured(readout_config()), readouts)
        model = DecisionModel(
            backbone("llama"), ChatStyle(), OrdersConfig(), OmegaConf.to_object(chosen), config
        )
        with torch.inference_mode():
            found = model([ask("x", q=CITY, n=IS_IT)])
        assert strategies is None or set(found.strategies) <= strategies
        built: Any = model.built
        own = replace(config, state_cache_mb=0)
        assert built["candidates"].engine.config == own
        own = replace(config, strategy="auto", reuse_tokens=0, state_cache_mb=64)
        assert built["continuation"]._engine.config == own
    assert own == ForwardConfig(state_cache_mb=64)  # as every recorded run was asked


def test_continuation_lists_options_when_asked_to() -> None:
    answering = decider(choice="continuation", continuation={"listed": True, "text": "full"})
    got = answering.model.prepare(ask("rain", 2, q=CITY)).asked[0].branches
    assert len(got) == 2
    assert "New York: in the east" in got[0].text[0].text
    assert got[0].options[0][0].text == "New York: in the east"
    assert got[1].keys != got[0].keys
    assert {*got[1].keys} == {*got[0].keys}


def test_continuation_texts_of_the_other_types_and_empty_ones() -> None:
    answering = decider(noul="continuation", score="continuation", choice="continuation")
    compiled = answering.model.prepare(ask("rain", n=IS_IT, s=LEVEL))
    texts = [[option[0].text for option in asked.branches[0].options] for asked in compiled.asked]
    assert texts[0] == ["yes: drops fall", "no"]
    assert texts[1][2] == "(level 2 of 2) wet through"
    empty = {"type": "choice", "instructions": "?", "criteria": {"": None, "b": None}}
    with pytest.raises(RequestError, match=r"^body\.questions\.q\.criteria: option '' has no text"):
        answering.model.prepare(ask("rain", q=empty))
    with pytest.raises(ConfigError, match=r"readout\.continuation\.score=median"):
        decider(choice="continuation", continuation={"score": "median"})


# -- yes/no readouts ------------------------------------------------------------------------------


@pytest.mark.parametrize("style", [ChatStyle(), CompactStyle(), PlainStyle()])
def test_rating_reads_nine_digits_for_two_outcomes(style: ChatStyle) -> None:
    answering = decider(style=style, noul="rating")
    model = answering.model
    request = ask("It rained.", q=IS_IT, other={**IS_IT, "instructions": "Is it dry?"})
    got = answering.decide([request])[0]["q"]
    assert got.readout == "rating"
    assert got.order_keys == (tuple("012345678"),)
    compiled = model.prepare(request)
    ids = compiled.tree.prefix + compiled.tree.segments[0].ids
    prefix = style.label_prefix(model.backbone.tokens.template)
    digits = [model.backbone.tokens.label_id(prefix + digit) for digit in "012345678"]
    logits = next_logits(model, ids)[-1][digits]
    assert torch.tensor(got.scores[0]) == pytest.approx(logits, abs=1e-4)
    p = logits.double().softmax(-1).numpy()
    yes = float(p @ (np.arange(9) / 8))
    assert got.probabilities == pytest.approx((yes, 1 - yes), abs=1e-5)
    assert answering.answer(request).answers["q"].noul == got.probabilities[0]  # type: ignore[union-attr]
    assert EXPAND["0"] == {"true": 0.0, "false": 1.0}
    assert EXPAND["8"] == {"true": 1.0, "false": 0.0}


def test_rating_has_one_order_and_an_expand_matrix() -> None:
    answering = decider(noul="rating", orders=OrdersConfig(permutations=2))
    got = answering.decide([ask("It rained.", q=IS_IT)])[0]["q"]
    assert len(got.order_keys) == 1
    scores = answering.model([ask("It rained.", q=IS_IT)]).scores[0]["q"]
    assert scores.expand is not None
    assert np.array(scores.expand).sum(axis=1) == pytest.approx(np.ones(9))


def test_yesno_reads_the_words() -> None:
    answering = decider(noul="yesno")
    model = answering.model
    request = ask("It rained.", q=IS_IT)
    got = answering.decide([request])[0]["q"]
    compiled = model.prepare(request)
    ids = compiled.tree.prefix + compiled.tree.segments[0].ids
    words = [model.backbone.tokens.label_id(word) for word in ("yes", "no")]
    logits = next_logits(model, ids)[-1][words]
    assert torch.tensor(got.scores[0]) == pytest.approx(logits, abs=1e-4)
    assert got.keys == ("true", "false")
    assert "yes: drops fall\nno\n" in compiled.asked[0].branches[0].text[0].text


def test_yesno_adds_up_spellings() -> None:
    answering = decider(noul="yesno", yesno={"yes": ["yes", "Y"], "no": ["no", "N"]})
    request = ask("It rained.", q={"type": "noul", "instructions": "Is it raining?"})
    compiled = answering.model.prepare(request)
    logits = next_logits(answering.model, compiled.tree.prefix + compiled.tree.segments[0].ids)[-1]
    label = answering.model.backbone.tokens.label_id
    expected = [
        float(torch.logsumexp(logits[[label(a), label(b)]], 0))
        for a, b in (("yes", "Y"), ("no", "N"))
    ]
    got = answering.decide([request])[0]["q"]
    assert got.scores[0] == pytest.approx(expected, abs=1e-4)


def test_letters_is_the_lettered_pair() -> None:
    request = ask("It rained.", q=IS_IT)
    letters = decider(noul="letters").decide([request])[0]["q"]
    labels = decider(noul="label_tokens").decide([request])[0]["q"]
    assert letters.scores == labels.scores
    assert letters.probabilities == labels.probabilities
    assert letters.readout == "letters"


@pytest.mark.parametrize("name", ["rating", "yesno"])
def test_readouts_for_yes_and_no_refuse_other_types(name: str) -> None:
    with pytest.raises(ReadoutError, match=f"readout.choice={name}"):
        decider(choice=name).model.prepare(ask("x", q=CITY))


def test_words_that_are_not_one_token_are_refused_at_start() -> None:
    with pytest.raises(ReadoutError, match=r"readout\.yesno\.yes"):
        decider(noul="yesno", yesno={"yes": ["certainly"], "no": ["never"]})
    with pytest.raises(ConfigError, match="give pairs"):
        decider(noul="yesno", yesno={"yes": ["yes"], "no": []})
    with pytest.raises(ConfigError, match="readout=nonsense"):
        decider(noul="nonsense")


def test_each_type_has_its_own_readout() -> None:
    got = decider(noul="rating", choice="continuation").decide(
        [ask("x", q=CITY, n=IS_IT, s=LEVEL)]
    )[0]
    assert {name: d.readout for name, d in got.items()} == {
        "q": "continuation",
        "n": "rating",
        "s": "label_tokens",
    }


# -- many options ---------------------------------------------------------------------------------


def many(n: int) -> dict:
    return {
        "type": "choice",
        "instructions": "Which?",
        "criteria": {f"option {i}": None for i in range(n)},
    }


@pytest.mark.parametrize("n", [2, 26, 27, 53])
def test_pages_share_one_softmax_over_the_vocabulary(n: int) -> None:
    answering = decider(label_tokens={"overflow": "pages"}, orders=OrdersConfig(permutations=2))
    model = answering.model
    request = ask("x", q=many(n))
    got = answering.decide([request])[0]["q"]
    compiled = model.prepare(request)
    branches = compiled.asked[0].branches
    pages = -(-n // 26)
    assert len(branches) == 2 * pages
    assert max(len(b.keys) for b in branches) - min(len(b.keys) for b in branches) <= 1
    for order in range(2):
        expected: list[float] = []
        for branch in (b for b in branches if b.order == order):
            ids = compiled.tree.prefix + model.backbone.tokens.encode(branch.text)
            logits = next_logits(model, ids)[-1]
            if pages > 1:
                logits = logits.log_softmax(-1)
            labels = [model.backbone.tokens.label_id(label) for label in branch.labels]
            expected += logits[labels].tolist()
        assert got.scores[order] == pytest.approx(expected, abs=1e-4)
        assert sorted(got.order_keys[order]) == sorted(got.keys)
    assert sum(got.probabilities) == pytest.approx(1, abs=1e-9)


def test_a_paged_neighbour_changes_no_score() -> None:
    """Two requests may use the same question id; whether one is paged is nothing to the other."""
    answering = decider()
    alone = answering.decide([ask("x", q=CITY)])[0]["q"]
    together = answering.decide([ask("y", q=many(30)), ask("x", q=CITY)])[1]["q"]
    assert together.scores[0] == pytest.approx(alone.scores[0], abs=1e-4)


def test_codes_are_the_single_token_ones() -> None:
    answering = decider(label_tokens={"overflow": "codes"})
    compiled = answering.model.prepare(ask("x", q=many(50)))
    (branch,) = compiled.asked[0].branches
    assert branch.labels[:3] == ("A", "B", "C")
    assert branch.labels[25:28] == ("Z", "AA", "AB")
    assert len(set(branch.labels)) == 50
    assert "AA. option 26\n" in branch.text[0].text
    # With few options letters are used, so a question is not phrased differently by the setting.
    assert answering.model.prepare(ask("x", q=CITY)).asked[0].branches[0].labels == tuple("ABCD")
    with pytest.raises(ReadoutError, match=r"60 options.*labels for 52; use overflow=pages"):
        answering.model.prepare(ask("x", q=many(60)))


def test_codes_can_fall_back_to_pages_and_refuse_refuses() -> None:
    paged = decider(label_tokens={"labels": "codes", "overflow": "pages"})
    branches = paged.model.prepare(ask("x", q=many(60))).asked[0].branches
    assert [len(branch.keys) for branch in branches] == [30, 30]
    assert "Options 31 to 60 of 60" in branches[1].text[0].text
    refusing = decider(label_tokens={"overflow": "refuse"})
    assert len(refusing.model.prepare(ask("x", q=many(26))).asked[0].branches) == 1
    with pytest.raises(ReadoutError, match=r"27 options.*overflow=refuse has labels for 26"):
        refusing.model.prepare(ask("x", q=many(27)))
    with pytest.raises(ConfigError, match=r"overflow=page:"):
        decider(label_tokens={"overflow": "page"})


@pytest.mark.parametrize("style", [CompactStyle(), PlainStyle()])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_style_agrees_with_a_plain_forward(style: ChatStyle, family: str) -> None:
    answering = decider(family, style=style, orders=OrdersConfig(kind="cyclic"))
    model = answering.model
    request = ask({"a": [1, "two"]}, q=CITY, n=IS_IT, s=LEVEL)
    compiled = model.prepare(request)
    got = answering.decide([request])[0]
    for asked in compiled.asked:
        assert len(asked.branches) == len(got[asked.question_id].keys)  # all rotations
        for branch, scores in zip(asked.branches, got[asked.question_id].scores, strict=True):
            ids = compiled.tree.prefix + model.backbone.tokens.encode(branch.text)
            labels = [asked.readout.ids[label] for label in branch.labels]  # type: ignore[attr-defined]
            assert scores == pytest.approx(next_logits(model, ids)[-1][labels].tolist(), abs=1e-4)


# -- wordings -------------------------------------------------------------------------------------


def test_wordings_are_read_over_one_state_and_averaged() -> None:
    wordings = [{"label_ask": "Letter?"}, {"question_heading": "# Criterion"}]
    style = ChatStyle(wordings=wordings)
    orders = OrdersConfig(permutations=2)
    ensemble = decider(style=style, orders=orders)
    request = ask("It rained.", q=CITY, n=IS_IT)
    got = ensemble.decide([request])[0]
    alone = [
        decider(style=ChatStyle(texts=texts), orders=orders).decide([request])[0]
        for texts in ({}, *wordings)
    ]
    for name in ("q", "n"):
        decision = got[name]
        assert decision.wordings == 3
        assert len(decision.order_keys) == 6
        expected = [row for each in alone for row in each[name].order_probabilities]
        assert np.array(decision.order_probabilities) == pytest.approx(np.array(expected), abs=1e-5)
        means = np.array([each[name].probabilities for each in alone])
        assert decision.probabilities == pytest.approx(means.mean(axis=0), abs=1e-5)
        far = np.abs(means - means.mean(axis=0)).sum(axis=1).mean() / 2
        assert decision.wording_disagreement == pytest.approx(far, abs=1e-5)
        assert 0 < decision.wording_disagreement < 1
    answer = ensemble.answer(request).answers["q"]
    assert answer.x_wording_disagreement == got["q"].wording_disagreement  # type: ignore[union-attr]
    compiled = ensemble.model.prepare(request)
    assert compiled.tree.prefix == decider().model.prepare(request).tree.prefix


def test_wordings_reach_readouts_without_orders_and_with_pages() -> None:
    style = ChatStyle(wordings=[{"rating_ask": "Digit?", "page_note": "{first}-{last}/{n}"}])
    got = decider(style=style, noul="rating").decide([ask("x", n=IS_IT, q=many(30))])[0]
    assert got["n"].wordings == len(got["n"].order_keys) == 2
    assert [sorted(order) for order in got["q"].order_keys] == [sorted(got["q"].keys)] * 2
    assert got["q"].order_probabilities[0] != got["q"].order_probabilities[1]
