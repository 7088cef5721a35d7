"""What HTTP, batching and kept states cost and bring, as ratios. One run, one table.

    python scripts/bench_serve.py                      smollm2_135m, bfloat16, about three minutes
    python scripts/bench_serve.py --seconds 4 backbone=tiny_llama device.dtype=float32

Starts the real server as a process on a free port, loads it from this process, and stops it. Overrides are
those of `python -m reflex.serve`. Exit status 1 when a ratio misses its target.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from serve_process import REPO, Server, client

DEFAULTS = ("backbone=smollm2_135m", "device.dtype=bfloat16")
CLIENTS = 16
ROUNDS = 3

TICKET = (
    "Order 4471, customer since 2019. The invoice for March was paid twice: once by card on the 2nd and "
    "once by bank transfer on the 5th. Support promised a refund within a week; that was three weeks ago. "
)
NOUL = {"type": "noul", "instructions": "Is the customer asking for money back?"}
CHOICE = {
    "type": "choice",
    "instructions": "Which team should handle this?",
    "criteria": {"Billing": "Payments, refunds", "Technical": "Bugs, outages", "Sales": "Pricing"},
}
SCORE = {
    "type": "score",
    "instructions": "How frustrated is the customer?",
    "criteria": ["Calm", "Frustrated", "Very angry"],
}
KINDS = (NOUL, CHOICE, SCORE)


def short(index: int) -> dict[str, Any]:
    """One question on a short text that nobody asked about before."""
    return {"state": f"Ticket {index}. {TICKET}", "questions": {"q": KINDS[index % 3]}}


def shared(index: int, times: int = 8) -> dict[str, Any]:
    """One of many questions about the same document."""
    question = {
        **KINDS[index % 3],
        "instructions": f"{KINDS[index % 3]['instructions']} (no. {index})",
    }
    return {"state": TICKET * times, "questions": {"q": question}}


def different(index: int, times: int = 4) -> dict[str, Any]:
    """A document of its own each time."""
    return {"state": f"Case {index}. " + TICKET * times, "questions": {"q": KINDS[index % 3]}}


@dataclass(frozen=True)
class Load:
    """Latencies (s) and rate (decisions per s) of one phase."""

    latencies: list[float]
    rate: float

    def percentile(self, p: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(p / 100 * len(ordered)))]


def joined(rounds: list[Load]) -> Load:
    """Several rounds of one phase as one."""
    seconds = sum(len(each.latencies) / each.rate for each in rounds)
    latencies = [value for each in rounds for value in each.latencies]
    return Load(latencies, len(latencies) / seconds)


def load(port: int, make: Any, clients: int, seconds: float, first: int) -> Load:
    """Closed loop of `clients` for `seconds`; every request is a new one."""
    per_client = 4000
    bodies = [
        [
            json.dumps(make(first + c * per_client + i)).encode()
            for i in range(per_client if clients == 1 else 600)
        ]
        for c in range(clients)
    ]
    latencies: list[float] = []

    async def all_clients() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(client(port, own, until, latencies) for own in bodies))

    start = time.perf_counter()
    asyncio.run(all_clients())
    return Load(latencies, len(latencies) / (time.perf_counter() - start))


IN_PROCESS = """
import json, sys, time
from reflex.build import build_decider
from reflex.serving.source import resolve
cfg, _ = resolve(json.loads(sys.argv[1]))
decider = build_decider(cfg)
print("ready", flush=True)
for line in sys.stdin:
    raw = json.loads(line)
    start = time.perf_counter()
    decider.answer(raw)
    print(time.perf_counter() - start, flush=True)
"""


class InProcess:
    """`Decider.answer` in a process of its own, one request at a time."""

    def __init__(self, overrides: list[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", IN_PROCESS, json.dumps(overrides)],
            cwd=REPO,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read()

    def _read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the in-process reference ended")
        return line

    def answer(self, request: dict[str, Any]) -> float:
        """Seconds that one request took."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return float(self._read())

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def one_short_request(
    port: int, overrides: list[str], seconds: float
) -> tuple[list[float], list[float]]:
    """The same requests over HTTP and in process, in turn, so that both see the same machine."""
    reference = InProcess(overrides)
    over_http: list[float] = []
    alone: list[float] = []
    until = time.perf_counter() + seconds
    index = 0
    while time.perf_counter() < until or index < 20:
        request = short(index)
        taken: list[float] = []
        for own in (short(-1 - index), request):  # the first wakes the process up
            body = json.dumps(own).encode()
            asyncio.run(client(port, [body], time.perf_counter() + 300, taken))
            alone.append(reference.answer(own))
        over_http.append(taken[1])
        alone.pop(-2)
        index += 1
    reference.stop()
    return over_http, alone


