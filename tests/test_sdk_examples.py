"""The text examples of `typesafe-sdk`, word for word as installed, against our server.

Nothing of them is kept here: the README is read from the package's metadata and the others from the docstrings
of its clients, so what runs is what the package ships. Each block is a script of its own; address and key come
from the environment, as the SDK documents.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
import typesafe_sdk
from typesafe_sdk import AsyncTypeSafeClient, TypeSafeClient

from tests.serving import serving, tiny_decider

WITHOUT_EXTRA = "sys.modules['backports.zstd'] = None"
WITH_EXTRA = "import typesafe_sdk._core.transport as t; t.MIN_COMPRESSED_BODY_LENGTH = 1"
"""The examples' bodies are shorter than what the SDK compresses on its own."""

RUN = "import runpy, sys\n{prepare}\nrunpy.run_path(sys.argv[1], run_name='__main__')"


class Witness:
    """Content encoding of every POST as it arrived, and the first bytes of its body."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bytes]] = []

    def around(self, app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        async def watched(scope: dict[str, Any], receive: Any, send: Any) -> None:
            if scope["type"] != "http" or scope["method"] != "POST":
                return await app(scope, receive, send)
            encoding = dict(scope["headers"]).get(b"content-encoding", b"").decode()
            first = True

            async def heard() -> dict[str, Any]:
                nonlocal first
                message: dict[str, Any] = await receive()
                if first and message["type"] == "http.request":
                    first = False
                    self.seen.append((encoding, message["body"][:4]))
                return message

            await app(scope, heard, send)

        return watched


@pytest.fixture(scope="module")
def witness() -> Witness:
    return Witness()


@pytest.fixture(scope="module")
def url(witness: Witness) -> Iterator[str]:
    with serving(tiny_decider(), keys=["example-key"], around=witness.around) as base:
        yield base


def blocks(text: str) -> list[str]:
    """The Python code blocks of a Markdown text, unindented."""
    found = re.findall(r"^( *)```python\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(code) for _, code in found]


def readme() -> str:
    about = metadata("typesafe-sdk")
    text = about.json.get("description") or ""  # however the installer wrote it
    assert isinstance(text, str)
    assert text.startswith("# "), "the installed package carries its README"
    return text


def documented(thing: Any) -> list[str]:
    return blocks(inspect.getsource(thing))


def run_script(url: str, folder: Path, code: str, prepare: str) -> str:
    """Standard output of the block as a program of its own."""
    path = folder / "example.py"
    path.write_text(code, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-c", RUN.format(prepare=prepare), str(path)],
        env={**os.environ, "TYPESAFE_BASE_URL": url, "TYPESAFE_API_KEY": "example-key"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


@pytest.mark.parametrize(
    ("prepare", "encoding"), [(WITHOUT_EXTRA, ""), (WITH_EXTRA, "zstd")], ids=["plain", "zstd"]
)
def test_the_readme_runs_as_it_stands(
    url: str, witness: Witness, tmp_path: Path, prepare: str, encoding: str
) -> None:
    found = blocks(readme())
    assert found, "the README shows an example"
    for code in found:
        witness.seen.clear()
        told = run_script(url, tmp_path, code, prepare)
        assert told.strip() in ("billing", "technical", "other")
        ((seen, start),) = witness.seen
        assert seen == encoding
        assert (start == ZSTD_MAGIC) == (encoding == "zstd"), start


@pytest.mark.parametrize(
    ("prepare", "encoding"), [(WITHOUT_EXTRA, ""), (WITH_EXTRA, "zstd")], ids=["plain", "zstd"]
)
def test_the_async_clients_example_runs_as_it_stands(
    url: str, witness: Witness, tmp_path: Path, prepare: str, encoding: str
) -> None:
    code = next(each for each in documented(AsyncTypeSafeClient) if "asyncio.run(main())" in each)
    witness.seen.clear()
    run_script(url, tmp_path, code, prepare)
    ((seen, start),) = witness.seen
    assert seen == encoding
    assert (start == ZSTD_MAGIC) == (encoding == "zstd")


@pytest.mark.parametrize("client", [TypeSafeClient, AsyncTypeSafeClient])
def test_every_text_example_of_the_clients_runs(
    url: str, witness: Witness, monkeypatch: pytest.MonkeyPatch, client: type
) -> None:
    """Those that are fragments get the package's names; none of them is changed."""
    monkeypatch.setenv("TYPESAFE_BASE_URL", url)
    monkeypatch.setenv("TYPESAFE_API_KEY", "example-key")
    text_only = [code for code in documented(client) if "Image" not in code]
    assert len(text_only) >= 4
    witness.seen.clear()
    for code in text_only:
        names: dict[str, Any] = {**vars(typesafe_sdk), "__name__": "__main__"}
        exec(compile(code, f"<{client.__name__}>", "exec"), names)
        if "main" in names and "asyncio.run(" not in code:
            asyncio.run(names["main"]())
    assert len(witness.seen) == sum("system_one(" in code for code in text_only)
