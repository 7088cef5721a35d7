"""Errors as HTTP replies: `reflex.errors.HTTP_STATUS` decides the code, the door decides the shape."""

from __future__ import annotations

import json
import math
from typing import Any, Literal

from starlette.responses import Response

from reflex.errors import HTTP_STATUS, ReflexError, RequestError, ServiceError

Door = Literal["systemone", "decisions"]

OPENAI_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


def status_of(error: BaseException) -> int:
    """The HTTP status of an error; 500 for whatever the table does not know."""
    for kind, status in HTTP_STATUS:
        if isinstance(error, kind):
            return status
    return 500


def json_reply(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON that is always finite (ValueError otherwise) and always decodable."""
    body = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Response(body, status, headers, media_type="application/json")


def error_reply(error: BaseException, door: Door = "systemone") -> Response:
    """The reply to a request that failed with `error`. A server fault says nothing of its insides."""
    status = status_of(error)
    headers: dict[str, str] = {}
    if isinstance(error, ServiceError) and error.retry_after is not None:
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after)))
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return json_reply(error_body(error, status, door), status, headers)


def error_body(error: BaseException, status: int, door: Door) -> dict[str, Any]:
    """422 carries `detail[]` with paths, everything else `detail.error_type` and `detail.message`.

    The Decisions door adds the `error` object its clients read.
    """
    known = isinstance(error, ReflexError) and status != 500
    message = str(error) if known else "internal error; the server's log has the details"
    loc: tuple[str | int, ...] = ("body",)
    msg = message
    if isinstance(error, RequestError):
        loc, msg = error.loc or loc, error.message
    body: dict[str, Any]
    if status == 422:
        entry = {"loc": list(loc), "msg": msg, "type": "value_error"}
        body = {"detail": [entry]}
    else:
        kind = (
            error.kind if isinstance(error, ServiceError) else KINDS.get(status, "internal_error")
        )
        body = {"detail": {"error_type": kind, "message": message}}
    if door == "decisions":
        body["error"] = openai_error(message, status, loc)
    return body


def openai_error(message: str, status: int, loc: tuple[str | int, ...] = ()) -> dict[str, Any]:
    """What clients of the Decisions door read; `param` is the path without `body`."""
    kind = OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    param = ".".join(map(str, loc[1:])) or None
    return {"message": message, "type": kind, "param": param, "code": None}


KINDS = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}
