"""The real server as a process, and HTTP over plain sockets: what the serving scripts share."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent


class Server:
    """`python -m reflex.serve` on a free port; ready when made. Exits the script where it does not start."""

    def __init__(self, overrides: Sequence[str]) -> None:
        command = [sys.executable, "-m", "reflex.serve", "serve.port=0", "serve.log_level=info"]
        self.process = subprocess.Popen(
            [*command, *overrides], cwd=REPO, stderr=subprocess.PIPE, text=True
        )
        self.port = 0
        stderr = self.process.stderr
        assert stderr is not None
        for line in stderr:
            found = re.search(r"listening on http://[\d.]+:(\d+)", line)
            if found:
                self.port = int(found[1])
                break
            sys.stderr.write(line)
        if not self.port:
            sys.exit("the server did not start")
        # Read on, or the pipe fills and the server waits for it.
        threading.Thread(target=lambda: [None for _ in stderr], daemon=True).start()
        while self.status() != "ready":
            if self.process.poll() is not None:
                sys.exit("the server ended while loading")
            time.sleep(0.2)

    def status(self) -> str:
        """What /health says, `unreachable` where nobody answers."""
        url = f"http://127.0.0.1:{self.port}/health"
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                return str(json.load(reply)["status"])
        except OSError:
            return "unreachable"

    def queued(self) -> int:
        """Requests in the server's queue, as /metrics says."""
        url = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(url, timeout=60) as reply:
            found = re.search(r"^reflex_queue_requests (\S+)", reply.read().decode(), re.MULTILINE)
        return int(float(found[1])) if found else 0

    def stop(self) -> None:
        """SIGTERM, and wait until it has ended."""
        self.process.terminate()
        self.process.wait(60)


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
