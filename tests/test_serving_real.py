"""The embedded real model behind HTTP: the same answers as in process, alone and under load."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reflex.build import build_decider
from reflex.decider import Decider
from reflex.serving.source import resolve
from scripts.serve_process import Server, numbers
from tests.serving import CHOICE, NOUL, REQUEST, SCORE, post
from tests.test_serving_contract import jevcompat

pytestmark = [pytest.mark.slow, pytest.mark.real]
FLOAT32 = (
    *("backbone=smollm2_135m", "device.dtype=float32", "orders=two"),
    "serve.timeout_s=900",  # a busy machine is not what is tested here
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(*FLOAT32) as running:
        yield running


@pytest.fixture(scope="module")
def decider() -> Decider:
    return build_decider(resolve(FLOAT32)[0])


def workload() -> list[dict[str, Any]]:
    long = "The parcel arrived late and the box was torn, but the lamp itself works. " * 30
    found: list[dict[str, Any]] = []
    for i in range(16):
        questions = {"n": {**NOUL, "instructions": f"Is {i} mentioned?"}, "c": CHOICE, "s": SCORE}
        chosen = dict(list(questions.items())[: 1 + i % 3])
        found.append(
            {"state": long if i % 2 else f"Case {i}: the lamp broke.", "questions": chosen}
        )
    return found


@pytest.mark.timeout(1800)
def test_jevcompat_with_the_real_model(server: Server) -> None:
    """Two orders included: neither ids nor neighbours nor the order of questions moves an answer."""
    report = jevcompat(server.url, "--timeout", "300")
    assert "MUST 32/32, SHOULD 12/12" in report


def test_http_alone_and_under_load_equals_in_process(server: Server, decider: Decider) -> None:
    requests = workload()
    wanted = [numbers(decider.answer(request).model_dump()["answers"]) for request in requests]
    for request, expected in zip(requests, wanted, strict=True):
        status, reply, _ = post(server.url, request)
        assert status == 200
        assert numbers(reply["answers"]) == pytest.approx(expected, abs=1e-5)
    with ThreadPoolExecutor(16) as clients:
        replies = list(clients.map(lambda request: post(server.url, request), requests * 2))
    for (status, reply, _), expected in zip(replies, wanted * 2, strict=True):
        assert status == 200
        assert numbers(reply["answers"]) == pytest.approx(expected, abs=1e-5)


def test_a_state_survives_a_restart(tmp_path: Path) -> None:
    arguments = ("backbone=smollm2_135m", f"serve.disk_cache_dir={tmp_path}")
    request = {**REQUEST, "state": "Invoice 7 was paid twice and nobody answered. " * 200}
    seconds, answers = [], []
    for attempt in range(2):
        with Server(*arguments) as server:
            start = time.perf_counter()
            status, reply, _ = post(server.url, request)
            seconds.append(time.perf_counter() - start)
            assert status == 200
            assert reply["usage"]["x_state_cache_hit"] is (attempt == 1)
            assert reply["usage"]["x_state_tokens"] > 1500
            answers.append(numbers(reply["answers"]))
            assert server.terminate() == 0
    assert answers[1] == pytest.approx(answers[0], abs=1e-6)
    assert (
        seconds[1] < 0.6 * seconds[0]
    )  # the bench measures; a shared machine is allowed some noise
