"""One request from its first byte to its reply: the path both doors share."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse

from reflex.contract import Request
from reflex.errors import DeadlineError, OverloadedError, RequestError
from reflex.serving.auth import Keys
from reflex.serving.batcher import Ticket
from reflex.serving.body import (
    ClientDisconnect,
    decompress,
    multipart_request,
    parse_json,
    read_body,
)
from reflex.serving.config import ServeConfig
from reflex.serving.decisions import Translated, to_decisions, translate
from reflex.serving.engine import Engine
from reflex.serving.held import Held, Reservation
from reflex.serving.metrics import Metrics
from reflex.serving.replies import Door, error_reply, json_reply
from reflex.serving.requests import check_limits, to_request
from reflex.serving.slices import Slice

log = logging.getLogger("reflex.serving.access")

INLINE_BYTES = 4096
"""Bodies up to here are parsed and tokenised on the event loop: cheaper than a thread switch."""

HELD_BODIES = 32
"""Bytes of all bodies at once (announced, read, unpacked), in units of the largest allowed body; above → 429."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
T = TypeVar("T")


@dataclass
class Told:
    """What is logged and measured about one exchange."""

    id: str
    path: str
    started: float = field(default_factory=time.perf_counter)
    fields: dict[str, Any] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.started


@dataclass(frozen=True)
class Prepared:
    """A body that is ready to queue."""

    request: Request
    slices: tuple[Slice, ...]
    translated: Translated | None


class Left(Exception):
    """The client went away; there is nobody to reply to."""


