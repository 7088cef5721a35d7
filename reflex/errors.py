"""The exception family: every mistake a user can make is one of these, and reads as one line.

A message names the file, line, key or argument and the fix. `HTTP_STATUS` is the only table that turns
an error into a status code.
"""

from __future__ import annotations


class ReflexError(Exception):
    """Base of everything reflex raises on purpose; `str(error)` is one clear line."""


class ConfigError(ReflexError):
    """A configuration key, value or combination that cannot work."""


class RequestError(ReflexError):
    """A request (or a row's question) that violates the wire contract.

    `loc` is the path of the offending value, e.g. `("body", "questions", "q1", "criteria")`, where there is
    one; `str(error)` is that path and `message`.
    """

    def __init__(self, message: str, loc: tuple[str | int, ...] = ()) -> None:
        super().__init__(f"{'.'.join(map(str, loc))}: {message}" if loc else message)
        self.message = message
        self.loc = loc


class PromptError(ReflexError):
    """A prompt that cannot be rendered or does not fit the context."""


class ContextLengthError(PromptError):
    """State plus longest branch exceed the backbone's context; nothing is ever truncated."""


class BackboneError(ReflexError):
    """Weights, tokenizer or device that cannot be loaded or used as asked."""


class AssetError(BackboneError):
    """A registry asset that cannot be fetched or does not match its hash."""


class MissingAssetError(AssetError):
    """An asset that is not here and that no package registry gave."""


class ReadoutError(ReflexError):
    """A readout that cannot score a question (for example a label that is not one token)."""


class DataError(ReflexError):
    """A data file or label that cannot be used; the message names file and line."""


class MissingDataError(DataError):
    """Data that are not on this machine and could not be fetched; what is here and broken is a plain DataError."""


class ContaminationError(DataError):
    """Benchmark data offered as training or calibration data."""


class TrainingError(ReflexError):
    """A training run that cannot start, continue or be trusted: wrong checkpoint, non-finite loss."""


class CalibrationError(ReflexError):
    """A calibration that cannot be fitted or does not belong to this run."""


class RecordError(ReflexError):
    """A run record that cannot be written or read."""


class RemoteError(ReflexError):
    """A server that was asked and did not answer, or answered what cannot be used."""


class ServiceError(ReflexError):
    """Something about the exchange with a server, not about what was asked.

    `kind` names it on the wire; `retry_after` is in seconds, None where trying again cannot help.
    """

    kind = "service_error"

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class AuthenticationError(ServiceError):
    """No API key, or one the server does not know."""

    kind = "authentication_error"


class BodyTimeoutError(ServiceError):
    """A request body that did not arrive completely in time."""

    kind = "body_timeout"


class BodyTooLargeError(ServiceError):
    """A request body above the server's limit, as sent or after decompression."""

    kind = "request_too_large"


class MediaTypeError(ServiceError):
    """A content encoding the server cannot decode."""

    kind = "unsupported_media_type"


class OverloadedError(ServiceError):
    """The queue is full; `retry_after` estimates when it will not be."""

    kind = "rate_limit_error"


class NotReadyError(ServiceError):
    """The model is still loading, could not be loaded, or the server is stopping."""

    kind = "not_ready"


class DeadlineError(ServiceError):
    """An accepted request that was not answered within the server's time limit."""

    kind = "timeout"


HTTP_STATUS: tuple[tuple[type[ReflexError], int], ...] = (
    (AuthenticationError, 401),
    (BodyTimeoutError, 408),
    (BodyTooLargeError, 413),
    (MediaTypeError, 415),
    (OverloadedError, 429),
    (NotReadyError, 503),
    (DeadlineError, 503),
    (ContextLengthError, 413),
    (RequestError, 422),
    (PromptError, 422),
    (ReadoutError, 422),
    (DataError, 422),
)
"""First match wins; anything absent is a server fault (500)."""


def brief(error: BaseException) -> str:
    """What a library's error says on one line of at most 200 characters, to stand inside a message of ours."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:199]}…"
