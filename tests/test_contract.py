"""The wire contract: what parses, what is refused with which path, and every confidence formula."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflex.contract import (
    Choice,
    Noul,
    Score,
    build_answer,
    choice_confidence,
    option_keys,
    parse_question,
    parse_request,
    score_confidence,
)
from reflex.errors import RequestError

distributions = st.lists(st.floats(0, 1), min_size=2, max_size=255).filter(lambda p: sum(p) > 1e-6)


def normalised(weights: list[float]) -> list[float]:
    return [w / sum(weights) for w in weights]


def test_option_keys_follow_the_caller() -> None:
    assert option_keys(Choice(criteria={"b": None, "a": "x"})) == ("b", "a")
    assert option_keys(Score(criteria=["low", "mid", "high"])) == ("0", "1", "2")
    assert option_keys(Noul(instructions="?")) == ("true", "false")


@pytest.mark.parametrize(
    ("raw", "loc"),
    [
        ({"questions": {"q": {"type": "noul", "instructions": "?"}}}, ("body", "state")),
        (
            {"state": None, "questions": {"q": {"type": "noul", "instructions": "?"}}},
            ("body", "state"),
        ),
        (
            {"state": 3, "questions": {"q": {"type": "noul", "instructions": "?"}}},
            ("body", "state"),
        ),
        ({"state": "", "questions": {}}, ("body", "questions")),
        ({"state": "", "questions": {"q": {"type": "noul"}}}, ("body", "questions", "q")),
        (
            {"state": "", "questions": {"q": {"type": "choice"}}},
            ("body", "questions", "q", "criteria"),
        ),
        (
            {"state": "", "questions": {"choice": {"type": "choice", "criteria": {"str": 5}}}},
            ("body", "questions", "choice", "criteria", "str"),
        ),
        (
            {"state": "", "questions": {"q": {"type": "choice", "criteria": {}}}},
            ("body", "questions", "q", "criteria"),
        ),
        (
            {"state": "", "questions": {"q": {"type": "score", "criteria": ["a", None]}}},
            ("body", "questions", "q", "criteria", 1),
        ),
        (
            {"state": "", "questions": {"q": {"type": "score", "criteria": {"a": "b"}}}},
            ("body", "questions", "q", "criteria"),
        ),
        (
            {"state": "", "questions": {"q": {"type": "box", "instructions": "?"}}},
            ("body", "questions", "q"),
        ),
        (
            {"state": "", "questions": {"q": {"type": "noul", "instructions": "?", "x": 1}}},
            ("body", "questions", "q", "x"),
        ),
        (
            {
                "state": "",
                "questions": {"q": {"type": "noul", "instructions": "?"}},
                "permutations": 0,
            },
            ("body", "permutations"),
        ),
        (
            {
                "state": "",
                "questions": {"q": {"type": "noul", "instructions": "?"}},
                "permutations": 9,
            },
            ("body", "permutations"),
        ),
        (
            {
                "state": "",
                "questions": {"q": {"type": "noul", "instructions": "?"}},
                "permutations": "2",
            },
            ("body", "permutations"),
        ),
        (
            {
                "state": "",
                "questions": {"q": {"type": "noul", "instructions": "?"}},
                "assets": {},
            },
            ("body", "assets"),
        ),
        ([], ("body",)),
    ],
)
def test_what_is_refused_names_its_path(raw: Any, loc: tuple[str | int, ...]) -> None:
    with pytest.raises(RequestError) as caught:
        parse_request(raw)
    assert caught.value.loc == loc
    assert str(caught.value) == f"{'.'.join(map(str, loc))}: {caught.value.message}"
    assert "\n" not in str(caught.value)


def test_unknown_top_level_fields_are_ignored_and_odd_ids_kept() -> None:
    request = parse_request(
        {"state": {}, "questions": {"a. b ☃": {"type": "noul", "instructions": "?"}}, "user": 1}
    )
    assert list(request.questions) == ["a. b ☃"]
    assert request.model == "jev-latest"
    assert request.permutations is None


def test_structured_instructions_and_criteria() -> None:
    question = parse_question(
        {"type": "choice", "instructions": {"do": ["x"]}, "criteria": {"a": {"k": 1}}}
    )
    assert question.instructions == {"do": ["x"]}


def test_confidence_of_known_distributions() -> None:
    assert choice_confidence([0.5, 0.25, 0.25]) == pytest.approx(0.25)
    assert choice_confidence([1.0]) == 1.0
    assert choice_confidence([0.25] * 4) == 0.0
    assert choice_confidence([1.0, 0.0]) == 1.0
    assert score_confidence([0.0, 0.0, 1.0]) == 1.0
    # mode 2; sum p|i-2| = .1*2 + .2 = .4; D = (1 + 0 + 1) / 3
    assert score_confidence([0.1, 0.2, 0.7]) == pytest.approx(1 - 0.4 / (2 / 3))
    assert score_confidence([1.0]) == 1.0
    assert score_confidence([0.5, 0.0, 0.0, 0.5]) == 0.0


@given(distributions)
def test_confidence_is_a_share(weights: list[float]) -> None:
    p = normalised(weights)
    assert 0 <= choice_confidence(p) <= 1
    assert 0 <= score_confidence(p) <= 1


@given(distributions)
def test_choice_answers_keep_keys_and_sum_to_one(weights: list[float]) -> None:
    keys = [f"option {i}" for i in range(len(weights))]
    question = Choice(criteria=dict.fromkeys(keys))
    answer = build_answer(question, dict(zip(keys, normalised(weights), strict=True)))
    dumped = answer.model_dump()
    assert list(dumped["probabilities"]) == keys
    assert math.fsum(dumped["probabilities"].values()) == pytest.approx(1, abs=1e-9)
    assert dumped["probabilities"][dumped["choice"]] == max(dumped["probabilities"].values())


def test_score_answer_echoes_the_levels() -> None:
    levels: list[Any] = ["low", {"name": "mid"}, ["high"]]
    answer = build_answer(Score(criteria=levels), {"0": 0.2, "1": 0.3, "2": 0.5})
    dumped = answer.model_dump()
    assert dumped["legend"] == {"0": "low", "1": {"name": "mid"}, "2": ["high"]}
    assert dumped["score"] == pytest.approx(1.3)


def test_noul_answer_has_no_other_field() -> None:
    answer = build_answer(Noul(instructions="?"), {"true": 0.7, "false": 0.3})
    assert answer.model_dump() == {"type": "noul", "noul": 0.7}
