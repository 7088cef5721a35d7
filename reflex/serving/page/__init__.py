"""The playground at `/`: one page, its own files only, no build step."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).parent
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
HEADERS = {
    # Nothing from outside, nothing inline, nobody's frame.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
    "vary": "accept",
}

Handler = Callable[[Request], Awaitable[Response]]


def wants_page(request: Request) -> bool:
    """Whether `/` is asked for by a browser; programs get JSON."""
    return "text/html" in request.headers.get("accept", "")


def page(request: Request) -> Response:
    """The page itself."""
    return _reply(FOLDER / "index.html", request)


def assets() -> dict[str, Handler]:
    """GET handlers of the page's files by path. The files are few and known, so none is looked up."""
    return {
        f"/playground/{path.name}": _handler(path)
        for path in sorted(FOLDER.iterdir())
        if path.suffix in TYPES and path.name != "index.html"
    }


def _handler(path: Path) -> Handler:
    async def handle(request: Request) -> Response:
        return _reply(path, request)

    return handle


def _reply(path: Path, request: Request) -> Response:
    body = path.read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers = {**HEADERS, "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=TYPES[path.suffix])
