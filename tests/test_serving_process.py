"""`python -m reflex.serve` as a process: start, signals, kill -9, clients that leave."""

from __future__ import annotations

import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from reflex.serving.config import ServeConfig
from reflex.serving.engine import Engine
from scripts.serve_process import Server, numbers
from tests.serving import (
    NOUL,
    REQUEST,
    get,
    post,
    serving,
    tiny_decider,
    wait_ready,
)

TINY = ("backbone=tiny_llama", "device.dtype=float32")
QUESTIONS = {f"q{i}": {"type": "noul", "instructions": f"Is it about {i}?"} for i in range(100)}


def test_one_process_from_start_to_sigterm(tmp_path: Path) -> None:
    """Loading is told, keys from file and environment count, logs hold no content, SIGTERM drains."""
    keys = tmp_path / "keys"
    keys.write_text("# ours\nfrom-file\n")
    server = Server(
        *TINY,
        f"serve.api_keys_file={keys}",
        f"serve.disk_cache_dir={tmp_path / 'states'}",
        env={"REFLEX_API_KEYS": "from-env, second"},
        wait=False,
    )
    with server:
        status, health, _ = get(server.url, "/health")
        assert status == 200
        assert health["status"] in ("loading", "ready")
        early, reply, headers = post(server.url, REQUEST, authorization="Bearer second")
        if early == 503:
            assert reply["detail"]["error_type"] == "not_ready"
            assert int(headers["retry-after"]) >= 1
        wait_ready(server.url)
        assert post(server.url, REQUEST)[0] == 401
        secret = {**REQUEST, "state": "the word is xylophone"}
        for key in ("from-file", "from-env", "second"):
            assert post(server.url, secret, authorization=f"Bearer {key}")[0] == 200
        bad = {**secret, "questions": {"xylophone": {"type": "noul"}}}
        assert post(server.url, bad, authorization="Bearer second")[0] == 422
        big = {"state": "xylophone " * 30, "questions": QUESTIONS}
        with ThreadPoolExecutor(8) as clients:
            answers = [
                clients.submit(post, server.url, big, authorization="Bearer second")
                for _ in range(8)
            ]
            # All eight accepted: answered by now, or in the queue a moment later. How many of each is
            # a matter of timing and decides nothing.
            accepted = 0
            while accepted < len(answers):
                done = sum(answer.done() for answer in answers)
                accepted = done + server.queued()
                time.sleep(0.005)
            assert server.terminate() == 0
            replies = [answer.result() for answer in answers]
        assert [status for status, _, _ in replies] == [200] * 8
        assert all(len(reply["answers"]) == len(QUESTIONS) for _, reply, _ in replies)
    text = "\n".join(server.lines)
    assert "xylophone" not in text
    assert "from-file" not in text
    events = [json.loads(line) for line in server.lines if line.startswith("{")]
    (entry, *_) = [e for e in events if e.get("event") == "request" and e["status"] == 200]
    for field in (
        "id",
        "ms",
        "questions",
        "state_tokens",
        "queue_ms",
        "forward_ms",
        "batch",
        "key",
    ):
        assert field in entry
    assert any(e.get("event") == "stopped" for e in events)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("serve.prot=1",), "serve.prot"),
        (("backbone=nothing",), "nothing"),
        (("run=0123",), "neither a folder"),
        (("serve.batch_ms=-1",), "serve.batch_ms"),
        (("serve.api_keys_file=/nowhere",), "serve.api_keys_file"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], says: str, capsys: Any) -> None:
    from reflex.serve import main

    with pytest.raises(SystemExit) as caught:
        main(arguments)
    message = str(caught.value)
    assert message.startswith("error: ")
    assert says in message
    assert "\n" not in message


def test_a_taken_port_is_one_line() -> None:
    from reflex.serve import main

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(SystemExit, match=r"serve\.port="),
    ):
        main([*TINY, f"serve.port={taken.getsockname()[1]}"])


def test_help_and_cfg_start_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    from reflex.serve import main

    main(["--help"])
    main([*TINY, "orders=two", "--cfg"])
    text = capsys.readouterr().out
    assert "run=stable" in text
    assert "max_queue: 256" in text


def test_what_cannot_be_loaded_is_told_by_health() -> None:
    def load() -> Any:
        raise RuntimeError("no such weights")

    engine = Engine(ServeConfig(warm_up=False), load)
    with serving(None, engine=engine) as url:
        until = time.monotonic() + 20
        while get(url, "/health")[1]["status"] != "failed":
            assert time.monotonic() < until
            time.sleep(0.05)
        status, health, _ = get(url, "/health")
        assert status == 503
        assert "no such weights" in health["error"]
        assert get(url, "/ready")[0] == 503
        assert post(url, REQUEST)[0] == 503
        assert get(url, "/v1/models")[0] == 503


