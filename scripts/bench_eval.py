"""Items per second of an evaluation, ours against lm-evaluation-harness, in one run.

    REFLEX_DATA=../shared/data python scripts/bench_eval.py [items=200] [repeats=3] [key=value …]

Both sides score the same MMLU items (`benchmark.rows=local`) with the same weights, the same prompt text and the
same threads; a lettered question in one order. Timed is scoring with the model loaded: rendering, tokenising and
the forward on our side (`run_suite`), `LM.loglikelihood` (tokenising and the forward) on theirs, whose requests are
built before. Rounds alternate, medians count.

  same dtype   ours with its default batches / theirs at its best batch size    wanted: at least 1.25
  defaults     each as it comes (ours dtype auto; theirs dtype auto, batch 1)   wanted: at least 3
  float32      the predictions of both, every difference listed    wanted: none for the same tokens

Further `key=value` arguments are overrides of the run's configuration (`backbone=…`, `device.threads=2`).
The harness is installed once into an environment of its own that also sees this one (`venv=DIR` says where), so
that its dependencies change nothing here. Exit status 1 if a prediction differs or a wanted ratio is missed
(`strict=false`: only for a prediction).
"""

from __future__ import annotations

import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lm_eval_harness import VERSION, Item, Theirs, ensure_harness, write_task

WARM_UP_ITEMS = 8


def main() -> int:
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    ensure_harness(given.pop("venv", None))
    count, repeats = int(given.pop("items", 200)), int(given.pop("repeats", 3))
    strict = given.pop("strict", "true") == "true"
    os.environ.update(
        HF_HUB_OFFLINE="1",
        HF_DATASETS_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false",
        TQDM_DISABLE="1",
    )
    quiet()
    overrides = [f"{key}={value}" for key, value in given.items()]
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["HF_DATASETS_CACHE"] = str(Path(scratch, "cache"))
        return compare(overrides, count, repeats, strict, Path(scratch))


def compare(overrides: list[str], count: int, repeats: int, strict: bool, folder: Path) -> int:
    """Measure, print, judge."""
    import torch

    ours = {"float32": Ours(overrides, count, "float32")}
    first = ours["float32"]
    default = Ours(overrides, count, "auto")
    ours[default.dtype] = default if default.dtype != "float32" else first
    task = write_task(first.items, folder)
    print(
        f"{first.name}, {len(first.items)} MMLU items, {sum(len(i.ids) for i in first.items)} tokens, "
        f"{torch.get_num_threads()} threads, {repeats} rounds; lm_eval {VERSION}"
    )
    theirs = {dtype: Theirs(first.folder, dtype, task) for dtype in ours}
    as_it_comes = Theirs(first.folder, "auto", task, batch_size=1)
    same = agree(first, theirs["float32"])

    missed = []
    for dtype, side in ours.items():
        other = theirs[dtype]
        other.batch_size = other.best_batch_size()
        times = measure({"ours": side.score, "theirs": other.score}, repeats)
        missed += tell(
            f"same dtype ({dtype}, theirs at batch {other.batch_size})", side, times, 1.25
        )
    times = measure({"ours": default.score, "theirs": as_it_comes.score}, repeats)
    words = f"defaults (ours {default.dtype}, theirs {as_it_comes.dtype} at batch 1)"
    missed += tell(words, default, times, 3.0)
    return 0 if same and not (strict and missed) else 1


def tell(words: str, side: Ours, times: dict[str, float], wanted: float) -> list[str]:
    """Print one comparison; returns its name if the ratio is below `wanted`."""
    rates = {name: len(side.items) / seconds for name, seconds in times.items()}
    ratio = rates["ours"] / rates["theirs"]
    print(
        f"{words}: ours {rates['ours']:.2f} items/s, theirs {rates['theirs']:.2f} items/s, "
        f"ratio {ratio:.2f} (at least {wanted})"
    )
    return [words] if ratio < wanted else []


