"""Bad bodies: whatever arrives ends in a clean 4xx, and the server goes on."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import random
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from reflex.contract import parse_request
from reflex.errors import (
    BodyTooLargeError,
    ContextLengthError,
    MediaTypeError,
    OverloadedError,
    ReflexError,
    RequestError,
)
from reflex.serving import exchange
from reflex.serving.body import FEED, MAX_DEPTH, decompress, multipart_request, parse_json
from reflex.serving.exchange import Exchange
from reflex.serving.held import Held
from reflex.serving.replies import status_of
from reflex.serving.slices import cut
from tests.serving import NOUL, REQUEST, get, post, serving, tiny_decider

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def unpacked(raw: bytes, encoding: str, most: int, held: Held | None = None) -> bytes:
    with (held or Held(1 << 40)).body() as body:
        return decompress(raw, encoding, most, body)


@given(JSON)
@settings(max_examples=60, deadline=None)
def test_every_json_value_survives(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            continue
        assert parse_json(raw) == value


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_json_or_a_4xx(raw: bytes) -> None:
    for encoding in ("", "gzip", "zstd", "deflate"):
        caught = None
        try:
            parse_json(unpacked(raw, encoding, 1 << 20))
        except ReflexError as error:
            caught = error
        if caught is not None:
            assert 400 <= status_of(caught) < 500
            assert "\n" not in str(caught)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b'{"a": NaN}', "NaN"),
        (b'{"a": [Infinity]}', "Infinity"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "'c' appears twice"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": "\x00"}', "control character"),
        (b'{"a": 1,}', "line 1"),
        (b'{"a": [1, 2', "line 1"),
        (b"", "line 1"),
        (b"[" * 200 + b"]" * 200, f"deeper than {MAX_DEPTH}"),
        (b"[" * 100_000, f"deeper than {MAX_DEPTH}"),
        (b'{"a":' * 100_000, f"deeper than {MAX_DEPTH}"),
    ],
)
def test_what_is_not_json_is_named(raw: bytes, says: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_json(raw)
    assert says in str(caught.value)


def test_legal_oddities_are_kept() -> None:
    assert parse_json(b'{"a": "\\u0000\\ud83d\\ude00"}') == {"a": "\0\N{GRINNING FACE}"}
    assert parse_json(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}
    deep = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert parse_json(deep) is not None


@pytest.mark.parametrize("size", [0, 1, 1000, 300_000])
def test_encodings_are_undone(size: int) -> None:
    data = random.Random(size).randbytes(size)
    cases = {
        "gzip": gzip.compress(data),
        "deflate": zlib.compress(data),
        "zstd": zstandard.ZstdCompressor().compress(data),
        "identity": data,
        "gzip, zstd": zstandard.ZstdCompressor().compress(gzip.compress(data)),
    }
    for encoding, raw in cases.items():
        assert unpacked(raw, encoding, 1 << 20) == data, encoding
    streamed = zstandard.ZstdCompressor().compressobj()
    assert unpacked(streamed.compress(data) + streamed.flush(), "zstd", 1 << 20) == data
    raw_deflate = zlib.compressobj(wbits=-15)
    assert unpacked(raw_deflate.compress(data) + raw_deflate.flush(), "deflate", 1 << 20) == data
    assert unpacked(gzip.compress(data) * 2, "gzip", 1 << 20) == data * 2


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "deflate"])
def test_bombs_and_stumps(encoding: str) -> None:
    compress: Any = {
        "gzip": gzip.compress,
        "zstd": zstandard.ZstdCompressor().compress,
        "deflate": zlib.compress,
    }[encoding]
    with pytest.raises(BodyTooLargeError):
        unpacked(compress(bytes(50 << 20)), encoding, 1 << 20)
    whole = compress(random.Random(1).randbytes(5000))
    with pytest.raises(RequestError):
        unpacked(whole[: len(whole) // 2], encoding, 1 << 20)
    with pytest.raises(RequestError):
        unpacked(b"not compressed at all", encoding, 1 << 20)
    with pytest.raises(MediaTypeError, match="br"):
        unpacked(whole, "br", 1 << 20)


def test_members_without_content_take_time_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder copies what lies behind the end of its member: it must not be given all of it."""
    raw = gzip.compress(b"") * 2000 + gzip.compress(b"{}")
    real, given = zlib.decompressobj, 0

    class Decoder:
        def __init__(self, wbits: int) -> None:
            self.own = real(wbits)

        def decompress(self, data: bytes, most: int) -> bytes:
            nonlocal given
            given += len(data)
            return self.own.decompress(data, most)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.own, name)

    monkeypatch.setattr(zlib, "decompressobj", Decoder)
    assert unpacked(raw, "gzip", 1 << 20) == b"{}"
    assert len(raw) <= given <= 2001 * FEED


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "deflate", "deflate, gzip"])
def test_what_a_body_unpacks_to_counts_as_held(encoding: str) -> None:
    raw, held = bytes(300_000), Held(400_000)
    pack: dict[str, Any] = {"gzip": gzip.compress, "zstd": zstandard.compress}
    for name in encoding.split(", "):
        raw = pack.get(name, zlib.compress)(raw)
    with held.body() as body:
        assert decompress(raw, encoding, 1 << 20, body) == bytes(300_000)
        assert 300_000 < held.nbytes < 310_000
        with pytest.raises(OverloadedError):
            unpacked(raw, encoding, 1 << 20, held)
        assert held.nbytes == body.nbytes
    assert held.nbytes == 0


