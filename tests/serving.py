"""Servers for the serving tests in this process on a free loopback port, and HTTP to them."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn

from reflex.build import build_decider
from reflex.decider import Decider
from reflex.loading import compose
from reflex.serving.app import create_app
from reflex.serving.auth import Keys
from reflex.serving.config import ServeConfig
from reflex.serving.engine import Engine
from scripts.serve_process import ready

NOUL: dict[str, Any] = {"type": "noul", "instructions": "Is the customer asking for money back?"}
CHOICE: dict[str, Any] = {
    "type": "choice",
    "instructions": "Which team should handle this?",
    "criteria": {"Billing": "Payments, refunds", "Technical": "Bugs", "Sales": None},
}
SCORE: dict[str, Any] = {
    "type": "score",
    "instructions": "How frustrated is the customer?",
    "criteria": ["Calm", "Frustrated", "Very angry"],
}
TICKET = "I was charged twice for March and the promised refund has not arrived."
REQUEST: dict[str, Any] = {
    "model": "jev-latest",
    "state": TICKET,
    "questions": {"refund": NOUL, "team": CHOICE, "anger": SCORE},
}


def tiny_decider(*overrides: str, backbone: str = "tiny_llama") -> Decider:
    """A random float32 backbone under the default prompt, readout and orders."""
    base = [f"backbone={backbone}", "device.dtype=float32", "forward.reuse_tokens=256"]
    return build_decider(compose([*base, *overrides]))


@contextmanager
def serving(
    decider: Decider | None,
    keys: Sequence[str] = (),
    engine: Engine | None = None,
    around: Callable[[Any], Any] = lambda app: app,
    **config: Any,
) -> Iterator[str]:
    """A server around `decider` (or `engine`) in this process; yields its base URL.

    With a decider it yields once that is ready; with an engine of the caller's at once. `around` puts
    something in front of the application, such as a witness of what arrives.
    """
    settings = ServeConfig(warm_up=False, **config)
    own = engine is None

    def load() -> Decider:
        assert decider is not None
        return decider

    engine = engine or Engine(settings, load)
    app = around(create_app(engine, settings, Keys(keys)))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, port=0, host="127.0.0.1"))
    sock = server.config.bind_socket()
    sock.listen(128)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    try:
        if own:
            wait_ready(url)
        yield url
    finally:
        server.should_exit = True
        thread.join(30)
        sock.close()


def wait_ready(url: str, timeout_s: float = 90.0) -> None:
    """Poll /ready until it answers 200."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if ready(url):
            return
        time.sleep(0.05)
    raise AssertionError(f"{url} did not get ready in {timeout_s} s")


def post(
    url: str, body: Any, path: str = "/v1/systemone", **headers: str
) -> tuple[int, Any, dict[str, str]]:
    """(status, parsed JSON, headers) of a POST; `body` is bytes or JSON-able."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    fixed = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(
        url + path, raw, {"content-type": "application/json", **fixed}, method="POST"
    )
    return _call(request)


def get(url: str, path: str, **headers: str) -> tuple[int, Any, dict[str, str]]:
    """(status, parsed JSON or text, headers) of a GET."""
    fixed = {name.replace("_", "-"): value for name, value in headers.items()}
    return _call(urllib.request.Request(url + path, headers=fixed))


def _call(request: urllib.request.Request) -> tuple[int, Any, dict[str, str]]:
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            status, raw, found = reply.status, reply.read(), reply.headers
    except urllib.error.HTTPError as error:
        status, raw, found = error.code, error.read(), error.headers
    kind = found.get("content-type", "")
    value = json.loads(raw) if kind.startswith("application/json") else raw.decode()
    return status, value, {name.lower(): value for name, value in found.items()}