class Exchange:
    """Answers requests of one app. `arriving` bodies are bounded like the queue itself."""

    def __init__(self, engine: Engine, config: ServeConfig, keys: Keys, metrics: Metrics) -> None:
        self.engine = engine
        self.config = config
        self.keys = keys
        self.metrics = metrics
        self.max_bytes = int(config.max_body_mb * (1 << 20))
        self.arriving = 0
        self.held = Held(HELD_BODIES * self.max_bytes)
        self.pool = ThreadPoolExecutor(2, thread_name_prefix="prepare")

    async def handle(self, http: HttpRequest, door: Door) -> HttpResponse:
        """Reply to one POST; never raises."""
        told = Told(request_id(http), http.url.path)
        self.arriving += 1
        try:
            with self.held.body() as body:
                reply = await self._answer(http, door, told, body)
        except (Left, ClientDisconnect):
            self.metrics.left.inc()
            told.fields["left"] = True
            reply = HttpResponse(status_code=499)
        except Exception as error:
            reply = error_reply(error, door)
            told.fields["error"] = type(error).__name__
            if reply.status_code == 500:
                log.error("internal error", exc_info=error, extra={"fields": {"id": told.id}})
        finally:
            self.arriving -= 1
        return self._finish(reply, told)

    async def _answer(
        self, http: HttpRequest, door: Door, told: Told, body: Reservation
    ) -> HttpResponse:
        deadline = time.monotonic() + self.config.timeout_s
        told.fields["key"] = self.keys.check(http.headers.get("authorization"))
        self.engine.check_ready()
        if self.arriving > 2 * self.config.max_queue:
            raise OverloadedError("too many requests at once; try again later", retry_after=1.0)
        raw = await read_body(http, self.max_bytes, self.config.body_timeout_s, body)
        told.phases["read"] = told.elapsed
        start = time.perf_counter()
        encoding = http.headers.get("content-encoding", "")
        small = not encoding and len(raw) <= INLINE_BYTES  # what it unpacks to may be any size
        kind = http.headers.get("content-type", "")
        prepared = await self._on(small, lambda: self._prepare(raw, encoding, kind, door, body))
        told.phases["prepare"] = time.perf_counter() - start
        ticket = self.engine.submit(prepared.slices)
        decisions = await self._wait(http, ticket, deadline)
        start = time.perf_counter()
        reply = await self._on(small, lambda: self._respond(prepared, decisions, told))
        told.phases["respond"] = time.perf_counter() - start
        now = time.monotonic()
        begun = ticket.started or now
        told.phases |= {"queue": begun - ticket.accepted, "forward": now - begun}
        told.fields |= {"batch": ticket.largest_batch, "slices": len(prepared.slices)}
        if self.config.log_content:
            told.fields |= {
                "request": prepared.request.model_dump(),
                "reply": json.loads(bytes(reply.body)),
            }
        return reply

    async def _on(self, inline: bool, work: Callable[[], T]) -> T:
        if inline:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self.pool, work)

    def _prepare(
        self, raw: bytes, encoding: str, content_type: str, door: Door, body: Reservation
    ) -> Prepared:
        if encoding:
            raw = decompress(raw, encoding, self.max_bytes, body)
        if content_type.lower().startswith("multipart/form-data"):
            raw = multipart_request(raw, content_type)
        value = parse_json(raw)
        backbone = self.engine.backbone_name
        if door == "systemone":
            request = to_request(value, self.config, backbone)
            return Prepared(request, self.engine.prepare(request), None)
        translated = translate(value, self.config, backbone)
        try:
            check_limits(translated.request, self.config)
            slices = self.engine.prepare(translated.request)
        except RequestError as error:
            raise translated.placed(error) from None
        return Prepared(translated.request, slices, translated)

    async def _wait(self, http: HttpRequest, ticket: Ticket, deadline: float) -> Any:
        """The decisions, unless the client leaves or time runs out; then the rest is not computed."""
        answer: asyncio.Future[Any] = asyncio.wrap_future(ticket.future)
        gone: asyncio.Future[Any] = asyncio.ensure_future(disconnected(http))
        try:
            await asyncio.wait(
                {answer, gone},
                timeout=max(0.0, deadline - time.monotonic()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if answer.done():
                return answer.result()
            self.engine.cancel(ticket)
            if gone.done():
                raise Left
            raise DeadlineError(
                f"not answered within {self.config.timeout_s:g} s (serve.timeout_s)",
                retry_after=5.0,
            )
        except asyncio.CancelledError:
            self.engine.cancel(ticket)
            raise
        finally:
            gone.cancel()
            if not answer.done():
                answer.cancel()

    def _respond(self, prepared: Prepared, decisions: Any, told: Told) -> HttpResponse:
        response = self.engine.respond(prepared.request, decisions)
        usage = response.usage
        extras = usage.model_extra or {}
        told.fields |= {
            "questions": len(prepared.request.questions),
            "state_tokens": extras.get("x_state_tokens"),
            "question_tokens": extras.get("x_question_tokens"),
            "cache_hit": extras.get("x_state_cache_hit"),
        }
        for question in prepared.request.questions.values():
            self.metrics.decisions.labels(question.type).inc()
        self.metrics.tokens.labels("state").inc(extras.get("x_state_tokens", 0))
        self.metrics.tokens.labels("question").inc(extras.get("x_question_tokens", 0))
        if prepared.translated is not None:
            return json_reply(to_decisions(prepared.translated, response))
        return json_reply(response.model_dump())

    def _finish(self, reply: HttpResponse, told: Told) -> HttpResponse:
        """Headers, metrics and the log line."""
        seconds = told.elapsed
        reply.headers["x-typesafe-request-id"] = told.id
        reply.headers["x-reflex-latency-ms"] = f"{1000 * seconds:.2f}"
        self.metrics.requests.labels(told.path, str(reply.status_code)).inc()
        self.metrics.seconds.labels(told.path).observe(seconds)
        for phase, taken in told.phases.items():
            self.metrics.phase.labels(phase).observe(taken)
        if log.isEnabledFor(logging.INFO):
            phases = {f"{name}_ms": round(1000 * s, 2) for name, s in told.phases.items()}
            fields = {
                "event": "request",
                "id": told.id,
                "path": told.path,
                "status": reply.status_code,
                "ms": round(1000 * seconds, 2),
                **phases,
                **{k: v for k, v in told.fields.items() if v is not None},
            }
            log.info("", extra={"fields": fields})
        return reply


def request_id(http: HttpRequest) -> str:
    """The caller's own `x-request-id` where it is harmless, else a new one."""
    given = http.headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


async def disconnected(http: HttpRequest) -> None:
    """Return when the client closes its connection. The body must have been read."""
    while True:
        message = await http.receive()
        if message["type"] == "http.disconnect":
            return