def test_encodings_on_top_of_each_other_have_an_end() -> None:
    raw = zlib.compress(b"{}")
    assert unpacked(raw, "identity, deflate" + ", identity" * 100, 1 << 20) == b"{}"
    with pytest.raises(MediaTypeError, match="5 on top of each other"):
        unpacked(raw, ", ".join(["deflate"] * 5), 1 << 20)


def test_multipart_without_a_request_part() -> None:
    with pytest.raises(RequestError, match="no part named"):
        multipart_request(b"--b\r\n\r\nx\r\n--b--\r\n", "multipart/form-data; boundary=b")
    with pytest.raises(RequestError, match="no part named"):
        multipart_request(b"junk", "multipart/form-data")


def part(disposition: bytes, content: bytes = b"{}") -> bytes:
    head = b"--b\r\nContent-Disposition: form-data; " + disposition
    return head + b"\r\n\r\n" + content + b"\r\n"


def request_part(raw: bytes, kind: str = "multipart/form-data; boundary=b") -> bytes:
    return multipart_request(raw, kind)


def test_the_request_part_is_found_among_others_as_it_was_sent() -> None:
    picture, wanted = b"\x89PNG\r\n--bb\n--b", b'{"a":\r\n1}\r\n'
    named = part(b'filename="a;b"; name="request"', wanted)
    raw = b"before\r\n" + part(b"name=asset-0", picture) + named
    assert request_part(raw + b"--b--\r\nafter") == wanted
    assert request_part(raw + b"--b--", 'multipart/form-data; charset=x; boundary="b"') == wanted
    with pytest.raises(RequestError, match="no part named"):
        request_part(part(b"name=x") + b"--b--\r\n" + named)


@pytest.mark.parametrize(
    "disposition",
    [
        b"name=" + b"(" * 2000,
        b"name*" + b"1" * 5000 + b"=x",
        b"name*=utf-16''x",
        b"a=b; " * 1_600_000,
        b'name="\xff\x00',
    ],
    ids=["brackets", "digits", "charset", "many", "bytes"],
)
def test_a_hostile_part_header_is_a_422_at_once(disposition: bytes) -> None:
    started = time.process_time()
    with pytest.raises(RequestError) as caught:
        request_part(part(disposition) + b"--b--\r\n")
    assert time.process_time() - started < 5
    assert (status_of(caught.value), caught.value.loc) == (422, ("body",))


