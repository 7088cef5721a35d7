"""`task=compare a=RUN b=RUN`: which of two recorded runs is better, by how much, and could it be noise?

Runs are named by folder, hash or unique prefix; `b=[RUN,RUN]` compares several with `a`, Holm-corrected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from reflex.checks import check_not_negative
from reflex.errors import ConfigError, RecordError

if TYPE_CHECKING:
    from reflex.metrics import Comparison


@dataclass
class Compare:
    """metric: what the sentence is about (nll, brier, accuracy). margin: smallest difference that counts."""

    _target_: str = "reflex.tasks.compare.Compare"
    name: str = "compare"
    metric: str = "nll"
    margin: float = 0.0

    def __post_init__(self) -> None:
        check_not_negative("task.margin", self.margin)

    def run(self, cfg: DictConfig) -> int:
        """Prints a table and one sentence per candidate; the same items only, paired.

        Raises ConfigError without two runs, RecordError for one that is not there or not finished, DataError for
        runs that have nothing to compare.
        """
        from reflex.loading import run_folder
        from reflex.metrics import compare
        from reflex.tracking.predictions import read_predictions
        from reflex.tracking.record import problem_of, read_record

        given = OmegaConf.to_container(cfg.b) if OmegaConf.is_list(cfg.b) else cfg.b
        candidates: list[Any] = given if isinstance(given, list) else [given]
        if cfg.a is None or not candidates or None in candidates:
            raise ConfigError("task=compare needs two recorded runs: a=RUN b=RUN")
        folders = [run_folder(str(run), Path(cfg.runs_dir)) for run in (cfg.a, *candidates)]
        records = [read_record(folder) for folder in folders]
        for folder, record in zip(folders, records, strict=True):
            if problem := problem_of(folder, record):
                raise RecordError(problem)
        names = _names(records)
        baseline = read_predictions(folders[0])
        found = [
            compare(
                baseline,
                read_predictions(folder),
                names=(names[0], name),
                metric=self.metric,
                margin=self.margin,
                seed=cfg.seed,
            )
            for folder, name in zip(folders[1:], names[1:], strict=True)
        ]
        print("\n".join(told(found)))
        return 0


def _names(records: list[Any]) -> list[str]:
    """Each run's name, with the beginning of its hash where runs share one, and the word of its figures."""
    from reflex.reporting.words import cell_word

    shared = len({record.name for record in records}) < len(records)
    names = []
    for record in records:
        marks = [record.hash[:8]] * shared + [cell_word(record)]
        names.append(record.name + "".join(f" ({mark})" for mark in marks if mark))
    return names


def told(comparisons: list[Comparison]) -> Iterator[str]:
    """Tables, then one sentence per candidate."""
    from reflex.metrics import verdict

    for each in comparisons:
        yield f"a = {each.baseline}"
        yield f"b = {each.candidate}"
        dropped = ""
        if each.dropped_baseline or each.dropped_candidate:
            dropped = (
                f"; left out because the other run lacks them: {each.dropped_baseline} of a, "
                f"{each.dropped_candidate} of b"
            )
        yield f"{each.n} answers in both, {each.groups} groups{dropped}"
        yield f"{'':10} {'a':>9} {'b':>9} {'b - a':>9}  {'95 % interval':22} {'p':>7} {'80 % power':>10}"
        for name, d in each.differences.items():
            yield (
                f"{name:10} {_number(d.baseline)} {_number(d.candidate)} {_number(d.value, '+')}  "
                f"{d.interval:22} {_number(d.p_value, width=7)} {_number(d.detectable, width=10)}"
            )
        m = each.mcnemar
        yield (
            f"McNemar: {m['gained']} right only in b, {m['lost']} only in a, p = "
            f"{_number(m['p_value'], width=0)} ({'exact' if m['exact'] else 'chi-squared'})"
        )
        yield ""
    first = comparisons[0]
    block = {
        "metric": first.metric,
        "margin": first.margin,
        "baseline": first.baseline,
        "candidates": [each.candidate for each in comparisons],
    }
    details = verdict(block, {each.candidate: each for each in comparisons})["details"]
    yield from (str(detail["sentence"]) for detail in details.values())


def _number(value: float | None, sign: str = "", width: int = 9) -> str:
    return f"{'–':>{width}}" if value is None else f"{value:>{sign}{width}.4f}"
