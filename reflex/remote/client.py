"""Asking a server through the official client: many requests in flight, retries, one line per answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reflex.contract import Request, Response, parse_request
from reflex.errors import ConfigError, RemoteError, brief
from reflex.remote import health
from reflex.remote.answers import decisions_of, distributions
from reflex.remote.remote import RemoteModel

if TYPE_CHECKING:
    from typesafe_sdk import AsyncTypeSafeClient, RetryPolicy

    from reflex.decider import Decision

HOPELESS = frozenset({401, 403, 404})
"""Status codes that every other item would get as well."""

GIVE_UP = 10
"""Items that fail in a row before the rest is not asked any more."""


@dataclass
class Asked:
    """One item's exchange. `ms`: from the first try to the end, waits between tries included."""

    response: Response | None = None
    ms: float = 0.0
    failed_tries: list[str] = field(default_factory=list)
    error: str | None = None
    hopeless: bool = False


class RemoteDecider:
    """Answers requests like a `Decider`, by asking a server. `reflex.load(["model=remote", …])`."""

    def __init__(self, config: RemoteModel) -> None:
        self.config = config
        self.served = health.served(config.base_url)
        readout = self.served.get("readout")
        self.readouts: Mapping[str, str] = readout if isinstance(readout, Mapping) else {}

    @property
    def name(self) -> str:
        return str(self.served.get("model") or self.config.model)

    def answer(self, request: Request | Mapping[str, Any]) -> Response:
        """Answer one request (a dict is validated first). Raises RequestError, RemoteError."""
        return self.answer_many([request])[0]

    def answer_many(self, requests: Sequence[Request | Mapping[str, Any]]) -> list[Response]:
        """Answer several requests, `concurrency` at a time. Raises at the first that stays unanswered."""
        parsed = [r if isinstance(r, Request) else parse_request(r) for r in requests]
        found: dict[int, Response] = {}

        def keep(index: int, asked: Asked) -> None:
            if asked.response is None:
                raise RemoteError(f"{self.config.base_url}: {asked.error}")
            found[index] = asked.response

        self.ask_all(dict(enumerate(parsed)), keep)
        return [found[index] for index in range(len(parsed))]

    def decide(self, requests: Sequence[Request]) -> list[dict[str, Decision]]:
        """Decisions of every question of every request, as the server's probabilities make them."""
        answered = self.answer_many(requests)
        return [decisions_of(*pair, self.readouts) for pair in zip(requests, answered, strict=True)]

    def ask_all(self, requests: Mapping[int, Request], done: Callable[[int, Asked], None]) -> None:
        """Ask every request; `done` gets each outcome as it comes, in this thread, and may raise.

        Raises ConfigError for a key that is refused or an address that is no such server, RemoteError
        when `GIVE_UP` items in a row stay unanswered; what is in flight is then dropped.
        """
        run(self._ask_all(requests, done))

    async def _ask_all(
        self, requests: Mapping[int, Request], done: Callable[[int, Asked], None]
    ) -> None:
        waiting = iter(requests.items())
        in_a_row = 0

        async def work(client: AsyncTypeSafeClient) -> None:
            nonlocal in_a_row
            for index, request in waiting:
                asked = await self.ask(client, request)
                in_a_row = 0 if asked.response is not None else in_a_row + 1
                done(index, asked)
                if asked.hopeless:
                    raise ConfigError(f"model.base_url={self.config.base_url}: {asked.error}")
                if in_a_row >= GIVE_UP:
                    raise RemoteError(
                        f"{self.config.base_url}: {in_a_row} items in a row stayed unanswered, the last "
                        f"because of: {asked.error}"
                    )

        async with sdk().AsyncTypeSafeClient(
            api_key=health.api_key(),
            base_url=self.config.base_url,
            model=self.config.model,
            timeout=self.config.timeout_s,
        ) as client:
            workers = [
                asyncio.ensure_future(work(client))
                for _ in range(min(self.config.concurrency, len(requests)))
            ]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)

    async def ask(self, client: AsyncTypeSafeClient, request: Request) -> Asked:
        """One request with its retries, and what it says beside state and questions (a `model` of its own, orders).

        Never raises for what the server does.
        """
        asked = Asked()
        raw = request.model_dump(mode="json", exclude_none=True)  # fields, not options
        further = (request.model_fields_set & raw.keys()) - {"state", "questions"}
        start = time.perf_counter()
        try:
            # The contract's own model: extras (`x_…`) stay, and both kinds of decider answer alike.
            response = await client.system_one(
                raw["state"],
                raw["questions"],
                retry=self._policy(asked),
                extra_body={name: raw[name] for name in sorted(further)},
                response_model=Response,
            )
            distributions(request, response)  # raises for what is no answer
            asked.response = response
        except (sdk().TypeSafeError, RemoteError) as error:
            asked.error = _line(error)
            asked.hopeless = getattr(error, "status", None) in HOPELESS
        asked.ms = 1e3 * (time.perf_counter() - start)
        return asked

    def _policy(self, asked: Asked) -> RetryPolicy:
        """The retry rule of one request; failed tries are noted in `asked`."""

        def again(error: BaseException) -> bool:
            asked.failed_tries.append(_line(error))
            if isinstance(error, sdk().TypeSafeAPIConnectionError):
                return True
            return getattr(error, "status", None) in health.PASSING

        return sdk().RetryPolicy(
            max_retries=self.config.retries,
            backoff_max=20.0,
            timeout=self.config.retry_s,
            http_statuses=set(),
            api_connection_error=False,
            api_timeout_error=False,
            predicate=again,  # sees every error, which the built-in rules do not show
        )


def sdk() -> Any:
    """The official client. Raises ConfigError with the fix where it is not installed."""
    try:
        import typesafe_sdk
    except ImportError:
        raise ConfigError(
            "model=remote needs the client: pip install 'reflex-systemone[remote]'"
        ) from None
    return typesafe_sdk


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, also where a loop is already running (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    # Not as a context: its end would wait for the thread after Ctrl-C too.
    ThreadPoolExecutor(1).submit(asyncio.run, work).result()


def _line(error: BaseException) -> str:
    return f"{type(error).__name__.removeprefix('TypeSafe')}: {brief(error)}"
