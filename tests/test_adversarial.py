"""Fifty hostile texts in every place of a request: the compiled tree keeps its shape, whatever they say.

tests/test_serving_adversarial.py sends them over HTTP; here styles, readouts and a real tokenizer are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest

from reflex.contract import option_keys, parse_request
from reflex.decider import Decider
from reflex.forward.tree import Segment
from reflex.model import Prepared
from reflex.prompts.pieces import Piece
from tests.harmless import spelling_of_pieces
from tests.serving import tiny_decider
from tests.test_serving_adversarial import ATTACKS

SETUPS = {
    "letters": ["orders=four"],
    "compact": ["prompt=compact", "orders=two"],
    "plain": ["prompt=plain", "orders=two"],
    "pointer": ["readout=pointer"],
    "yesno": ["readout=yesno", "orders=two"],
}
NEIGHBOUR = {
    "type": "choice",
    "instructions": "Which team should handle this?",
    "criteria": {"billing": "money", "technical": None, "sales": "plans"},
}


@cache
def decider(setup: str) -> Decider:
    return tiny_decider(*SETUPS[setup], backbone="tiny_qwen3")


def request(text: str, state: Any = "a calm state") -> dict[str, Any]:
    """A request that holds `text` wherever a caller can write, beside a question that does not."""
    return {
        "state": state,
        "questions": {
            "before": NEIGHBOUR,
            text or "empty": {
                "type": "choice",
                "instructions": text,
                "criteria": {text: None, "other": text, "third": {"why": [text]}},
            },
            "noul": {
                "type": "noul",
                "instructions": text or "?",
                "criteria": {"true": text, "false": None},
            },
            "score": {
                "type": "score",
                "instructions": {"q": text},
                "criteria": ["low", text, [text]],
            },
            "after": NEIGHBOUR,
        },
    }


def control_ids(model: Decider) -> frozenset[int]:
    return frozenset(model.model.backbone.tokenizer.get_added_vocab().values())


def shape(model: Decider, prepared: Prepared) -> list[Any]:
    """What no text may change: the tree's edges, reads and control tokens, branch by branch."""
    control = control_ids(model)

    def of(segment: Segment) -> tuple[int, int, int]:
        return segment.parent, len(segment.reads), sum(token in control for token in segment.ids)

    return [
        sum(token in control for token in prepared.tree.prefix),
        [of(segment) for segment in prepared.tree.segments],
        [(len(asked.branches), asked.spans) for asked in prepared.asked],
    ]


def segments_of(prepared: Prepared, question_id: str) -> list[tuple[int, ...]]:
    """Token ids of the segments of a question, in order."""
    place, found = 0, []
    ends = prepared.tree.segments
    for asked in prepared.asked:
        taken: list[tuple[int, ...]] = []
        size = 0
        while size < asked.tokens:
            taken.append(ends[place].ids)
            size += len(ends[place].ids)
            place += 1
        if asked.question_id == question_id:
            found = taken
    assert found
    return found


@cache
def harmless(model: Decider) -> Callable[[Iterable[Piece]], list[int]]:
    return spelling_of_pieces(model.model.backbone.tokenizer)


def check_spelling(model: Decider, prepared: Prepared, state: Any) -> list[str]:
    """Every token id is that of the same text in an encoding that cannot recognise a control token; returns
    the template's own pieces, which alone may hold some."""
    backbone, style = model.model.backbone, model.model.style
    prefix = style.prefix(backbone.tokens.template, state)
    texts = [t for asked in prepared.asked for b in asked.branches for t in (b.text, *b.options)]
    found = [prepared.tree.prefix, *(segment.ids for segment in prepared.tree.segments)]
    for pieces, ids in zip((prefix, *texts), found, strict=True):
        assert list(ids) == harmless(model)(pieces), pieces
    return [piece.text for pieces in (prefix, *texts) for piece in pieces if piece.control]


def prepare(setup: str, body: dict[str, Any]) -> Prepared:
    return decider(setup).model.prepare(parse_request(body))


@pytest.mark.parametrize("setup", SETUPS)
def test_no_text_changes_the_number_or_the_isolation_of_branches(setup: str) -> None:
    assert len(set(ATTACKS)) >= 50
    model = decider(setup)
    calm = prepare(setup, request("calm"))
    expected = shape(model, calm)
    alone = segments_of(calm, "before"), segments_of(calm, "after")
    control = check_spelling(model, calm, "a calm state")
    for attack in ATTACKS:
        hit = prepare(setup, request(attack))
        assert shape(model, hit) == expected, attack
        assert check_spelling(model, hit, "a calm state") == control, attack
        # Nothing a question says reaches the state or another question.
        assert hit.tree.prefix == calm.tree.prefix, attack
        assert (segments_of(hit, "before"), segments_of(hit, "after")) == alone, attack


@pytest.mark.parametrize("setup", SETUPS)
def test_no_state_changes_what_is_asked(setup: str) -> None:
    model = decider(setup)
    calm = prepare(setup, request("calm"))
    control = check_spelling(model, calm, "a calm state")
    for attack in ATTACKS:
        for state in (attack, {attack: [attack]}):
            hit = prepare(setup, request("calm", state))
            assert shape(model, hit) == shape(model, calm), attack
            assert check_spelling(model, hit, state) == control, attack
            assert hit.tree.segments == calm.tree.segments, attack


@pytest.mark.parametrize("setup", ["letters", "pointer"])
def test_answers_stay_inside_the_options_and_neighbours_do_not_move(setup: str) -> None:
    model = decider(setup)
    bodies = [parse_request(request(attack)) for attack in ATTACKS]
    calm = model.decide([parse_request({**request("x"), "questions": {"before": NEIGHBOUR}})])
    wanted = calm[0]["before"].probabilities
    for i in range(0, len(bodies), 10):
        part = bodies[i : i + 10]
        for body, decisions in zip(part, model.decide(part), strict=True):
            assert list(decisions) == list(body.questions)
            assert decisions["before"].probabilities == pytest.approx(wanted, abs=1e-5)
            for question_id, question in body.questions.items():
                decision = decisions[question_id]
                assert decision.keys == option_keys(question)
                assert all(set(keys) == set(decision.keys) for keys in decision.order_keys)
                assert sum(decision.probabilities) == pytest.approx(1, abs=1e-9)
                assert min(decision.probabilities) >= 0


@pytest.mark.asset
@pytest.mark.real
def test_a_real_tokenizer_is_not_fooled_either() -> None:
    from reflex.build import build_decider
    from reflex.loading import compose

    model = build_decider(compose(["backbone=smollm2_135m", "device.dtype=float32", "orders=two"]))
    calm = model.model.prepare(parse_request(request("calm")))
    control = check_spelling(model, calm, "a calm state")
    for attack in ATTACKS:
        hit = model.model.prepare(parse_request(request(attack)))
        assert shape(model, hit) == shape(model, calm), attack
        assert check_spelling(model, hit, "a calm state") == control, attack
        assert hit.tree.prefix == calm.tree.prefix, attack
        assert segments_of(hit, "after") == segments_of(calm, "after"), attack