@given(st.binary(max_size=200), st.text(max_size=50))
@settings(max_examples=200, deadline=None)
def test_any_part_header_and_content_type_is_a_body_or_a_422(head: bytes, kind: str) -> None:
    for raw, content_type in (
        (part(b"name=request; " + head), "multipart/form-data; boundary=b"),
        (part(head), f"multipart/form-data; boundary={kind}"),
    ):
        with contextlib.suppress(RequestError):
            multipart_request(raw, content_type)


def test_a_body_of_a_million_tiny_parts_is_refused_at_once() -> None:
    started = time.process_time()
    with pytest.raises(RequestError, match="no part named"):
        request_part(b"--b\r\n\r\n\r\n" * (1 << 18))
    assert time.process_time() - started < 5


# -- over the wire ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(tiny_decider(), max_body_mb=1.0, body_timeout_s=1.0) as base:
        yield base


def still_alive(url: str) -> bool:
    return post(url, REQUEST)[0] == 200


@pytest.mark.parametrize("door", ["/v1/systemone", "/v1/decisions"])
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"[" * 50_000,
        b'{"state": NaN}',
        b'{"state": "\\ud800", "questions": {}}',
        b"\xff\xfe\x00",
    ],
)
def test_bad_json_is_422(url: str, raw: bytes, door: str) -> None:
    status, reply, _ = post(url, raw, door)
    assert status == 422
    assert reply["detail"][0]["loc"][0] == "body"


def test_nul_and_controls_in_text_are_text(url: str) -> None:
    question = {**NOUL, "instructions": "Is \0 there?\x07"}
    status, reply, _ = post(url, {"state": "a\0b\x1b[31m", "questions": {"q\0": question}})
    assert status == 200
    assert list(reply["answers"]) == ["q\0"]


def test_ten_thousand_questions(url: str) -> None:
    questions = {f"q{i}": NOUL for i in range(10_000)}
    status, reply, _ = post(url, {"state": "x", "questions": questions})
    assert status == 422
    assert "10000 questions" in reply["detail"][0]["msg"]
    many = [{"type": "predicate", "instructions": "?"}] * 10_000
    status, reply, _ = post(url, {"model": "m", "input": "x", "questions": many}, "/v1/decisions")
    assert status == 422
    assert "10000 questions" in reply["error"]["message"]


@pytest.mark.parametrize("size_mb", [2, 10, 40])
def test_large_bodies_are_413(url: str, size_mb: int) -> None:
    """Read to the end (or refused by their announced length), so the client sees the reply."""
    if size_mb <= 8:
        status, reply, _ = post(url, b'{"state": "' + b"x" * (size_mb << 20))
        assert (status, reply["detail"]["error_type"]) == (413, "request_too_large")
    else:
        host = urlsplit(url).netloc
        connection = http.client.HTTPConnection(host, timeout=20)
        connection.putrequest("POST", "/v1/systemone")
        connection.putheader("content-length", str(size_mb << 20))
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()
    assert still_alive(url)


def test_chunked_body_without_a_length(url: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    pieces = (b"x" * 65536 for _ in range(32))
    connection.request(
        "POST",
        "/v1/systemone",
        pieces,
        encode_chunked=True,
        headers={"transfer-encoding": "chunked"},
    )
    assert connection.getresponse().status == 413
    body = json.dumps(REQUEST).encode()
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    connection.request(
        "POST",
        "/v1/systemone",
        iter([body[:50], body[50:]]),
        encode_chunked=True,
        headers={"transfer-encoding": "chunked"},
    )
    assert connection.getresponse().status == 200


def test_bodies_count_as_held_however_they_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "HELD_BODIES", 0.01)
    spaces = json.dumps(REQUEST).encode() + b" " * 20_000
    with serving(tiny_decider(), max_body_mb=1.0) as base:
        connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=20)
        connection.request("POST", "/v1/systemone", iter([spaces]), encode_chunked=True)
        assert connection.getresponse().status == 429
        assert post(base, gzip.compress(spaces), content_encoding="gzip")[0] == 429
        assert post(base, spaces)[0] == 429
        assert still_alive(base)


