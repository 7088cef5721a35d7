"""What a cell's answers cost, told from the lines that are kept of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from reflex.remote.kept import ANSWERS, Kept


def cost_of(kept: Kept, decisions: int, concurrency: int) -> dict[str, Any]:
    """Tokens as the server counts them, wall time of all sessions, latency per request, and what failed."""
    import numpy as np

    answered = [kept.lines[index] for index in sorted(kept.answered)]
    ms = np.array([line["ms"] for line in answered] or [0.0])
    every = [*answered, *kept.errors]
    sessions: dict[float, float] = {}
    for line in every:
        taken = line["at"] - line["session"]
        sessions[line["session"]] = max(taken, sessions.get(line["session"], 0.0))
    seconds = sum(sessions.values())
    tries = Counter(_kind(error) for line in every for error in line["failed_tries"])
    tokens = sum(line["response"]["usage"]["input_tokens"] for line in answered)
    return {
        "decisions": decisions,
        "tokens_per_decision": tokens / max(1, decisions),
        "ms_per_decision": 1e3 * seconds / max(1, decisions),
        "forward_s": seconds,
        "requests": {
            "file": ANSWERS,
            "answered": len(answered),
            "sessions": len(sessions),
            "concurrency": concurrency,
            "latency_ms": {
                "mean": float(ms.mean()),
                **{f"p{q}": float(np.percentile(ms, q)) for q in (50, 90, 99)},
                "max": float(ms.max()),
            },
            "failed_tries": dict(tries),
            "failed_requests": dict(Counter(_kind(line["error"]) for line in kept.errors)),
        },
    }


def _kind(error: str) -> str:
    return error.partition(":")[0]
