"""How a decider is served. Imports neither torch nor anything of the extra `serve`."""

from __future__ import annotations

from dataclasses import dataclass, field

from reflex.checks import check_above_zero, check_choice, check_not_negative
from reflex.errors import ConfigError


@dataclass
class ServeConfig:
    """What `python -m reflex.serve` adds to a run's configuration.

    host, port: where to listen. name: the model name in answers; null = the backbone's.
    api_keys_file: one key per line, `#` comments; REFLEX_API_KEYS (comma separated) adds to it. No key at
      all switches authentication off. metrics_need_key: whether /metrics asks for a key too.
    cors_origins: browser origins allowed to call (`["*"]` = any); empty = no CORS headers.

    max_body_mb: request body, as sent and after decompression. max_state_chars, max_questions,
    max_options (of one question), max_request_tokens (state once, questions in all orders): above → 4xx.
    timeout_s: from arrival to answer. body_timeout_s: until the whole body must be there.

    window_ms: longest wait for company when other clients were active; nobody waits alone.
    batch_ms: wanted duration of one forward; tokens per batch follow from the measured speed.
    slice_tokens: question tokens after which a large request is cut, so that small ones get in between.
    max_queue: requests waiting; above → 429 with Retry-After.
    reuse_tokens: states at least this long are kept for later requests (forward.reuse_tokens).

    disk_cache_dir, disk_cache_mb: where states survive a restart (null or empty = memory only), and how much.
    warm_up: answer a few requests before reporting ready.
    log_level: debug, info, warning or error. log_content: log request and answer bodies (off: sizes and timings only).
    """

    host: str = "127.0.0.1"
    port: int = 8000
    name: str | None = None
    api_keys_file: str | None = None
    metrics_need_key: bool = False
    cors_origins: list[str] = field(default_factory=list)

    max_body_mb: float = 8.0
    max_state_chars: int = 1_000_000
    max_questions: int = 1024
    max_options: int = 4096
    max_request_tokens: int = 262_144
    timeout_s: float = 120.0
    body_timeout_s: float = 15.0

    window_ms: float = 10.0
    batch_ms: float = 400.0
    slice_tokens: int = 512
    max_queue: int = 256
    reuse_tokens: int = 256

    disk_cache_dir: str | None = None
    disk_cache_mb: int = 4096
    warm_up: bool = True
    log_level: str = "info"
    log_content: bool = False

    def __post_init__(self) -> None:
        self.disk_cache_dir = (
            self.disk_cache_dir or None
        )  # an empty path would be the working folder
        positive = (
            "max_body_mb",
            "max_state_chars",
            "max_questions",
            "max_options",
            "max_request_tokens",
            "timeout_s",
            "body_timeout_s",
            "batch_ms",
            "slice_tokens",
            "max_queue",
            "disk_cache_mb",
        )
        for name in positive:
            check_above_zero(f"serve.{name}", getattr(self, name))
        for name in ("window_ms", "reuse_tokens"):
            check_not_negative(f"serve.{name}", getattr(self, name))
        if isinstance(self.port, int) and not 0 <= self.port <= 65535:
            raise ConfigError(f"serve.port={self.port}: use 0 (a free one) to 65535")
        check_choice("serve.log_level", self.log_level, ("debug", "info", "warning", "error"))
