"""Speed of one request through the forward, as ratios measured in one run.

    python scripts/bench_forward.py [workload=scripts/workloads/ten_questions.json] [repeats=7] [key=value …]

The workload is a request in wire format. Every variant runs once per round, in turn, so that a machine that
slows down slows all of them; medians over rounds are printed, with three ratios that have a bound. A missed
bound is named, and the exit status is 1.
Further `key=value` arguments are overrides of the run's configuration (`backbone=…`, `device.dtype=…`).

What is compared:
  ours cold       nothing cached, neither the state nor the prompt's own words: a first request, text to probabilities
  ours warm       the same state again
  bare            one transformers forward over as many tokens as the request has unique ones
  per branch      one transformers forward per branch, each re-reading the state
  packed | batched | flat   the strategies over a short, the workload's and a long state, from which
                  `auto`'s crossover is taken (forward.crossover_tokens)
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from reflex.build import build_decider, to_object
from reflex.contract import Request, parse_request
from reflex.forward.config import ForwardConfig
from reflex.forward.engine import Forward
from reflex.loading import compose

HERE = Path(__file__).parent
Variants = dict[str, Callable[[], Any]]


BOUNDS = {
    "(a) ours cold / bare forward over the same tokens": ("ours cold", "bare", "at most", 1.0),
    "(b) per branch / ours cold": ("per branch", "ours cold", "at least", 4.5),
    "(c) ours warm / ours cold": ("ours warm", "ours cold", "at most", 0.85),
}
"""Ratio → (numerator, denominator, which way, bound)."""


def main() -> int:
    """Measure, print, judge: 1 when a bound is missed."""
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    workload = Path(given.pop("workload", HERE / "workloads" / "ten_questions.json"))
    repeats = int(given.pop("repeats", 7))
    cfg = compose([f"{key}={value}" for key, value in given.items()])
    request = parse_request(json.loads(workload.read_text()))
    decider = build_decider(cfg)
    model, backbone = decider.model, decider.model.backbone
    config: ForwardConfig = to_object(cfg.forward)
    tree = model.prepare(request).tree
    print(
        f"{backbone.facts.name} {backbone.facts.dtype} on {backbone.facts.device}, "
        f"{torch.get_num_threads()} threads; state {len(tree.prefix)} tokens, "
        f"{len(tree.segments)} branches, {tree.unique_tokens} unique tokens; {repeats} rounds"
    )

    def cold() -> None:
        model.engine.cache.clear()
        model.engine.heads.clear()
        decider.decide([request])

    ids = torch.tensor([(tree.prefix + tuple(i for s in tree.segments for i in s.ids))])
    paths = [torch.tensor([tree.prefix + segment.ids]) for segment in tree.segments]
    device = backbone.device

    @torch.inference_mode()
    def plain(rows: list[torch.Tensor]) -> None:
        for row in rows:
            backbone.model(input_ids=row.to(device), logits_to_keep=1, use_cache=False)

    times = measure(
        {
            "ours cold": cold,
            "ours warm": lambda: decider.decide([request]),
            "bare": lambda: plain([ids]),
            "per branch": lambda: plain(paths),
        },
        repeats,
    )
    tell(times)
    missed = judge(times)
    crossover(decider, request, config, repeats)
    if missed:
        print(f"\nmissed: {'; '.join(missed)}")
    return 1 if missed else 0


def judge(times: dict[str, float]) -> list[str]:
    """Print each bounded ratio; returns those that miss their bound."""
    missed = []
    for name, (above, below, way, bound) in BOUNDS.items():
        ratio = times[above] / times[below]
        print(f"{name:<51} {ratio:.2f}  ({way} {bound})")
        if not (ratio <= bound if way == "at most" else ratio >= bound):
            missed.append(f"{name} {ratio:.2f} ({way} {bound})")
    return missed


def crossover(decider: Any, request: Request, config: ForwardConfig, repeats: int) -> None:
    """Strategies over growing states, one question in two orders and all questions."""
    words = str(request.state).split()
    first = dict(list(request.questions.items())[:1])
    print(
        "\nshared = tokens that `flat` reads again, as `auto` counts them (shared from "
        f"{config.crossover_tokens + 1} on); ratio = strategy / flat, cold state (the prompt's own words are kept)"
    )
    backbone = decider.model.backbone
    names = ["packed", "batched"] if backbone.facts.packable else ["batched"]
    for questions in (first, request.questions):
        for length in (0, 20, 60, 150, len(words), 3 * len(words)):
            state = " ".join((words * 3)[:length])
            small = request.model_copy(update={"state": state, "questions": questions})
            compiled = decider.model.prepare(small)
            if compiled.tree.longest > backbone.facts.context_length:
                continue
            engines = {
                name: Forward(backbone, ForwardConfig(**{**vars(config), "strategy": name}))
                for name in (*names, "flat")
            }

            def one(engine: Forward, compiled: Any = compiled) -> Callable[[], None]:
                def call() -> None:
                    engine.cache.clear()
                    with torch.inference_mode():
                        engine.run([compiled.tree])

                return call

            times = measure({name: one(engine) for name, engine in engines.items()}, repeats)
            ratios = "  ".join(f"{name} {times[name] / times['flat']:.2f}" for name in names)
            auto = Forward(backbone, config)
            with torch.inference_mode():
                chosen = auto.run([compiled.tree]).strategies[0]
            print(
                f"{len(compiled.tree.segments):3d} branches  state {len(compiled.tree.prefix):5d}  "
                f"shared {auto.reread_tokens([compiled.tree]):6d}  {ratios}  "
                f"flat {1e3 * times['flat']:.0f} ms  auto: {chosen}"
            )


def measure(variants: Variants, repeats: int) -> dict[str, float]:
    """Median seconds of each variant over `repeats` rounds, after one round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for round_number in range(repeats + 1):
        for name, call in variants.items():
            start = time.perf_counter()
            call()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if round_number:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def tell(times: dict[str, float]) -> None:
    for name, value in times.items():
        print(f"{name:<12} {1e3 * value:8.1f} ms")


if __name__ == "__main__":
    sys.exit(main())
