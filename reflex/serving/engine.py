"""The served model's life: loading in the background, warming up, ready, draining.

`Engine` is what the HTTP side talks to. It owns the decider, the batcher and the state cache, and knows
how to say in which state it is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reflex.contract import Request, parse_request
from reflex.errors import ConfigError, NotReadyError, ReflexError
from reflex.serving.batcher import Batcher, BatchStats, Ticket
from reflex.serving.config import ServeConfig
from reflex.serving.slices import Slice, cut
from reflex.tasks.identity import NUMERICS

if TYPE_CHECKING:
    from reflex.decider import Decider, Decision
    from reflex.forward.state_cache import StateCache

log = logging.getLogger("reflex.serving")

Status = Literal["loading", "ready", "failed", "stopping"]


@dataclass(frozen=True)
class Source:
    """Where the served decider comes from; everything here is shown by /health.

    run: the recorded run's hash, None for a bare configuration. about: config choices worth telling.
    """

    run: str | None = None
    about: dict[str, Any] = field(default_factory=dict)


class Engine:
    """Loads through `load` on a thread of its own, then answers through the batcher."""

    def __init__(
        self,
        config: ServeConfig,
        load: Callable[[], Decider],
        source: Source | None = None,
    ) -> None:
        self.config = config
        self.source = source or Source()
        self.status: Status = "loading"
        self.error: str | None = None
        self.load_s: float | None = None
        self.on_batch: Callable[[BatchStats], None] = lambda stats: None
        self._load = load
        self._decider: Decider | None = None
        self._batcher: Batcher | None = None
        self._thread = threading.Thread(target=self._start, name="loader", daemon=True)

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin loading; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what was accepted and write pending states."""
        self.status = "stopping"
        if self._batcher is not None:
            self._batcher.stop()
        close = getattr(self.cache, "close", None)
        if close is not None:
            close()

    def _start(self) -> None:
        started = time.monotonic()
        try:
            decider = self._load()
            self._attach(decider)
            if self.config.warm_up:
                self._warm_up(decider)
            self._open_disk(decider)
        except Exception as error:
            self.error = (
                str(error) if isinstance(error, ReflexError) else f"{type(error).__name__}: {error}"
            )
            self.status = "failed"
            log.error("loading failed: %s", self.error, extra={"fields": {"event": "failed"}})
            if not isinstance(error, ReflexError):
                log.debug("traceback", exc_info=error)
            return
        self.load_s = time.monotonic() - started
        if self.status == "loading":
            self.status = "ready"
            fields = {"event": "ready", **self.facts()}
            log.info("ready after %.1f s", self.load_s, extra={"fields": fields})

    def _attach(self, decider: Decider) -> None:
        """Put cache and batcher around a loaded decider."""
        if self.config.name:
            decider.name = self.config.name
        forward = decider.model.engine
        self._batcher = Batcher(
            self.config,
            decider.decide,
            cached=lambda key: key in forward.cache,
            on_batch=self._ran,
        )
        self._batcher.start()
        self._decider = decider

    def _open_disk(self, decider: Decider) -> None:
        """Put the disk behind the state cache. After the warm-up, whose states nobody asks for again."""
        if self.config.disk_cache_dir is None:
            return
        from reflex.serving.disk_cache import DiskCache, TieredStateCache

        forward = decider.model.engine
        folder = Path(self.config.disk_cache_dir).expanduser()
        try:
            disk = DiskCache(folder, state_namespace(decider), self.config.disk_cache_mb << 20)
        except OSError as error:
            raise ConfigError(f"serve.disk_cache_dir={folder}: {error.strerror}") from None
        forward.cache = TieredStateCache(
            forward.config.state_cache_mb << 20, disk, decider.model.backbone
        )

    def _ran(self, stats: BatchStats) -> None:
        if self.status != "loading":  # warm-up is not traffic
            self.on_batch(stats)

    def _warm_up(self, decider: Decider) -> None:
        """A few requests of different shapes, so that the first client does not pay for first times."""
        for raw in WARM_UP:
            try:
                ticket = self.submit(self.prepare(parse_request(raw)))
                ticket.future.result()
            except ReflexError as error:  # a short context, a readout for one type only
                log.info("warm-up: %s", error)
        cache = decider.model.engine.cache
        cache.clear()
        cache.hits = cache.misses = 0

    # -- answering -----------------------------------------------------------------------------

    @property
    def decider(self) -> Decider:
        """The loaded decider. Raises NotReadyError before and after its time."""
        if self.status == "failed":
            raise NotReadyError(f"the model could not be loaded: {self.error}")
        if self._decider is None:
            raise NotReadyError("the model is still loading", retry_after=2.0)
        return self._decider

    def check_ready(self) -> None:
        """Raise NotReadyError unless requests are taken."""
        if self.status == "stopping":
            raise NotReadyError("the server is stopping", retry_after=5.0)
        if self.status != "ready":
            _ = self.decider  # says why not, unless loaded and warming up
            raise NotReadyError("the model is warming up", retry_after=1.0)

    @property
    def name(self) -> str:
        """The model's name in answers."""
        return self.decider.name

    @property
    def backbone_name(self) -> str:
        return self.decider.model.backbone.facts.name

    @property
    def cache(self) -> StateCache | None:
        return None if self._decider is None else self._decider.model.engine.cache

    @property
    def depth(self) -> int:
        return 0 if self._batcher is None else self._batcher.depth

    def prepare(self, request: Request) -> tuple[Slice, ...]:
        """Tokenise a request, in slices. Raises what makes it unanswerable; runs on any thread."""
        return cut(
            self.decider.model, request, self.config.slice_tokens, self.config.max_request_tokens
        )

    def submit(self, slices: Sequence[Slice]) -> Ticket:
        """Queue a prepared request. Raises OverloadedError, NotReadyError."""
        assert self._batcher is not None  # what is prepared has a model, and that a batcher
        return self._batcher.submit(slices)

    def cancel(self, ticket: Ticket) -> None:
        assert self._batcher is not None
        self._batcher.cancel(ticket)

    def respond(self, request: Request, decisions: dict[str, Decision]) -> Any:
        """The contract's response, with what identifies the run as `x_` fields."""
        response = self.decider.respond(request, decisions)
        extras = {"x_run": self.source.run, "x_calibration": calibration_name(self.decider)}
        return response.model_copy(update={k: v for k, v in extras.items() if v is not None})

    # -- telling -------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """What is served, for /health and the log."""
        told: dict[str, Any] = {"status": self.status, "run": self.source.run}
        if self.error:
            told["error"] = self.error
        told |= self.source.about
        if self._decider is None:
            return told
        model = self._decider.model
        backbone = asdict(model.backbone.facts)
        return told | {
            "model": self._decider.name,
            "backbone": backbone,
            "adapter": backbone["adapter_sha256"],
            "calibration": calibration_name(self._decider),
            "prompt": {
                "style": getattr(model.style, "name", None),
                "hash": model.style.fingerprint(),
            },
            "readout": {kind: readout.name for kind, readout in model.readouts.items()},
            "orders": asdict(model.orders),
            "strategy": model.engine.config.strategy,
            "device": backbone["device"],
            "dtype": backbone["dtype"],
            "kernels": backbone["kernels"],
            "load_s": self.load_s,
        }


