"""What a server says it serves, and whether that is what a run claims."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from reflex.errors import ConfigError, RemoteError

KEY = "TYPESAFE_API_KEY"
NO_KEY = "none"
"""Sent where there is no key: the client needs one, and a server without authentication ignores it."""

PASSING = frozenset({408, 429, *range(500, 600)})
"""Status codes that say nothing of the server but that it should be asked again."""

LOADING = ("loading", "warming", "warming_up", "starting")

IDENTITY = (
    *("run", "model", "adapter", "calibration", "prompt", "readout", "orders", "dtype"),
    *("backbone", "checkpoint", "prompt_style", "noul_readout", "permutations"),
)
"""Keys of /health that say what shapes an answer; the rest (uptime, load time, device) may change."""


def api_key() -> str:
    return os.environ.get(KEY, "").strip() or NO_KEY


def served(base_url: str, wait_s: float = 120.0) -> dict[str, Any]:
    """What `/health` says, {} for a server that has none. Waits while it is loading.

    Raises RemoteError (one line) where nothing answers, the page cannot be had just now (whatever stands in its
    place, such as a proxy's own page), or the server says it cannot serve.
    """
    until = time.monotonic() + wait_s
    while True:
        status, facts = _get(f"{base_url}/health", min(30.0, wait_s))
        loading = facts.get("status") in LOADING
        if not loading or time.monotonic() > until:
            break
        time.sleep(1.0)
    if loading:
        raise RemoteError(f"{base_url}: still loading after {wait_s:g} s; try again later")
    if facts.get("status") == "failed":
        raise RemoteError(
            f"{base_url}: cannot serve: {facts.get('error') or 'it does not say why'}"
        )
    if status in PASSING:
        raise RemoteError(f"{base_url}: /health answered {status}; try again")
    return facts


def identity(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The part of /health that identifies what answers; empty where it says nothing of the kind."""
    return {key: facts[key] for key in IDENTITY if facts.get(key) is not None}


def summary(facts: Mapping[str, Any]) -> dict[str, str]:
    """Axes of the run as the server names them: backbone, prompt, readout, orders, calibration."""
    found = {"backbone": _name(facts.get("backbone")) or facts.get("model")}
    found["prompt"] = _style(facts)
    readout = facts.get("readout")
    if isinstance(readout, Mapping):
        found["readout"] = "+".join(sorted({str(name) for name in readout.values()}))
    orders = facts.get("orders")
    if isinstance(orders, Mapping) and "permutations" in orders:
        found["orders"] = f"{orders.get('kind', 'orders')} × {orders['permutations']}"
    found["calibration"] = facts.get("calibration")
    return {key: str(value) for key, value in found.items() if value is not None}


def confirm(base_url: str, facts: Mapping[str, Any], claims: Mapping[str, Any]) -> None:
    """Raise ConfigError for the first claim (axis → what this run says of it) that /health does not back.

    claims: `prompt` = {style, hash}, `readout` = {type: name}, `orders` = its config, `calibration` and
    `backbone` = names.
    """
    for axis, wanted in claims.items():
        told = facts.get(axis)
        if axis == "backbone":
            told = _name(told) or facts.get("model")
        if axis == "prompt" and isinstance(told, Mapping):
            told, same = told, told.get("hash") == wanted["hash"]
        elif isinstance(wanted, Mapping):
            same = isinstance(told, Mapping) and all(told.get(k) == v for k, v in wanted.items())
        else:
            same = told == wanted
        if not same:
            says = f"/health says {_short(told)}" if told is not None else "/health does not say"
            raise ConfigError(
                f"{axis}={_short(wanted)}: {base_url} does not confirm it ({says}); serve it there, or "
                f"leave {axis} to the server (to compare two, sweep model.base_url or use task=compare)"
            )


def _get(url: str, timeout_s: float) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {api_key()}"})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as reply:
            status, raw = reply.status, reply.read()
    except urllib.error.HTTPError as error:
        status, raw = error.code, error.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise RemoteError(f"{url}: nothing answers there ({reason}); is the server up?") from None
    try:
        found = json.loads(raw)
    except ValueError:
        found = None
    # A server that lacks the page, or keeps it from us, may answer questions all the same.
    told = isinstance(found, dict) and (status < 400 or status in PASSING)
    return status, found if told else {}


def _name(value: Any) -> Any:
    return value.get("name") if isinstance(value, Mapping) else value


def _style(facts: Mapping[str, Any]) -> Any:
    prompt = facts.get("prompt")
    if isinstance(prompt, Mapping):
        return prompt.get("style") or str(prompt.get("hash"))[:12]
    return prompt or facts.get("prompt_style")


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {str(item)[:12]}" for key, item in value.items())
    return str(value)
