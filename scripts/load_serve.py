"""Clients, faults and a count of what went wrong, against the real server.

    python scripts/load_serve.py                                   64 clients, two minutes, tiny backbone
    python scripts/load_serve.py --seconds 30 --clients 16 backbone=smollm2_135m

Well-behaved clients ask mixed requests and check every answer against the in-process one; meanwhile
others send broken bodies, hang up, dawdle, or ask for too much. At the end the server gets SIGTERM while
requests are in flight. Exit status 1 on any wrong answer, 5xx, lost request, or memory that stays.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from typing import Any

import psutil
from serve_process import Server, connect, head, numbers

DEFAULTS = ("backbone=tiny_llama", "device.dtype=float32", "serve.body_timeout_s=2")
TEXT = "The parcel arrived late, the box was torn, and support has not answered since Monday. "
NOUL = {"type": "noul", "instructions": "Is the customer asking for money back?"}
SCORE = {"type": "score", "instructions": "How angry?", "criteria": ["Calm", "Cross", "Furious"]}


def requests(count: int) -> list[dict[str, Any]]:
    """Mixed sizes: most are small, some have long states, some have many options or questions."""
    found: list[dict[str, Any]] = []
    for i in range(count):
        options = {f"Queue {j}": f"Tickets about {j}" for j in range(2 + i % 30)}
        choice = {"type": "choice", "instructions": f"Which queue, {i}?", "criteria": options}
        questions: dict[str, Any] = {"n": {**NOUL, "instructions": f"Is {i} mentioned?"}}
        if i % 3 == 0:
            questions |= {"c": choice, "s": SCORE}
        if i % 16 == 0:
            questions |= {f"q{k}": {**NOUL, "instructions": f"About {k}?"} for k in range(40)}
        state = TEXT * (12 if i % 4 == 0 else 1)
        found.append({"state": f"{i % 8} {state}", "questions": questions})
    return found


BROKEN = [
    b"", b"{", b"[" * 20000, b'{"state": NaN, "questions": {}}', b'{"state": "\\ud800"}', b"\xff\xfe",
    b'{"state": "x", "questions": {"a": {"type": "noul"}}}', b'{"state": null, "questions": {}}',
    json.dumps({"state": "x", "questions": {f"q{i}": NOUL for i in range(10_000)}}).encode(),
    b'{"state": "' + b"x" * (10 << 20) + b'"}',
]  # fmt: skip


class Tally:
    """What happened."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.worst = 0.0
        self.latencies: list[float] = []


async def exchange(port: int, body: bytes, pause: float = 0.0) -> tuple[int, bytes]:
    """One POST on a connection of its own; `pause` between pieces makes a slow sender."""
    reader, writer = await connect(port)
    try:
        writer.write(head(len(body), "connection: close"))
        if pause:
            for start in range(0, len(body), 64):
                writer.write(body[start : start + 64])
                await writer.drain()
                await asyncio.sleep(pause)
        else:
            writer.write(body)
            await writer.drain()
        raw = await reader.read()
        first, _, content = raw.partition(b"\r\n\r\n")
        return int(first.split(b" ", 2)[1]), content
    finally:
        writer.close()


def check(reply: bytes, wanted: list[float], tally: Tally, tolerance: float) -> None:
    got = numbers(json.loads(reply)["answers"])
    worst = max(abs(a - b) for a, b in zip(got, wanted, strict=True))
    tally.worst = max(tally.worst, worst)
    if worst > tolerance:
        tally.wrong.append(f"off by {worst:.2e}")


async def good(
    port: int, work: list[tuple[bytes, list[float]]], until: float, tally: Tally, tolerance: float
) -> None:
    chosen = random.Random(id(asyncio.current_task()))
    while time.perf_counter() < until:
        body, wanted = chosen.choice(work)
        start = time.perf_counter()
        status, reply = await exchange(port, body, 0.005 if chosen.random() < 0.03 else 0.0)
        tally.statuses[f"good {status}"] += 1
        if status == 200:
            tally.latencies.append(time.perf_counter() - start)
            check(reply, wanted, tally, tolerance)
        elif status == 429:
            await asyncio.sleep(0.2)
        else:
            tally.wrong.append(f"a good request got {status}: {reply[:120]!r}")


async def bad(port: int, until: float, tally: Tally) -> None:
    chosen = random.Random(7)
    while time.perf_counter() < until:
        body = chosen.choice(BROKEN)
        status, reply = await exchange(port, body)
        tally.statuses[f"bad {status}"] += 1
        if not 400 <= status < 500:
            tally.wrong.append(f"a bad request got {status}: {reply[:120]!r}")
        await asyncio.sleep(0.05)


