"""Every field of a request with every odd value: an answer that is a distribution, or a 4xx that says why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from reflex.errors import RequestError
from reflex.serving.config import ServeConfig
from reflex.serving.decisions import translate
from reflex.serving.requests import to_request
from tests.serving import CHOICE, NOUL, SCORE, serving, tiny_decider

ODD: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 10**30, float("inf"), float("nan")),
    *("", " ", "\0", "\ud800", "noul", "é\n", "<|im_start|>system\n</s>", "\u202e\u200d\U0001f3f3"),
    *([], [[]], [None], [1, 2], ["a", "a"], [{"label": "a"}], ["x"] * 300),
    *({}, {"": ""}, {"a": None}, {"a": {"b": [1]}}, {"type": "noul"}),
]
BASE = {"state": "A parcel is late.", "questions": {"q": NOUL, "c": CHOICE, "s": SCORE}}
RAW = [
    *(
        b"",
        b"null",
        b"{",
        b"\xff\xfe",
        b"[][]",
        b"[" * 5000,
        b'{"state": 1e999}',
        b'{"state": NaN}',
    ),
    b"\xef\xbb\xbf" + json.dumps(BASE).encode(),
    b'{"state": ' + b"[" * 500 + b"]" * 500 + b', "questions": {}}',
]
DECISION = {"model": "m", "input": "A parcel", "decision": {"type": "boolean"}}


def bodies() -> Iterator[tuple[str, Any]]:
    for odd in ODD:
        yield "/v1/systemone", odd
        for key in ("state", "questions", "model", "permutations", "assets", "metadata"):
            yield "/v1/systemone", {**BASE, key: odd}
        for kind in (NOUL, CHOICE, SCORE, {"type": "box", "instructions": "x"}):
            for key in ("type", "instructions", "criteria", "labels"):
                yield "/v1/systemone", {**BASE, "questions": {"q": {**kind, key: odd}}}
        for criteria in ({"a": odd, "b": None}, ["a", odd]):
            question = {**(CHOICE if isinstance(criteria, dict) else SCORE), "criteria": criteria}
            yield "/v1/systemone", {**BASE, "questions": {"q": question}}
        if isinstance(odd, str):
            question = {**CHOICE, "criteria": {odd: None, "b": None}}
            yield "/v1/systemone", {**BASE, "questions": {odd: question}}
        for key in ("model", "input", "decision", "instructions", "questions"):
            yield "/v1/decisions", {**DECISION, key: odd}


def problem(reply: httpx.Response) -> str | None:
    """What is wrong with a reply; None for what a client can use."""
    try:
        body = reply.json()
    except ValueError:
        return "not JSON"
    if reply.status_code >= 500 or "Traceback" in reply.text:
        return "a server fault"
    if reply.status_code >= 400:
        return None if body.get("detail") or body.get("error") else "says nothing"
    for answer in body.get("answers", {}).values():
        if answer["type"] == "noul":
            shares = [answer["noul"], 1 - answer["noul"]]
        else:
            shares = list(answer["probabilities"].values())
        if min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
            return f"no distribution: {shares}"
    return None


@pytest.mark.slow
def test_odd_values_anywhere_are_answered_or_refused() -> None:
    statuses: Counter[int] = Counter()
    wrong: list[str] = []
    headers = {"content-type": "application/json"}
    with serving(tiny_decider()) as url, httpx.Client(base_url=url, timeout=120) as client:
        sent = [(path, json.dumps(body).encode()) for path, body in bodies()]
        sent += [(path, raw) for raw in RAW for path in ("/v1/systemone", "/v1/decisions")]
        for path, data in sent:
            reply = client.post(path, content=data, headers=headers)
            statuses[reply.status_code] += 1
            if found := problem(reply):
                wrong.append(f"{path} {reply.status_code} {found}: {data[:120]!r}")
    assert wrong == []
    assert statuses[200] > 50
    assert statuses[422] > 300
    assert set(statuses) <= {200, 413, 422}


def test_an_error_about_the_translated_request_is_placed_in_the_callers() -> None:
    asked = [
        {"type": "predicate", "instructions": "?"},
        {"type": "score", "instructions": "?", "levels": [{"label": "low"}]},
        {"type": "choice", "instructions": "?", "choices": [{"value": ""}]},
    ]
    found = translate({"model": "m", "input": "x", "questions": asked}, ServeConfig(), "tiny")
    places = {0: "criteria", 1: "levels", 2: "choices"}
    for index, own in places.items():
        loc = ("body", "questions", found.ids[index], "criteria")
        error = found.placed(RequestError("no text", loc))
        assert error.loc == ("body", "questions", index, own)
        assert str(error) == f"body.questions.{index}.{own}: no text"
    other = RequestError("no", ("body", "input"))
    assert found.placed(other) is other


def test_both_doors_refuse_more_questions_than_the_server_takes() -> None:
    config = ServeConfig(max_questions=1)
    refusal = (
        r"body\.questions: 2 questions; this server takes 1 in one request \(serve\.max_questions\)"
    )
    with pytest.raises(RequestError, match=refusal) as caught:
        to_request({"state": "x", "questions": {"a": NOUL, "b": NOUL}}, config, "tiny")
    assert caught.value.loc == ("body", "questions")
    with pytest.raises(RequestError, match=refusal):
        translate({"input": "x", "questions": [{"type": "predicate"}] * 2}, config, "tiny")
