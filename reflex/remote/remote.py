"""`model=remote`: where a server is and how it is asked. Imports no client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from omegaconf import DictConfig

from reflex.checks import check_above_zero, check_not_negative
from reflex.errors import ConfigError

OF_THE_SERVER = ("backbone", "device", "prompt", "readout", "orders", "calibration", "forward")
"""Groups that shape an answer here and say nothing about a server's."""


@dataclass
class RemoteModel:
    """Whatever answers at `base_url` (the root, without /v1; REFLEX_URL where it is not given); its key comes
    from TYPESAFE_API_KEY.

    model: the name to ask for. concurrency: requests in flight. timeout_s: of one try. retries: after the
    first try, on connection errors, timeouts, 408, 429 and 5xx. retry_s: all tries of one item together.
    max_failures: items that may stay unanswered in a finished run; more make it a failed one.
    """

    _target_: str = "reflex.remote.remote.RemoteModel"
    name: str = "remote"
    base_url: str = ""
    model: str = "jev-latest"
    concurrency: int = 16
    timeout_s: float = 120.0
    retries: int = 4
    retry_s: float = 600.0
    max_failures: int = 0

    def __post_init__(self) -> None:
        if not self.base_url:
            return
        self.base_url = self.base_url.rstrip("/").removesuffix("/v1")
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(
                f"model.base_url={self.base_url}: give http://… or https://… without /v1"
            )
        if parts.username or parts.password:
            raise ConfigError("model.base_url: no password here; put the key into TYPESAFE_API_KEY")
        for name in ("concurrency", "timeout_s", "retry_s"):
            check_above_zero(f"model.{name}", getattr(self, name))
        for name in ("retries", "max_failures"):
            check_not_negative(f"model.{name}", getattr(self, name))


def remote_model(cfg: DictConfig) -> RemoteModel | None:
    """The remote model of a configuration, None where the model is local. Raises ConfigError."""
    node: Any = cfg.get("model")
    if node is None or node.get("name") != "remote":
        return None
    if not node.get("base_url"):
        raise ConfigError(
            "model.base_url is not set: give model.base_url=http://… or set REFLEX_URL"
        )
    values = {str(key): node[key] for key in node if key != "_target_"}
    return RemoteModel(**values)
