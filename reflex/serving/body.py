"""A request body to a JSON object: bounded in size and time, decompressed, parsed strictly.

Whatever a client sends, the result is a dict or a ReflexError with a 4xx of its own; nothing here can
turn a bad body into a server fault.
"""

from __future__ import annotations

import asyncio
import json
import math
import zlib
from collections.abc import Iterator
from email.parser import BytesHeaderParser
from typing import Any, NoReturn

import zstandard
from starlette.requests import ClientDisconnect, Request

from reflex.errors import (
    BodyTimeoutError,
    BodyTooLargeError,
    MediaTypeError,
    RequestError,
    brief,
)
from reflex.serving.held import Reservation

MAX_DEPTH = 100
"""Containers inside containers; far above any real state and far below what any parser minds."""

DRAIN_FACTOR = 8
"""An oversized body is read to its end up to this many times the limit, so that its sender sees a 413
and not a broken pipe."""

STEP = 1 << 16
"""Bytes that are decompressed before the size is looked at again."""

FEED = 1 << 10
"""Compressed bytes that a decoder gets at once: what lies behind the end of a member is copied."""

MAX_ENCODINGS = 4
"""Encodings on top of each other, each of which may hold a whole body."""

MAX_PARTS = 1024
MAX_PART_HEADER = 4096
"""Parts of a multipart body and bytes of one part's header, as everywhere."""


