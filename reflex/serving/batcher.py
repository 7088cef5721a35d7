"""Cross-request batching: whatever waits together goes through one forward.

One thread asks the model; requests wait in slices. A batch takes at most one slice of each request in
turn, oldest first, then further slices while the token budget lasts, so a huge request advances without
holding up small ones. The budget follows the measured speed; nobody waits for company that is not
expected.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from reflex.decider import Decision
from reflex.errors import NotReadyError, OverloadedError, ReflexError
from reflex.serving.config import ServeConfig
from reflex.serving.memory import give_back
from reflex.serving.slices import Slice

log = logging.getLogger("reflex.serving")

MAX_BATCH_REQUESTS = 64

IDLE_S = 2.0
"""Seconds without a request after which freed memory is given back to the system."""


@dataclass(eq=False)
class Ticket:
    """One accepted request: slices still to run and decisions so far. Times are `time.monotonic()`.

    unanswered: slices that wait or run.
    """

    slices: deque[Slice]
    future: Future[dict[str, Decision]]
    accepted: float
    unanswered: int
    started: float | None = None
    largest_batch: int = 0
    decisions: dict[str, Decision] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.slices) + self.slices[0].state_tokens


@dataclass(frozen=True)
class BatchStats:
    """One forward, as the metrics see it."""

    requests: int
    tokens: int
    seconds: float


class Batcher:
    """Owns the inference thread.

    decide: compiled requests → decisions of each, in order. cached: whether a state key needs no
    computing. on_batch: told about every forward.
    """

    def __init__(
        self,
        config: ServeConfig,
        decide: Callable[[Sequence[Any]], list[dict[str, Decision]]],
        cached: Callable[[str], bool] = lambda key: False,
        on_batch: Callable[[BatchStats], None] = lambda stats: None,
    ) -> None:
        self.config = config
        self._decide = decide
        self._cached = cached
        self._on_batch = on_batch
        self._waiting: deque[Ticket] = deque()
        self._running: tuple[Ticket, ...] = ()
        self._wake = threading.Condition()
        self._stopping = False
        self._expected = 1
        self._tokens_per_s = 0.0
        self._batch_s = 0.0
        self._thread = threading.Thread(target=self._loop, name="inference", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish everything accepted, then end the thread."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def depth(self) -> int:
        """Requests waiting or running."""
        return len(self._waiting) + sum(1 for ticket in self._running if not ticket.future.done())

    # -- the clients' side ---------------------------------------------------------------------

    def submit(self, slices: Sequence[Slice]) -> Ticket:
        """Accept a request. Raises OverloadedError when the queue is full, NotReadyError when stopping."""
        ticket = Ticket(deque(slices), Future(), time.monotonic(), len(slices))
        with self._wake:
            if self._stopping:
                raise NotReadyError("the server is stopping", retry_after=5.0)
            if len(self._waiting) >= self.config.max_queue:
                raise OverloadedError(
                    f"{len(self._waiting)} requests are waiting (serve.max_queue); try again later",
                    retry_after=self._backlog_s(),
                )
            self._waiting.append(ticket)
            self._wake.notify_all()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """The client is gone or its time is up: what has not run yet never will."""
        with self._wake:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
                ticket.future.cancel()

    def _backlog_s(self) -> float:
        """Seconds until today's queue is done, between 1 and 60."""
        tokens = sum(ticket.tokens for ticket in self._waiting)
        return min(60.0, max(1.0, tokens / self._tokens_per_s if self._tokens_per_s else 1.0))

    # -- the inference thread ------------------------------------------------------------------

    def _loop(self) -> None:
        tidy = True
        while True:
            with self._wake:
                asked = self._wake.wait_for(
                    lambda: bool(self._waiting) or self._stopping, None if tidy else IDLE_S
                )
                if asked and not self._waiting:
                    return
                batch: list[tuple[Ticket, Slice]] = []
                if asked:
                    self._linger()
                    batch = self._take()
                self._running = tuple(ticket for ticket, _ in batch)
            if not asked:
                give_back()
            elif batch:
                self._run(batch)
            tidy = not asked
            with self._wake:
                self._running = ()

    def _linger(self) -> None:
        """Wait for as many requests as were around lately, at most the window. Lock held."""
        until = time.monotonic() + min(self.config.window_ms / 1000, self._batch_s / 8)
        while len(self._waiting) < self._expected and not self._stopping:
            left = until - time.monotonic()
            if self._filled():
                return
            if left <= 0:
                # They did not come: expect fewer, so that the last client left does not wait for them.
                self._expected = max(1, (self._expected + len(self._waiting)) // 2)
                return
            self._wake.wait(left)

    def _budget(self) -> float:
        """Tokens that one batch should compute."""
        return max(
            self._tokens_per_s * self.config.batch_ms / 1000, float(self.config.slice_tokens)
        )

    def _filled(self) -> bool:
        return self._tokens(ticket.slices[0] for ticket in self._waiting) >= self._budget()

    def _take(self) -> list[tuple[Ticket, Slice]]:
        """The next batch. Lock held."""
        now = time.monotonic()
        self._expected = max(self._expected, min(len(self._waiting), MAX_BATCH_REQUESTS))
        budget = self._budget()
        chosen: list[tuple[Ticket, Slice]] = []
        states: set[str] = set()
        taken: dict[Ticket, None] = {}
        advanced = True
        while advanced and self._waiting:
            advanced = False
            for ticket in list(self._waiting):
                cost = self._cost(ticket.slices[0], states)
                if chosen and (cost > budget or len(chosen) >= MAX_BATCH_REQUESTS):
                    continue
                budget -= cost
                states.add(ticket.slices[0].state_key)
                chosen.append((ticket, ticket.slices.popleft()))
                taken[ticket] = None
                advanced = True
                if not ticket.slices:
                    self._waiting.remove(ticket)
        for ticket in taken:  # those with slices left go behind the others
            ticket.started = ticket.started or now
            if ticket.slices:
                self._waiting.remove(ticket)
                self._waiting.append(ticket)
        return chosen

    def _cost(self, part: Slice, states: set[str]) -> int:
        known = part.state_key in states or self._cached(part.state_key)
        return part.tokens if known else part.tokens + part.state_tokens

    def _tokens(self, parts: Iterable[Slice]) -> int:
        """What one forward over `parts` computes."""
        states: set[str] = set()
        total = 0
        for part in parts:
            total += self._cost(part, states)
            states.add(part.state_key)
        return total

    def _run(self, batch: list[tuple[Ticket, Slice]]) -> None:
        tokens = self._tokens(part for _, part in batch)
        start = time.perf_counter()
        try:
            decided = self._decide([part.compiled for _, part in batch])
        except Exception as error:
            self._run_apart(batch, error)
            return
        seconds = time.perf_counter() - start
        requests = len({id(ticket) for ticket, _ in batch})
        self._learn(tokens, seconds)
        self._on_batch(BatchStats(requests, tokens, seconds))
        for (ticket, _), decisions in zip(batch, decided, strict=True):
            self._deliver(ticket, decisions, requests)

    def _run_apart(self, batch: list[tuple[Ticket, Slice]], error: Exception) -> None:
        """A failed batch is asked again one by one, so that a fault stays with its request."""
        if len(batch) == 1:
            if isinstance(error, ReflexError):  # says itself what is wrong
                log.error("a forward failed: %s", error)
            else:
                log.error("a forward failed: %s", type(error).__name__, exc_info=error)
            ticket = batch[0][0]
            with self._wake:
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
            _fail(ticket, error)
            return
        log.warning(
            "a batch of %d failed (%s); asking one by one", len(batch), type(error).__name__
        )
        self._tokens_per_s /= 2  # out of memory is the usual reason: smaller batches from here on
        for item in batch:
            if not item[0].future.done():
                self._run([item])

    def _learn(self, tokens: int, seconds: float) -> None:
        speed = tokens / max(seconds, 1e-6)
        weight = 0.2 if self._tokens_per_s else 1.0
        self._tokens_per_s += weight * (speed - self._tokens_per_s)
        self._batch_s += weight * (seconds - self._batch_s)

    def _deliver(self, ticket: Ticket, decisions: dict[str, Decision], requests: int) -> None:
        ticket.largest_batch = max(ticket.largest_batch, requests)
        ticket.decisions |= decisions
        with self._wake:
            ticket.unanswered -= 1
            if not ticket.unanswered:
                with suppress(InvalidStateError):  # failed before, or its client just left
                    ticket.future.set_result(ticket.decisions)


def _fail(ticket: Ticket, error: Exception) -> None:
    with suppress(InvalidStateError):
        ticket.future.set_exception(error)
