"""The real server as a process, and HTTP over plain sockets: what the scripts and tests of serving share."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parent.parent


class Server:
    """`python -m reflex.serve` as a real process on a port of its own choosing; `lines` is its standard error.

    Made once it listens, or with `wait` once it is ready. Raises RuntimeError where it does not get there.
    """

    def __init__(
        self, *arguments: str, env: Mapping[str, str] | None = None, wait: bool = True
    ) -> None:
        self.lines: list[str] = []
        self.url = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "reflex.serve", "serve.port=0", *arguments],
            cwd=REPO,
            env={**os.environ, **(env or {})},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        self._told = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        if not self._told.wait(60) or not self.url:
            self.kill()
            raise RuntimeError("no socket:\n" + "\n".join(self.lines[-20:]))
        while wait and not ready(self.url):
            if self.process.poll() is not None:
                raise RuntimeError("ended while loading:\n" + "\n".join(self.lines[-20:]))
            time.sleep(0.05)

    def _read(self) -> None:
        # To the end, or the pipe fills and the server waits for it.
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())
            found = re.search(r"listening on (http://[\d.]+:\d+)", line)
            if found:
                self.url = found[1]
                self._told.set()
        self._told.set()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def queued(self) -> int:
        """Requests in the server's queue, as /metrics says."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as reply:
            return queued(reply.read().decode())

    def terminate(self, timeout_s: float = 60.0) -> int:
        """SIGTERM and wait; the exit status."""
        self.process.terminate()
        return self.process.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL and wait."""
        self.process.kill()
        self.process.wait(30)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


def ready(url: str) -> bool:
    """Whether /ready answers 200."""
    try:
        with urllib.request.urlopen(f"{url}/ready", timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def queued(metrics: str) -> int:
    """Requests waiting or running, as a page of /metrics says."""
    found = re.search(r"^reflex_queue_requests (\S+)", metrics, re.MULTILINE)
    return int(float(found[1])) if found else 0


def numbers(answers: dict[str, Any]) -> list[float]:
    """Every probability of a response's answers, in order."""
    found: list[float] = []
    for answer in answers.values():
        found += [answer["noul"]] if answer["type"] == "noul" else answer["probabilities"].values()
    return found


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that takes replies of any length."""
    return await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)


def head(length: int, *headers: str) -> bytes:
    """Request line and headers of a POST with `length` bytes to come."""
    lines = (
        "POST /v1/systemone HTTP/1.1",
        "host: x",
        *headers,
        f"content-length: {length}",
        "",
        "",
    )
    return "\r\n".join(lines).encode()


async def client(port: int, bodies: list[bytes], until: float, latencies: list[float]) -> None:
    """One keep-alive connection that asks, waits and asks again. Plain sockets: little CPU of its own."""
    reader, writer = await connect(port)
    for body in bodies:
        if time.perf_counter() >= until:
            break
        start = time.perf_counter()
        writer.write(head(len(body)) + body)
        top = await reader.readuntil(b"\r\n\r\n")
        status = top.split(b" ", 2)[1]
        length = int(re.search(rb"content-length: (\d+)", top)[1])  # type: ignore[index]
        reply = await reader.readexactly(length)
        if status != b"200":
            raise SystemExit(f"{status.decode()}: {reply.decode()[:200]}")
        latencies.append(time.perf_counter() - start)
    writer.close()