def test_a_client_that_leaves_is_not_computed_for() -> None:
    decider = tiny_decider()
    asked: list[int] = []
    decide = decider.decide

    def counted(compiled: Any) -> Any:
        asked.append(len(compiled))
        return decide(compiled)

    decider.decide = counted  # type: ignore[method-assign, assignment]
    huge = json.dumps(
        {
            "state": "x",
            "questions": {f"q{i}": {**NOUL, "instructions": f"{i} " * 40} for i in range(900)},
        }
    ).encode()
    with serving(decider, slice_tokens=64, batch_ms=1.0) as url:
        parts = urlsplit(url)
        peer = http.client.HTTPConnection(parts.netloc, timeout=30)
        peer.request("POST", "/v1/systemone", huge)
        while not asked:
            time.sleep(0.005)
        peer.sock.close()
        peer.close()
        until = time.monotonic() + 20
        while "reflex_clients_left_total 1.0" not in get(url, "/metrics")[1]:
            assert time.monotonic() < until
            time.sleep(0.02)
        seen = len(asked)
        assert post(url, REQUEST)[0] == 200
        time.sleep(0.3)
        assert len(asked) <= seen + 4, "the rest was computed for nobody"
        assert sum(asked) < 900 / 2


def test_time_limit_is_503_with_retry_after() -> None:
    decider = tiny_decider()
    decide = decider.decide

    def slow(compiled: Any) -> Any:
        time.sleep(0.6)
        return decide(compiled)

    decider.decide = slow  # type: ignore[method-assign, assignment]
    with serving(decider, timeout_s=0.3) as url:
        status, reply, headers = post(url, REQUEST)
        assert (status, reply["detail"]["error_type"]) == (503, "timeout")
        assert "retry-after" in headers


def test_a_full_queue_is_429_and_accepted_ones_are_answered() -> None:
    decider = tiny_decider()
    decide = decider.decide

    def slow(compiled: Any) -> Any:
        time.sleep(0.2)
        return decide(compiled)

    decider.decide = slow  # type: ignore[method-assign, assignment]
    with serving(decider, max_queue=4) as url, ThreadPoolExecutor(24) as clients:
        replies = list(clients.map(lambda i: post(url, {**REQUEST, "state": f"{i}"}), range(24)))
    statuses = [status for status, _, _ in replies]
    assert set(statuses) == {200, 429}
    refused = next(headers for status, _, headers in replies if status == 429)
    assert int(refused["retry-after"]) >= 1


@pytest.mark.slow
def test_kill_9_and_restart_under_load(tmp_path: Path) -> None:
    """No wrong answer before or after; the states written so far are used."""
    arguments = (*TINY, f"serve.disk_cache_dir={tmp_path}")
    requests = [
        {"state": f"document {i % 6} " * 60, "questions": {"a": NOUL, "b": QUESTIONS[f"q{i}"]}}
        for i in range(24)
    ]
    reference = tiny_decider()
    wanted = [numbers(reference.answer(r).model_dump()["answers"]) for r in requests]
    hits = 0
    for attempt in range(3):
        with Server(*arguments) as server, ThreadPoolExecutor(8) as clients:

            def ask(index: int, url: str = server.url) -> Any:
                try:
                    return post(url, requests[index])
                except (OSError, http.client.HTTPException):
                    return None  # the connection died with the server

            pending = [clients.submit(ask, i % 24) for i in range(72)]
            if attempt < 2:
                until = (
                    time.monotonic() + 60
                )  # how long a first state takes is the machine's affair
                while not any(tmp_path.rglob("*.state")) and time.monotonic() < until:
                    time.sleep(0.05)
                server.kill()
            for i, future in enumerate(pending):
                reply = future.result()
                if reply is None:
                    continue
                assert reply[0] == 200
                assert numbers(reply[1]["answers"]) == pytest.approx(wanted[i % 24], abs=1e-5)
                hits += reply[1]["usage"]["x_state_cache_hit"]
            if attempt == 2:
                metrics = get(server.url, "/metrics")[1]
                (line,) = [x for x in metrics.splitlines() if 'result="hit",tier="disk"' in x]
                assert float(line.split()[-1]) > 0
                assert 'result="damaged",tier="disk"} 0.0' in metrics
    assert hits