def calibration_name(decider: Decider) -> str | None:
    return getattr(decider.calibrator, "name", None)


def state_namespace(decider: Decider) -> dict[str, Any]:
    """Everything besides the prefix ids that a kept state depends on."""
    from importlib.metadata import version

    facts = decider.model.backbone.facts
    return {
        "weights": facts.weights_sha256,
        "adapter": facts.adapter_sha256,
        "prompt": decider.model.style.fingerprint(),
        "dtype": facts.dtype,
        "attention": facts.attention,
        "numerics": NUMERICS,
        "torch": version("torch"),
        "transformers": version("transformers"),
    }


_NOUL = {"type": "noul", "instructions": "Is this a test?"}
_CHOICE = {
    "type": "choice",
    "instructions": "Which?",
    "criteria": {"a": None, "b": "second", "c": None},
}
_SCORE = {"type": "score", "instructions": "How much?", "criteria": ["none", "some", "much"]}
WARM_UP: tuple[dict[str, Any], ...] = (
    {"state": "A short text.", "questions": {"noul": _NOUL}},
    {"state": {"text": "word " * 300}, "questions": {"n": _NOUL, "c": _CHOICE, "s": _SCORE}},
    {"state": {"text": "word " * 300}, "questions": {"c": _CHOICE}},
)
