"""The wire contract, as its own checkers and clients see it."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import zstandard
from typesafe_sdk import (
    AsyncTypeSafeClient,
    Choice,
    Noul,
    Score,
    TypeSafeAuthenticationError,
    TypeSafeClient,
    TypeSafeUnprocessableEntityError,
)

from reflex.contract import choice_confidence, score_confidence
from reflex.decider import Decider
from reflex.errors import AuthenticationError, ConfigError, RequestError
from reflex.serving.auth import ENV, Keys
from reflex.serving.logs import JsonFormatter
from scripts.serve_process import numbers
from tests.serving import (
    CHOICE,
    NOUL,
    REQUEST,
    SCORE,
    TICKET,
    get,
    post,
    serving,
    tiny_decider,
)

KEY = "a-key-for-tests"


@pytest.fixture(scope="module")
def decider() -> Decider:
    return tiny_decider()


@pytest.fixture(scope="module")
def url(decider: Decider) -> Iterator[str]:
    with serving(decider) as base:
        yield base


@pytest.fixture(scope="module")
def locked(decider: Decider) -> Iterator[str]:
    with serving(decider, keys=["other", KEY], metrics_need_key=True) as base:
        yield base


def jevcompat(url: str, *arguments: str) -> str:
    program = str(Path(sys.executable).with_name("jevcompat"))
    done = subprocess.run(
        [program, "test", url, *arguments], capture_output=True, text=True, timeout=1700
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return done.stdout


def test_jevcompat_without_a_key(url: str) -> None:
    report = jevcompat(url)
    assert "MUST 32/32, SHOULD 12/12" in report


def test_jevcompat_with_a_key(locked: str) -> None:
    report = jevcompat(locked, "--key", KEY)
    assert "conformant" in report
    assert "MUST 32/32, SHOULD 14/14" in report
    assert "✗" not in report


# -- the official SDK ------------------------------------------------------------------------------

QUESTIONS: dict[str, Any] = {
    "refund": Noul(instructions=NOUL["instructions"]),
    "category": Choice(
        instructions="What is this ticket about?",
        criteria={"billing": None, "technical": None, "other": None},
    ),
    "anger": Score(instructions="How angry?", criteria=["calm", {"label": "angry"}]),
}


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_sdk_sync(url: str, compression: Any) -> None:
    if compression:
        pytest.importorskip("backports.zstd", reason="install typesafe-sdk[zstd]")
    state = {"document": "I was charged twice. Please fix this ASAP. " * 60}
    with TypeSafeClient(api_key="any", base_url=url, compression=compression) as client:
        response = client.system_one(state=state, questions=QUESTIONS)
        names = [model.name for model in client.models.list().models]
    assert response.choices["category"].choice in ("billing", "technical", "other")
    assert 0 <= response.nouls["refund"].noul <= 1
    assert response.scores["anger"].legend == {0: "calm", 1: {"label": "angry"}}
    assert response.request_id
    assert names == ["tiny_llama"]


def test_sdk_async(url: str) -> None:
    async def ask() -> Any:
        async with AsyncTypeSafeClient(api_key="any", base_url=url) as client:
            return await asyncio.gather(
                *(client.system_one(state=f"ticket {i}", questions=QUESTIONS) for i in range(8))
            )

    responses = asyncio.run(ask())
    assert len({response.nouls["refund"].noul for response in responses}) == 8


def test_sdk_sees_the_errors_it_knows(url: str, locked: str) -> None:
    with (
        TypeSafeClient(api_key="wrong", base_url=locked) as client,
        pytest.raises(TypeSafeAuthenticationError, match="not known"),
    ):
        client.system_one(state="x", questions=QUESTIONS)
    with (
        TypeSafeClient(api_key="any", base_url=url) as client,
        pytest.raises(TypeSafeUnprocessableEntityError, match="permutations"),
    ):
        client.system_one(state="x", questions=QUESTIONS, extra_body={"permutations": 99})


# -- the second door -------------------------------------------------------------------------------


def test_openai_client_gets_the_same_probabilities(url: str) -> None:
    client = openai.OpenAI(api_key="any", base_url=f"{url}/v1", max_retries=0)
    decision = client.decisions.create(
        model="gpt-6-luna",
        input=TICKET,
        questions=[
            {"type": "predicate", "instructions": NOUL["instructions"], "name": "refund"},
            {
                "type": "choice",
                "instructions": CHOICE["instructions"],
                "choices": [
                    {"value": "Billing", "description": "Payments, refunds"},
                    {"value": "Technical", "description": "Bugs"},
                    {"value": "Sales"},
                ],
            },
            {
                "type": "score",
                "instructions": SCORE["instructions"],
                "levels": [{"label": text} for text in SCORE["criteria"]],
            },
        ],
    )
    _, same, _ = post(url, REQUEST)
    predicate, choice, score = decision.answers
    assert predicate.type == "predicate"
    assert predicate.name == "refund"
    assert predicate.probability == pytest.approx(same["answers"]["refund"]["noul"], abs=1e-6)
    assert choice.type == "choice"
    assert [entry.value for entry in choice.probabilities] == ["Billing", "Technical", "Sales"]
    for entry in choice.probabilities:
        wanted = same["answers"]["team"]["probabilities"][entry.value]
        assert entry.probability == pytest.approx(wanted, abs=1e-6)
    assert score.type == "score"
    assert score.score == pytest.approx(same["answers"]["anger"]["score"], abs=1e-6)
    assert [entry.value for entry in score.probabilities] == [0, 1, 2]
    assert decision.usage.total_tokens == same["usage"]["input_tokens"]
    assert decision.usage.output_tokens == 0


def test_booleans_and_strings_of_the_same_text_are_different_choices(url: str) -> None:
    items: Any = [
        {"role": "developer", "content": "Judge the call."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Is it on?"},
                {"type": "input_json", "data": {"switch": "up"}},
            ],
        },
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "it is on"},
    ]
    client = openai.OpenAI(api_key="any", base_url=f"{url}/v1", max_retries=0)
    decision = client.decisions.create(
        model="gpt-6-luna",
        input=items,
        questions=[
            {
                "type": "choice",
                "instructions": "State of the switch?",
                "choices": [{"value": True}, {"value": "true"}, {"value": False}],
            }
        ],
    )
    (answer,) = decision.answers
    assert answer.type == "choice"
    assert [entry.value for entry in answer.probabilities] == [True, "true", False]
    assert [type(entry.value) for entry in answer.probabilities] == [bool, str, bool]
    assert sum(entry.probability for entry in answer.probabilities) == pytest.approx(1)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": "x", "questions": []}, "questions"),
        (
            {
                "input": [{"type": "function_call_output", "call_id": "c9", "output": "x"}],
                "questions": [{"type": "predicate", "instructions": "?"}],
            },
            "input.0.call_id",
        ),
        (
            {
                "input": "x",
                "questions": [
                    {
                        "type": "choice",
                        "instructions": "?",
                        "choices": [{"value": "a"}, {"value": "a"}],
                    }
                ],
            },
            "questions.0.choices",
        ),
        (
            {
                "input": [
                    {
                        "role": "user",
                        "content": [{"type": "input_image", "image_url": "data:image/png;base64,"}],
                    }
                ],
                "questions": [{"type": "predicate", "instructions": "?"}],
            },
            "input.0",
        ),
        (
            {
                "input": "x",
                "questions": [
                    {"type": "predicate", "instructions": "?"},
                    {
                        "type": "choice",
                        "instructions": "?",
                        "choices": [{"value": str(i)} for i in range(5000)],
                    },
                ],
            },
            "questions.1.choices",
        ),
        ({"input": "x", "questions": [{"type": "predicate"}]}, "questions.0.instructions"),
        (
            {"input": "x", "questions": [{"type": "predicate", "instructions": 5}]},
            "questions.0.instructions",
        ),
        (
            {
                "input": [{"role": "user"}],
                "questions": [{"type": "predicate", "instructions": "?"}],
            },
            "input.0.content",
        ),
    ],
)
def test_decisions_errors_have_the_shape_its_client_reads(url: str, body: Any, param: str) -> None:
    status, reply, _ = post(url, {"model": "m", **body}, "/v1/decisions")
    assert status == 422
    assert reply["error"]["param"] == param
    assert reply["error"]["type"] == "invalid_request_error"
    assert ".".join(map(str, reply["detail"][0]["loc"])) == f"body.{param}"
    assert reply["error"]["message"] == f"body.{param}: {reply['detail'][0]['msg']}"
    assert len(reply["error"]["message"]) < 200


# -- field by field --------------------------------------------------------------------------------


def test_http_equals_in_process(url: str, decider: Decider) -> None:
    fresh = tiny_decider()
    for permutations in (None, 1, 2, 4):
        request = {**REQUEST, "permutations": permutations} if permutations else REQUEST
        status, reply, headers = post(url, request)
        assert status == 200
        own = fresh.answer(request).model_dump()
        assert numbers(reply["answers"]) == pytest.approx(numbers(own["answers"]), abs=1e-5)
        assert reply["usage"]["input_tokens"] == own["usage"]["input_tokens"]
        assert reply["usage"]["output_tokens"] == 0
        assert headers["x-typesafe-request-id"]
        assert float(headers["x-reflex-latency-ms"]) > 0


def test_confidence_is_exact_and_nothing_is_rounded(url: str) -> None:
    many = {f"Option {i}": None for i in range(300)}
    status, reply, _ = post(
        url, {"state": TICKET, "questions": {"c": {"type": "choice", "criteria": many}, "s": SCORE}}
    )
    assert status == 200
    chosen, scored = reply["answers"]["c"], reply["answers"]["s"]
    values = list(chosen["probabilities"].values())
    assert list(chosen["probabilities"]) == list(many)
    assert abs(sum(values) - 1) < 1e-9
    assert chosen["confidence"] == pytest.approx(choice_confidence(values), abs=1e-12)
    levels = list(scored["probabilities"].values())
    assert scored["confidence"] == pytest.approx(score_confidence(levels), abs=1e-12)
    assert scored["legend"] == {str(i): text for i, text in enumerate(SCORE["criteria"])}


@pytest.mark.parametrize("model", ["jev-latest", "jev-1.13", "typesafe/jev-1.13", "nobody-knows"])
def test_any_alias_is_accepted_and_the_real_name_returned(url: str, model: str) -> None:
    status, reply, _ = post(url, {**REQUEST, "model": model})
    assert (status, reply["model"]) == (200, "tiny_llama")


def test_ids_move_nothing_in_any_number_of_orders(url: str) -> None:
    for permutations in (1, 3, 8):
        named = post(url, {**REQUEST, "permutations": permutations})[1]["answers"]
        renamed = {f"other {i}": q for i, q in enumerate(REQUEST["questions"].values())}
        again = {**REQUEST, "questions": renamed, "permutations": permutations}
        assert numbers(post(url, again)[1]["answers"]) == pytest.approx(numbers(named), abs=1e-6)


def test_hundreds_of_questions_are_answered_in_slices(url: str, decider: Decider) -> None:
    questions = {f"q{i}": {"type": "noul", "instructions": f"Is it about {i}?"} for i in range(300)}
    status, reply, _ = post(url, {"state": TICKET, "questions": questions})
    assert status == 200
    assert list(reply["answers"]) == list(questions)
    alone = decider.answer({"state": TICKET, "questions": {"q7": questions["q7"]}})
    assert reply["answers"]["q7"]["noul"] == pytest.approx(alone.answers["q7"].noul, abs=1e-5)  # type: ignore[union-attr]
    assert reply["usage"]["x_question_tokens"] > 20_000


@pytest.mark.parametrize("encode", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compressed_bodies(url: str, encode: Any) -> None:
    name = "gzip" if encode is gzip.compress else "zstd"
    status, reply, _ = post(url, encode(json.dumps(REQUEST).encode()), content_encoding=name)
    assert status == 200
    assert numbers(reply["answers"]) == pytest.approx(numbers(post(url, REQUEST)[1]["answers"]))


def image_request(**more: Any) -> dict[str, Any]:
    picture = {"type": "image", "format": "png", "data_base64": "aGk="}
    return {**REQUEST, "state": "see <image:0>", "assets": {"<image:0>": picture}, **more}


def multipart(body: Any) -> tuple[bytes, str]:
    part = b'--b\r\nContent-Disposition: form-data; name="request"\r\n'
    part += b"Content-Type: application/json\r\n\r\n" + json.dumps(body).encode() + b"\r\n"
    part += b'--b\r\nContent-Disposition: form-data; name="asset-0"; filename="a"\r\n'
    return (
        part + b"Content-Type: image/png\r\n\r\n\x89PNG\r\n--b--\r\n",
        "multipart/form-data; boundary=b",
    )


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "the backbone reads text only and cannot see images"),
        ({"assets": {}}, "must not be empty"),
    ],
)
def test_images_are_refused_at_every_door_in_the_same_words(
    url: str, decider: Decider, more: dict[str, Any], why: str
) -> None:
    status, reply, _ = post(url, image_request(**more))
    assert (status, reply["detail"][0]["loc"]) == (422, ["body", "assets"])
    told = reply["detail"][0]["msg"]
    assert told == f"{why}; leave `assets` out"
    with pytest.raises(RequestError) as caught:
        decider.answer(image_request(**more))
    assert str(caught.value) == f"body.assets: {told}"


def test_images_are_never_answered_blind(url: str) -> None:
    body, kind = multipart(
        image_request(assets={"<image:0>": {"type": "image", "part": "asset-0"}})
    )
    status, reply, _ = post(url, body, content_type=kind)
    assert (status, reply["detail"][0]["loc"]) == (422, ["body", "assets"])
    box = {**REQUEST, "questions": {"where": {"type": "box", "instructions": "Where?"}}}
    status, reply, _ = post(url, box)
    assert status == 422
    assert "box questions" in reply["detail"][0]["msg"]
    body, kind = multipart(REQUEST)
    assert post(url, body, content_type=kind)[0] == 200


@pytest.mark.parametrize(
    ("change", "loc"),
    [
        ({"state": None}, ["body", "state"]),
        ({"state": 3}, ["body", "state"]),
        ({"questions": {}}, ["body", "questions"]),
        ({"questions": {"": NOUL}}, ["body", "questions", ""]),
        ({"questions": {"q": {"type": "noul"}}}, ["body", "questions", "q"]),
        ({"questions": {"q": {**NOUL, "criterai": {}}}}, ["body", "questions", "q", "criterai"]),
        (
            {"questions": {"q": {**SCORE, "criteria": ["Calm", None]}}},
            ["body", "questions", "q", "criteria", 1],
        ),
        (
            {"questions": {"q": {**SCORE, "criteria": {"0": "a"}}}},
            ["body", "questions", "q", "criteria"],
        ),
        ({"assets": {}}, ["body", "assets"]),
        ({"permutations": 0}, ["body", "permutations"]),
        ({"permutations": 9}, ["body", "permutations"]),
        ({"permutations": "two"}, ["body", "permutations"]),
    ],
)
def test_what_is_wrong_is_named_by_its_path(url: str, change: Any, loc: list[str | int]) -> None:
    status, reply, _ = post(url, {**REQUEST, **change})
    assert status == 422
    (entry,) = reply["detail"]
    assert entry["loc"] == loc
    assert entry["msg"]
    assert "\n" not in entry["msg"]


def test_too_long_is_413_and_says_how_long(url: str) -> None:
    status, reply, _ = post(url, {**REQUEST, "state": "word " * 2000})
    assert status == 413
    assert reply["detail"]["error_type"] == "request_too_large"
    assert "4096 tokens" in reply["detail"]["message"]


def test_other_statuses_in_the_contract_shape(url: str, locked: str) -> None:
    assert get(url, "/v1/nothing")[:2] == (
        404,
        {"detail": {"error_type": "not_found", "message": "Not Found"}},
    )
    assert get(url, "/v1/systemone")[0] == 405
    assert get(url, "/v1/decisions")[:2] == (
        405,
        {
            "detail": {"error_type": "method_not_allowed", "message": "Method Not Allowed"},
            "error": {
                "message": "Method Not Allowed",
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            },
        },
    )
    status, reply, headers = post(locked, REQUEST)
    assert (status, reply["detail"]["error_type"]) == (401, "authentication_error")
    assert headers["www-authenticate"] == "Bearer"
    assert post(locked, REQUEST, authorization="Bearer nope")[0] == 401
    assert post(locked, REQUEST, authorization=f"Basic {KEY}")[0] == 401
    assert post(locked, REQUEST, authorization=f"bearer {KEY}")[0] == 200
    assert get(locked, "/v1/models")[0] == 401
    assert get(locked, "/metrics")[0] == 401
    assert get(locked, "/health")[0] == 200


def test_models_health_and_index(url: str) -> None:
    _, listed, headers = get(url, "/v1/models")
    (model,) = listed["models"]
    assert headers["x-typesafe-request-id"]
    assert set(model) == {"name", "description", "release_date"}
    health = get(url, "/health")[1]
    assert health["status"] == "ready"
    assert health["backbone"]["name"] == "tiny_llama"
    for key in (
        "adapter",
        "calibration",
        "prompt",
        "readout",
        "orders",
        "strategy",
        "device",
        "dtype",
    ):
        assert key in health
    assert "POST /v1/systemone" in get(url, "/")[1]["endpoints"]


def test_metrics_count_what_happened(url: str) -> None:
    post(url, REQUEST)
    post(url, {**REQUEST, "state": None})
    text = get(url, "/metrics")[1]
    assert 'reflex_requests_total{path="/v1/systemone",status="200"}' in text
    assert 'reflex_requests_total{path="/v1/systemone",status="422"}' in text
    for name in ("queue", "forward", "prepare", "respond", "read"):
        assert f'reflex_phase_seconds_count{{phase="{name}"}}' in text
    for name in ("batch_requests", "batch_tokens", "state_cache_lookups_total", "tokens_total"):
        assert f"reflex_{name}" in text
    assert "reflex_ready 1.0" in text


def test_cors_only_where_asked_for(url: str, decider: Decider) -> None:
    assert "access-control-allow-origin" not in get(url, "/health", origin="http://a.example")[2]
    with serving(decider, cors_origins=["http://a.example"]) as base:
        headers = get(base, "/health", origin="http://a.example")[2]
        assert headers["access-control-allow-origin"] == "http://a.example"
        assert (
            "access-control-allow-origin" not in get(base, "/health", origin="http://b.example")[2]
        )


@pytest.mark.parametrize("told", [True, False])
def test_bodies_are_logged_as_json_where_they_are_to_be(
    decider: Decider, caplog: pytest.LogCaptureFixture, told: bool
) -> None:
    caplog.set_level("INFO", logger="reflex.serving.access")
    with serving(decider, log_content=told) as base:
        status, reply, _ = post(base, REQUEST)
    assert status == 200
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    (line,) = [each for each in lines if each.get("path") == "/v1/systemone"]
    assert line["questions"] == 3
    if told:
        assert line["request"]["state"] == TICKET
        assert line["reply"] == reply
    else:
        assert {"request", "reply"}.isdisjoint(line)
        assert TICKET not in json.dumps(line)


def test_a_key_file_holds_keys_and_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ENV, raising=False)
    file = tmp_path / "keys"
    file.write_text("# ours\n  # theirs\n\t#none\n\n key-1 \n")
    keys = Keys.load(str(file))
    assert keys.check("Bearer key-1")
    for comment in ("# theirs", "#none", "# ours"):
        with pytest.raises(AuthenticationError, match="not known"):
            keys.check(f"Bearer {comment}")
    file.write_text("  # only this\n")
    with pytest.raises(ConfigError, match="holds no key"):
        Keys.load(str(file))