class Ours:
    """The run's own evaluation: `run_suite` over the items."""

    def __init__(self, overrides: list[str], count: int, dtype: str) -> None:
        from reflex.backbones.locate import locate
        from reflex.build import build_decider, to_object
        from reflex.loading import compose

        own = ["benchmark=mmlu", "benchmark.rows=local", f"benchmark.n={count}", "orders=one"]
        cfg = compose([*own, *overrides, f"device.dtype={dtype}"])
        from hydra.utils import instantiate

        self.rows = instantiate(cfg.benchmark).load().rows
        self.folder = locate(to_object(cfg.backbone)).folder
        self.decider = build_decider(cfg)
        self.batch_tokens = cfg.task.batch_tokens
        facts = self.decider.model.backbone.facts
        self.name, self.dtype = facts.name, facts.dtype
        self.items = [self.item(row) for row in self.rows]

    def item(self, row: Any) -> Item:
        from reflex.contract import Request

        model = self.decider.model
        prepared = model.prepare(Request(state=row.state, questions=row.questions))
        (asked,) = prepared.asked
        (branch,), (segment,) = asked.branches, prepared.tree.segments
        prefix = model.style.prefix(model.backbone.tokens.template, row.state)
        (label,) = row.labels.values()
        keys = list(branch.keys)
        return Item(
            id=row.id,
            prompt="".join(piece.text for piece in (*prefix, *branch.text)),
            ids=(*prepared.tree.prefix, *segment.ids),
            letters=list(branch.labels),
            keys=keys,
            gold=keys.index(max(label, key=lambda key: label[key])),
        )

    def score(self, limit: int | None = None) -> dict[str, list[float]]:
        """Item id → probabilities in the order of its letters."""
        from reflex.evaluation.suite import run_suite

        self.decider.model.engine.cache.clear()
        frame = run_suite(self.decider, self.rows[:limit], self.batch_tokens).predictions
        found = {}
        for item, row in zip(self.items[:limit], frame.to_dict("records"), strict=True):
            named = dict(zip(row["keys"], row["probabilities"], strict=True))
            found[item.id] = [named[key] for key in item.keys]
        return found


def agree(ours: Ours, theirs: Theirs) -> bool:
    """Compare predictions in float32, every difference a line; whether all are the same for the same tokens.

    The harness tokenises the prompt as one text and we tokenise prefix and question apart, so that they can
    be shared: a token or two at the seam may differ, and with them an answer. Both readings are compared.
    """
    mine = ours.score()
    same = differences("the same tokens", ours, mine, theirs.score_tokens(ours.items))
    seams = [item for item in ours.items if theirs.tokens(item) != item.ids]
    print(f"  tokenised as one text, {len(seams)} of {len(ours.items)} prompts are other tokens")
    differences("the same text", ours, mine, theirs.score())
    return same


def differences(
    words: str, ours: Ours, mine: dict[str, list[float]], other: dict[str, list[float]]
) -> bool:
    """Print one comparison and a line for every item whose answer differs; whether none does."""
    differing, largest = 0, 0.0
    for item in ours.items:
        p, q = mine[item.id], other[item.id]
        largest = max(largest, *(abs(a - b) for a, b in zip(p, q, strict=True)))
        if top(p) != top(q):
            differing += 1
            print(
                f"  different answer, {words}: {item.id}: ours {item.letters[top(p)]} "
                f"({told(p)}), theirs {item.letters[top(q)]} ({told(q)})"
            )
    n = len(ours.items)
    right = [sum(top(p[i.id]) == i.gold for i in ours.items) / n for p in (mine, other)]
    print(
        f"predictions in float32, {words}: {n - differing} of {n} the same, largest difference of a probability "
        f"{largest:.1e}; accuracy ours {right[0]:.4f}, theirs {right[1]:.4f}"
    )
    return not differing


def measure(sides: dict[str, Callable[..., Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each side, in turn, after a few items that are not counted."""
    for score in sides.values():
        score(WARM_UP_ITEMS)
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, score in sides.items():
            start = time.perf_counter()
            score()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def quiet() -> None:
    logging.disable(logging.WARNING)
    os.environ.setdefault("LOGLEVEL", "ERROR")


def told(values: list[float]) -> str:
    return " ".join(f"{value:.4f}" for value in values)


def top(values: list[float]) -> int:
    return max(range(len(values)), key=lambda index: values[index])


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    sys.exit(main())