def test_half_a_body_and_then_silence_is_408(url: str) -> None:
    body = json.dumps(REQUEST).encode()
    head = f"POST /v1/systemone HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20) as peer:
        peer.sendall(head + body[: len(body) // 2])
        assert b" 408 " in peer.recv(4096).split(b"\r\n")[0]
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20) as peer:
        peer.sendall(head + body[: len(body) // 2])  # and hang up
    assert still_alive(url)


def test_a_slow_sender_is_answered(url: str) -> None:
    body = json.dumps(REQUEST).encode()
    head = f"POST /v1/systemone HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20) as peer:
        peer.sendall(head)
        for start in range(0, len(body), 100):
            peer.sendall(body[start : start + 100])
            time.sleep(0.02)
        assert b" 200 " in peer.recv(4096).split(b"\r\n")[0]


def test_unknown_encoding_is_415_and_headers_may_be_junk(url: str) -> None:
    assert post(url, REQUEST, content_encoding="br")[0] == 415
    assert post(url, REQUEST, content_encoding="gzip")[0] == 422
    assert post(url, REQUEST, content_type="text/plain")[0] == 200
    assert post(url, REQUEST, authorization="Bearer \xff\xfe")[0] == 200
    headers = post(url, REQUEST, x_request_id="mine-1")[2]
    assert headers["x-typesafe-request-id"] == "mine-1"
    headers = post(url, REQUEST, x_request_id="<script>" * 40)[2]
    assert "<" not in headers["x-typesafe-request-id"]


def test_a_small_body_that_unpacks_to_more_is_not_unpacked_on_the_event_loop(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    prepare = Exchange._prepare

    def seen(self: Exchange, *given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return prepare(self, *given)

    monkeypatch.setattr(Exchange, "_prepare", seen)
    assert post(url, REQUEST)[0] == 200
    packed = gzip.compress(json.dumps(REQUEST).encode())
    assert post(url, packed, content_encoding="gzip")[0] == 200
    assert [name.startswith("prepare") for name in threads] == [False, True]


def test_a_request_is_refused_before_all_of_it_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few compressed bytes ask for a thousand copies of long instructions."""
    model, rendered = tiny_decider().model, 0
    style, branch = type(model.style), type(model.style).branch

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal rendered
        rendered += 1
        return branch(*given, **named)

    monkeypatch.setattr(style, "branch", counted)
    options = {chr(0x4E00 + i): None for i in range(2000)}
    asked = {"type": "choice", "instructions": "word " * 1000, "criteria": options}
    request = parse_request({"state": "x", "questions": {"q": asked}, "permutations": 8})
    with pytest.raises(ContextLengthError, match=r"longer than 20000 tokens.*max_request_tokens"):
        cut(model, request, 512, 20_000)
    assert 1 <= rendered <= 20  # of 616
    few = parse_request({"state": "x", "questions": {"q": NOUL}, "permutations": 2})
    (whole,) = cut(model, few, 512, 20_000)
    size = whole.tokens + whole.state_tokens
    assert cut(model, few, 512, size)[0].tokens == whole.tokens
    for less in (size - 1, whole.tokens - 1, 1):
        with pytest.raises(ContextLengthError, match=f"longer than {less} tokens"):
            cut(model, few, 512, less)


def test_limits_name_their_switch(url: str) -> None:
    big = {"type": "choice", "criteria": {f"o{i}": None for i in range(5000)}}
    status, reply, _ = post(url, {"state": "x", "questions": {"q": big}})
    assert status == 422
    assert "serve.max_options" in reply["detail"][0]["msg"]
    with serving(tiny_decider(), max_request_tokens=500, max_state_chars=100) as small:
        questions = {f"q{i}": NOUL for i in range(20)}
        status, reply, _ = post(small, {"state": "x", "questions": questions})
        assert status == 413
        assert "serve.max_request_tokens" in reply["detail"]["message"]
        status, reply, _ = post(small, {"state": {"a": "x" * 101}, "questions": {"q": NOUL}})
        assert status == 413
        assert "serve.max_state_chars" in reply["detail"]["message"]
    assert get(url, "/health")[0] == 200