async def read_body(request: Request, max_bytes: int, timeout_s: float, body: Reservation) -> bytes:
    """The raw body, whose size `body` is told: as announced, and as it comes.

    Raises BodyTooLargeError, BodyTimeoutError, OverloadedError; ClientDisconnect when the client left.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _read(request, max_bytes, body)
    except TimeoutError:
        raise BodyTimeoutError(
            f"the request body did not arrive within {timeout_s:g} s (serve.body_timeout_s)"
        ) from None


async def _read(request: Request, max_bytes: int, body: Reservation) -> bytes:
    announced = request.headers.get("content-length", "")
    if announced.isdigit():
        body.reach(min(int(announced), max_bytes))
        if int(announced) > DRAIN_FACTOR * max_bytes:
            raise _too_large(max_bytes)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= max_bytes:
            body.reach(size)
            chunks.append(chunk)
        elif size > DRAIN_FACTOR * max_bytes:
            break
    if size > max_bytes:
        raise _too_large(max_bytes)
    return b"".join(chunks)


def _too_large(max_bytes: int) -> BodyTooLargeError:
    return BodyTooLargeError(
        f"the request body is larger than {max_bytes / (1 << 20):g} MB (serve.max_body_mb)"
    )


# -- content encodings -----------------------------------------------------------------------------


def decompress(raw: bytes, encoding: str, max_bytes: int, body: Reservation) -> bytes:
    """Undo Content-Encoding (several, in reverse order). Never makes more than `max_bytes` + a chunk, and tells
    `body` what is held of it: both forms.

    Raises MediaTypeError for an unknown encoding or too many, RequestError for damaged data, BodyTooLargeError,
    OverloadedError.
    """
    names = [part.strip().lower() for part in encoding.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if len(names) > MAX_ENCODINGS:
        raise MediaTypeError(f"content-encoding: {len(names)} on top of each other; send one")
    for name in reversed(names):
        if name not in ("gzip", "x-gzip", "deflate", "zstd"):
            raise MediaTypeError(f"content-encoding {name!r}: send zstd, gzip, deflate or identity")
        try:
            chunks = _zstd(raw) if name == "zstd" else _zlib(raw)
            raw = _collect(chunks, max_bytes, body, len(raw))
        except (zlib.error, zstandard.ZstdError, EOFError) as error:
            raise RequestError(f"the body is not valid {name} ({error})") from None
    return raw


def _collect(chunks: Iterator[bytes], max_bytes: int, body: Reservation, packed: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(max_bytes)
        body.reach(packed + size)
        parts.append(chunk)
    return b"".join(parts)


def _zstd(raw: bytes) -> Iterator[bytes]:
    # max_window_size bounds what a hostile frame header can make the decoder allocate.
    decoder = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    announced = zstandard.frame_content_size(raw)  # -1 where the frame does not say
    produced = 0
    with decoder.stream_reader(raw, read_across_frames=True) as reader:
        while chunk := reader.read(STEP):
            produced += len(chunk)
            yield chunk
    if produced < announced or (announced < 0 and not produced):
        raise EOFError("truncated")


def _zlib(raw: bytes) -> Iterator[bytes]:
    """gzip (any number of members), zlib, or raw deflate."""
    at = 0
    while at < len(raw):
        zipped = raw[at : at + 2] == b"\x1f\x8b"
        wbits = 47 if zipped or raw[at] & 0x0F == 8 else -15
        decoder = zlib.decompressobj(wbits)
        pending = b""
        while not decoder.eof:
            if not pending:
                pending = raw[at : at + FEED]
                at += len(pending)
            chunk = decoder.decompress(pending, STEP)
            if not (chunk or pending or decoder.eof):
                raise EOFError("truncated")
            pending = decoder.unconsumed_tail
            yield chunk
        if not zipped:
            return
        at -= len(decoder.unused_data)


# -- JSON ------------------------------------------------------------------------------------------


def parse_json(raw: bytes) -> Any:
    """Strict JSON: UTF-8, finite numbers, no duplicate keys, bounded depth, no lone surrogates.

    Raises RequestError, one line that says where and what.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _invalid(f"not UTF-8 at byte {error.start}") from None
    try:
        value = json.loads(
            text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_no_duplicates
        )
    except RecursionError:
        raise _invalid(f"nested deeper than {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as error:
        raise _invalid(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError:  # an integer with more digits than Python converts
        raise _invalid("a number with too many digits") from None
    _check_tree(value, "\\u" in text or "\\U" in text)
    return value


def _invalid(reason: str) -> RequestError:
    return RequestError(f"invalid JSON: {reason}", ("body",))


def _no_constant(name: str) -> NoReturn:
    raise _invalid(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _invalid(f"the number {text[:20]} is out of range")
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _invalid(f"the key {twice[:80]!r} appears twice in one object")
    return found


def _check_tree(root: Any, escapes: bool) -> None:
    """Depth, and (only where escapes can have made them) lone surrogates; no recursion."""
    level = [root]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                if escapes:
                    below += value
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif escapes and isinstance(value, str) and not value.isascii():
                _check_text(value)
        if not below:
            return
        level = below
    raise _invalid(f"nested deeper than {MAX_DEPTH} levels")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _invalid(
            "a string holds half of a surrogate pair, which is not a character"
        ) from None


# -- multipart -------------------------------------------------------------------------------------


def multipart_request(raw: bytes, content_type: str) -> bytes:
    """The part `request` of a multipart/form-data body (what clients send with images).

    Raises RequestError when it is missing, and for headers that cannot be read. Other parts are images; the
    JSON's `assets` names them.
    """
    head = b"Content-Type: " + content_type.encode("latin-1", "replace")
    boundary = _parameter(head, "content-type", "boundary").encode("latin-1", "replace")
    # The preamble, the parts, and what follows the last of them, which begins with two more dashes.
    pieces = (b"\r\n" + raw).split(b"\r\n--" + boundary, MAX_PARTS + 1) if boundary else []
    for part in pieces[1 : MAX_PARTS + 1]:
        if part.startswith(b"--"):
            break
        head, _, content = part.partition(b"\r\n\r\n")
        if _parameter(head.lstrip(), "content-disposition", "name") == "request":
            return content
    raise RequestError("the multipart body has no part named `request` with the JSON", ("body",))


def _parameter(head: bytes, header: str, name: str) -> str:
    """A parameter of one of the headers in `head`, "" where it is absent. Raises RequestError."""
    if len(head) > MAX_PART_HEADER:
        raise RequestError(f"a multipart header of more than {MAX_PART_HEADER} bytes", ("body",))
    try:
        found = BytesHeaderParser().parsebytes(head + b"\r\n\r\n").get_param(name, "", header)
    except Exception as error:  # the parser lets through whatever it stumbles over
        raise RequestError(
            f"a multipart header cannot be read ({brief(error)})", ("body",)
        ) from None
    return found if isinstance(found, str) else ""


__all__ = ["ClientDisconnect", "decompress", "multipart_request", "parse_json", "read_body"]