async def leaver(
    port: int, work: list[tuple[bytes, list[float]]], until: float, tally: Tally
) -> None:
    """Hang up: in the middle of the body, or before the answer."""
    chosen = random.Random(8)
    while time.perf_counter() < until:
        body = chosen.choice(work)[0]
        _, writer = await connect(port)
        writer.write(head(len(body)))
        writer.write(body[: len(body) // 2] if chosen.random() < 0.5 else body)
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.close()
        tally.statuses["left"] += 1
        await asyncio.sleep(0.05)


async def half(port: int, until: float, tally: Tally) -> None:
    """Half a body, then silence: 408 within the body timeout."""
    while time.perf_counter() < until:
        reader, writer = await connect(port)
        writer.write(head(500) + b"{")
        await writer.drain()
        raw = await reader.read(65536)
        status = int(raw.split(b" ", 2)[1])
        tally.statuses[f"half {status}"] += 1
        if status != 408:
            tally.wrong.append(f"half a body got {status}")
        writer.close()


async def last_requests(
    server: Server, work: list[tuple[bytes, list[float]]], tally: Tally, tolerance: float
) -> None:
    """SIGTERM while requests are in flight: every accepted one is answered."""
    asked = [asyncio.ensure_future(exchange(server.port, body)) for body, _ in work[:32]]
    accepted, until = 0, time.perf_counter() + 30
    while accepted < len(asked) and time.perf_counter() < until:
        # Answered by now, or in the queue a moment later.
        answered = sum(each.done() for each in asked)
        accepted = answered + await asyncio.to_thread(server.queued)
    server.process.send_signal(signal.SIGTERM)
    for (_, wanted), reply in zip(
        work[:32], await asyncio.gather(*asked, return_exceptions=True), strict=True
    ):
        if isinstance(reply, BaseException):
            tally.wrong.append(f"lost at shutdown: {type(reply).__name__}")
        elif reply[0] == 200:
            tally.statuses["drained 200"] += 1
            check(reply[1], wanted, tally, tolerance)
        else:
            tally.statuses[f"drained {reply[0]}"] += 1


def rss_mb(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / (1 << 20)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--tolerance", type=float, default=1e-5, help="raise for bfloat16")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    overrides = [*DEFAULTS, *options.overrides]

    from reflex.build import build_decider
    from reflex.serving.source import resolve

    decider = build_decider(resolve(overrides)[0])
    asked = requests(64)
    work = [
        (json.dumps(request).encode(), numbers(decider.answer(request).model_dump()["answers"]))
        for request in asked
    ]
    del decider
    server = Server(*overrides)
    port, process = server.port, server.process

    async def phase(seconds: float, tally: Tally, faults: bool) -> None:
        until = time.perf_counter() + seconds
        tasks = [good(port, work, until, tally, options.tolerance) for _ in range(options.clients)]
        if faults:
            tasks += [
                bad(port, until, tally),
                leaver(port, work, until, tally),
                half(port, until, tally),
            ]
        await asyncio.gather(*tasks)

    settled, tally = Tally(), Tally()
    asyncio.run(phase(options.seconds / 4, settled, False))  # caches full, allocator warm
    time.sleep(2)
    before = rss_mb(process.pid)
    asyncio.run(phase(options.seconds, tally, True))
    time.sleep(5)
    after = rss_mb(process.pid)
    asyncio.run(last_requests(server, work, tally, options.tolerance))
    code = process.wait(60)

    ordered = sorted(tally.latencies)
    growth = (after - before) / before
    print(f"\n{' '.join(overrides)}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(
        f"{options.clients} clients for {options.seconds:g} s: {dict(sorted(tally.statuses.items()))}"
    )
    print(
        f"{len(ordered) / options.seconds:.1f} requests/s, p50 {1000 * ordered[len(ordered) // 2]:.0f} ms, "
        f"p99 {1000 * ordered[int(0.99 * len(ordered))]:.0f} ms, worst difference {tally.worst:.1e}"
    )
    print(f"resident memory {before:.0f} -> {after:.0f} MB ({growth:+.1%}); exit status {code}")
    wrong = settled.wrong + tally.wrong
    for text, times in Counter(wrong).most_common(10):
        print(f"WRONG x{times}: {text}")
    return 1 if wrong or code or growth > 0.05 else 0


if __name__ == "__main__":
    sys.exit(main())
