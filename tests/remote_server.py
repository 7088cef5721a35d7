"""A small server of the contract with faults on order: no model, answers follow from the state's text."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, Any, dict[str, str]]
"""Status, body (JSON-able, or bytes as they are), headers. Status 0 closes the connection unanswered."""


class FakeServer:
    """`asked` counts POSTs per state, `keys` the keys they came with; `most` is the most in flight at once.

    health: what /health says (None: there is no such page; or a whole reply). model: who answers, as answers say.
    fault: (state, how often it was asked before) → a reply instead of the answer, or None.
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.keys: set[str | None] = set()
        self.health: dict[str, Any] | Reply | None = {"status": "ready", "model": "fake-1"}
        self.model = "fake-1"
        self.fault: Callable[[str, int], Reply | None] = lambda state, before: None
        self.delay_s = 0.0
        self.most = self._flying = 0
        self._lock = threading.Lock()
        self.url = ""

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        answers: dict[str, Any] = {}
        for name, question in body["questions"].items():
            keys = {
                "noul": lambda q: ["true", "false"],
                "choice": lambda q: list(q["criteria"]),
                "score": lambda q: [str(i) for i in range(len(q["criteria"]))],
            }[question["type"]](question)
            p = distribution(body["state"], keys)
            if question["type"] == "noul":
                answers[name] = {"type": "noul", "noul": p["true"]}
                continue
            answers[name] = {"type": question["type"], "probabilities": p, "confidence": 0.5}
            if question["type"] == "choice":
                answers[name]["choice"] = max(p, key=lambda key: p[key])
            else:
                answers[name] |= {"score": 1.0, "legend": dict(zip(p, question["criteria"]))}
        return {"model": self.model, "answers": answers, "usage": {"input_tokens": 100}}

    def post(self, body: dict[str, Any], key: str | None) -> Reply:
        state = str(body["state"])
        with self._lock:
            before = self.asked[state]
            self.asked[state] += 1
            self.keys.add(key)
            self._flying += 1
            self.most = max(self.most, self._flying)
        try:
            time.sleep(self.delay_s)
            return self.fault(state, before) or (200, self.answer(body), {})
        finally:
            with self._lock:
                self._flying -= 1


def distribution(state: str, keys: list[str]) -> dict[str, float]:
    """A distribution that depends on the state and the option names alone."""
    weights = {key: 1 + zlib.crc32(f"{state}/{key}".encode()) % 97 for key in keys}
    return {key: weight / sum(weights.values()) for key, weight in weights.items()}


@contextmanager
def fake_server() -> Iterator[FakeServer]:
    """The server on a free loopback port."""
    fake = FakeServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/health" and fake.health is not None:
                told = fake.health
                self.send(*(told if isinstance(told, tuple) else (200, told, {})))
            else:
                self.send(404, {"detail": "no such page"}, {})

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "zstd":
                import zstandard

                raw = zstandard.ZstdDecompressor().decompressobj().decompress(raw)
            status, body, headers = fake.post(json.loads(raw), self.headers.get("Authorization"))
            if status == 0:
                self.close_connection = True
                self.connection.shutdown(2)
                return
            self.send(status, body, headers)

        def send(self, status: int, body: Any, headers: dict[str, str]) -> None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
