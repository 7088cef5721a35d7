"""lm-evaluation-harness as `bench_eval.py` races it: its environment, its task, its scores."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.special import softmax

HERE = Path(__file__).resolve().parent
VERSION = "0.4.13"
BATCH_SIZES = (1, 2, 4, 8, 16, 32)
PROBE_ITEMS = 32
"""Items on which the harness's best batch size is chosen."""


@dataclass(frozen=True)
class Item:
    """One question as both sides read it; `ids` are the tokens that ours reads, `keys` its options."""

    id: str
    prompt: str
    ids: tuple[int, ...]
    letters: list[str]
    keys: list[str]
    gold: int


class Theirs:
    """The harness over the local task file: `HFLM.loglikelihood` on the requests it builds itself.

    They are built once for a number of items, for all of them here: scoring those is `loglikelihood` alone.
    """

    def __init__(self, folder: Path, dtype: str, task: Any, batch_size: int = 1) -> None:
        from lm_eval.models.huggingface import HFLM

        self.lm = HFLM(pretrained=str(folder), dtype=dtype, batch_size=batch_size, device="cpu")
        self.task = task
        self.dtype = str(self.lm.model.dtype).removeprefix("torch.")
        self.built: dict[int | None, list[Any]] = {}
        self.requests()

    @property
    def batch_size(self) -> int:
        return int(self.lm.batch_size_per_gpu)

    @batch_size.setter
    def batch_size(self, size: int) -> None:
        self.lm.batch_size_per_gpu = size

    def requests(self, limit: int | None = None) -> list[Any]:
        """Those of the first `limit` items."""
        if limit not in self.built:
            self.task.build_all_requests(limit=limit, rank=0, world_size=1)
            self.built[limit] = list(self.task.instances)
        return self.built[limit]

    def score(self, limit: int | None = None) -> dict[str, list[float]]:
        """Item id → probabilities of its letters, from the log-likelihoods of the continuations."""
        instances = self.requests(limit)
        answers = self.lm.loglikelihood(instances, disable_tqdm=True)
        found: dict[str, list[float]] = {}
        for instance, (value, _) in zip(instances, answers, strict=True):
            found.setdefault(instance.doc["id"], []).append(value)
        return {name: softmax(values).tolist() for name, values in found.items()}

    def score_tokens(self, items: list[Item]) -> dict[str, list[float]]:
        """As `score`, but reading the very tokens that ours reads."""
        ends = {letter: self.lm.tok_encode(letter) for item in items for letter in item.letters}
        asked = [((i.prompt, x), list(i.ids), ends[x]) for i in items for x in i.letters]
        answers = iter(self.lm._loglikelihood_tokens(asked, disable_tqdm=True))
        return {i.id: softmax([next(answers)[0] for _ in i.letters]).tolist() for i in items}

    def best_batch_size(self) -> int:
        """The fastest of `BATCH_SIZES` on the first items."""
        seconds = {}
        n = len({instance.doc["id"] for instance in self.requests(PROBE_ITEMS)})
        for size in BATCH_SIZES:
            self.batch_size = size
            start = time.perf_counter()
            self.score(PROBE_ITEMS)
            seconds[size] = time.perf_counter() - start
        told = ", ".join(f"{size}: {n / each:.2f}" for size, each in seconds.items())
        print(f"  their batch sizes, items/s on {n} items ({self.dtype}): {told}")
        return min(seconds, key=lambda size: seconds[size])

    def tokens(self, item: Item) -> tuple[int, ...]:
        """What the harness reads before the letter."""
        context, continuation = self.lm._encode_pair(item.prompt, item.letters[0])
        return (*context, *continuation[:-1])


def write_task(items: list[Item], folder: Path) -> Any:
    """The harness's task over a JSON Lines file of the items."""
    import yaml
    from lm_eval.api.task import ConfigurableTask

    fields = [{"id": i.id, "prompt": i.prompt, "letters": i.letters, "gold": i.gold} for i in items]
    path = folder / "items.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in fields), encoding="utf-8")
    config = yaml.safe_load((HERE / "lm_eval_tasks" / "letters.yaml").read_text())
    config["dataset_kwargs"]["data_files"]["test"] = str(path)
    return ConfigurableTask(config=config)


def ensure_harness(where: str | None) -> None:
    """Continue in an environment that has lm_eval; made once, beside ours, which it also sees."""
    try:
        import lm_eval  # noqa: F401

        return
    except ImportError:
        pass
    import platformdirs

    tag = f"lm_eval-{VERSION}-py{sys.version_info[0]}.{sys.version_info[1]}"
    folder = Path(where) if where else Path(platformdirs.user_cache_dir("reflex")) / tag
    python = folder / "bin" / "python"
    done = folder / "complete"
    if not done.is_file():
        print(f"installing lm_eval {VERSION} into {folder} (once)", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        inside = next((folder / "lib").glob("python*/site-packages"))
        ours = [path for path in site.getsitepackages() if Path(path).is_dir()]
        seen = "; ".join(f"site.addsitedir({path!r})" for path in ours)
        (inside / "reflex-bench.pth").write_text(f"import site; {seen}\n")
        subprocess.run(
            [str(python), "-m", "pip", "install", "-q", f"lm_eval=={VERSION}"], check=True
        )
        done.touch()
    os.execv(python, [str(python), *sys.argv])