def restart(overrides: list[str], tokens: int) -> tuple[float, float]:
    """Seconds for one request on a state of about `tokens`: cold, and after a restart with the disk."""
    with tempfile.TemporaryDirectory() as folder:
        own = [*overrides, f"serve.disk_cache_dir={folder}"]
        seconds = []
        for attempt in range(2):
            server = Server(*own)
            taken = []
            # Each repeat has its own state; the second process finds all of them on disk.
            for repeat in range(3):
                body = json.dumps(
                    {"state": f"{repeat} " + TICKET * (tokens // 52), "questions": {"q": NOUL}}
                ).encode()
                latencies: list[float] = []
                asyncio.run(client(server.port, [body], time.perf_counter() + 300, latencies))
                taken += latencies
            server.terminate()
            seconds.append(median(taken))
            if attempt == 0 and not list(Path(folder).glob("*.state")):
                sys.exit("no state was written")
        return seconds[0], seconds[1]


@dataclass(frozen=True)
class Ratio:
    """A figure and the target it has to keep."""

    name: str
    value: float
    unit: str = "×"
    at_most: float | None = None
    at_least: float = 0.0

    @property
    def met(self) -> bool:
        return self.value >= self.at_least and (self.at_most is None or self.value <= self.at_most)

    def __str__(self) -> str:
        target = f"≥ {self.at_least:g}" if self.at_most is None else f"≤ {self.at_most:g}"
        word = "met" if self.met else "MISSED"
        return f"{self.name:<50} {self.value:8.2f} {self.unit:<3} {target:<7} {word}"


def ratios(
    over_http: list[float],
    alone: list[float],
    one_shared: Load,
    many_shared: Load,
    one_different: Load,
    many_different: Load,
) -> list[Ratio]:
    """What HTTP costs and what company brings."""
    overhead_ms = 1000 * (median(over_http) - median(alone))
    shared_gain = many_shared.rate / one_shared.rate
    different_gain = many_different.rate / one_different.rate
    http = Ratio("HTTP p50 − in-process p50, one short request", overhead_ms, "ms", at_most=5)
    found = [
        http,
        Ratio("decisions/s, 16 clients / 1, shared state", shared_gain, at_least=1.3),
        Ratio("decisions/s, 16 clients / 1, different states", different_gain, at_least=1),
    ]
    for name, each in (("shared state", many_shared), ("different states", many_different)):
        tail = each.percentile(99) / each.percentile(50)
        found.append(Ratio(f"p99 / p50 at 16 clients, {name}", tail, at_most=3))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=12.0, help="per phase")
    parser.add_argument("--state-tokens", type=int, default=2000)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    overrides = [*DEFAULTS, *options.overrides]

    server = Server(*overrides)
    try:
        load(server.port, short, 1, 2.0, 10_000_000)  # settle
        over_http, alone = one_short_request(server.port, overrides, options.seconds)
        phases = [(shared, 1), (shared, CLIENTS), (different, 1), (different, CLIENTS)]
        rounds: list[list[Load]] = [[] for _ in phases]
        for turn in range(ROUNDS):  # in turn, for the same reason
            for number, (make, clients) in enumerate(phases):
                first = 100_000 * (1 + turn * len(phases) + number)
                rounds[number].append(
                    load(server.port, make, clients, options.seconds / ROUNDS, first)
                )
        one_shared, many_shared, one_different, many_different = map(joined, rounds)
    finally:
        server.terminate()
    cold, warm = restart(overrides, options.state_tokens)

    rows = ratios(over_http, alone, one_shared, many_shared, one_different, many_different)
    rows.append(
        Ratio(f"restart with disk / cold, {options.state_tokens} tokens", warm / cold, at_most=0.35)
    )
    print(f"\n{' '.join(overrides)}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("\n".join(map(str, rows)))
    print(
        f"\np50: in-process {1000 * median(alone):.1f} ms, HTTP {1000 * median(over_http):.1f} ms; "
        f"shared 1/16 clients {one_shared.rate:.1f}/{many_shared.rate:.1f} decisions/s; "
        f"different {one_different.rate:.1f}/{many_different.rate:.1f}; "
        f"cold {cold:.3f} s, after restart {warm:.3f} s"
    )
    if options.json:
        figures = {row.name: row.value for row in rows}
        options.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False))
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
