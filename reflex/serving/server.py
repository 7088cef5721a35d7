"""uvicorn around the app: sockets, signals, and an end that finishes what was accepted."""

from __future__ import annotations

import logging
import signal
import socket
from typing import TYPE_CHECKING

import uvicorn
from omegaconf import DictConfig

from reflex.build import build_decider, to_object
from reflex.errors import ConfigError
from reflex.serving.app import create_app
from reflex.serving.auth import Keys
from reflex.serving.config import ServeConfig
from reflex.serving.engine import Engine
from reflex.serving.logs import configure
from reflex.serving.source import ServedRun, checked
from reflex.tasks.check_config import check_complete

if TYPE_CHECKING:
    from reflex.decider import Decider

log = logging.getLogger("reflex.serving")


def serve(cfg: DictConfig, run: ServedRun) -> None:
    """Serve `cfg` until a signal; returns after the last accepted request was answered.

    Raises ReflexError for what is wrong before a socket is opened (keys, port, configuration).
    """
    config: ServeConfig = to_object(cfg.serve)
    keys = Keys.load(config.api_keys_file)
    configure(config.log_level)
    check_complete(cfg)

    def load() -> Decider:
        return checked(build_decider(cfg), run)

    engine = Engine(config, load, run.source)
    app = create_app(engine, config, keys)
    if not keys and config.host not in ("127.0.0.1", "localhost", "::1"):
        log.warning("no API keys: anybody who reaches %s:%d may ask", config.host, config.port)
    settings = uvicorn.Config(
        app,
        host=config.host,
        port=config.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=None,
        backlog=2048,
    )
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        # From here on connections wait instead of being refused.
        sock = socket.create_server(
            (config.host, config.port), family=family, backlog=settings.backlog
        )
    except OSError as error:
        reason = str(error.strerror or error).partition(" (")[0]
        raise ConfigError(
            f"serve.port={config.port}: cannot listen on {config.host}:{config.port} ({reason})"
        ) from None
    log.info(
        "listening on http://%s:%d",
        config.host,
        sock.getsockname()[1],
        extra={"fields": {"event": "listening"}},
    )
    server = uvicorn.Server(settings)

    def stop(*_: object) -> None:
        server.should_exit = True

    # uvicorn raises the signal again when it is done; a finished drain is a clean exit, not a death.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    server.run(sockets=[sock])
    log.info("stopped", extra={"fields": {"event": "stopped"}})
