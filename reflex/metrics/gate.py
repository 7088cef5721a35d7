"""May a candidate replace what is stable? Paired, on the same items: not worse anywhere, better somewhere.

On every set NLL and accuracy (where there are gold answers) have to be non-inferior: the whole 95 % interval of
the difference lies inside the margin. On at least one set one of them has to be better (Holm-corrected over all
of them). And in a suite of question pairs the answers must not follow the question less than before, besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from reflex.metrics.frame import group_codes
from reflex.metrics.paired import ALPHA, compare, holm
from reflex.metrics.resampling import Difference, differences
from reflex.metrics.sensitivity import ITEM_AND_PAIR, alike, joined

METRICS = ("nll", "accuracy")
IGNORED = "question_ignored"


@dataclass(frozen=True)
class Check:
    """One difference, candidate minus stable, on one set, and what it shows."""

    set: str
    metric: str
    difference: Difference
    allowed: bool
    better: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        own = {"set": self.set, "allowed": self.allowed, "better": self.better}
        return {**own, **self.difference.to_dict()}


@dataclass
class Judgement:
    """`passed`, every check, and one line for each reason against the candidate."""

    checks: list[Check] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.reasons


def judge(
    frames: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]],
    pairs: Mapping[str, Iterable[Mapping[str, str]]],
    margin: float,
    seed: int = 0,
) -> Judgement:
    """Judge (stable, candidate) predictions of each suite; a suite's sources are its sets.

    `pairs`: suite → its `question_pairs` (see reflex.metrics.sensitivity). Raises DataError for frames
    that do not hold the same items, and for pairs whose questions cannot be compared.
    """
    found: list[Check] = []
    for suite, (stable, candidate) in frames.items():
        if suite in pairs:
            found += _ignored(suite, stable, candidate, pairs[suite], margin, seed)
        for source in sorted(set(stable["source"])):
            both = (frame[frame["source"] == source] for frame in (stable, candidate))
            name = source if source == suite else f"{suite} {source}"
            compared = compare(*both, names=("stable", "candidate"), seed=seed).differences
            found += [
                Check(name, metric, compared[metric], non_inferior(compared[metric], margin), False)
                for metric in METRICS
                if compared[metric].value is not None
            ]
    checks = _with_better(found)
    return Judgement(checks, _reasons(checks, margin))


def non_inferior(difference: Difference, margin: float) -> bool:
    """Whether the 95 % interval excludes being worse by more than `margin`; no interval shows nothing."""
    if difference.low is None or difference.high is None:
        return False
    if difference.better_when == "lower":
        return difference.high <= margin
    return difference.low >= -margin


def _with_better(checks: list[Check]) -> list[Check]:
    measured = {i: each for i, each in enumerate(checks) if each.metric in METRICS}
    p_values = {str(i): each.difference.p_beyond()[0] for i, each in measured.items()}
    adjusted = holm(p_values)
    return [
        Check(
            each.set, each.metric, each.difference, each.allowed, adjusted.get(str(i), 1.0) <= ALPHA
        )
        for i, each in enumerate(checks)
    ]


def _reasons(checks: list[Check], margin: float) -> list[str]:
    reasons = []
    for each in checks:
        if each.allowed:
            continue
        d = each.difference
        size = f"{d.value:+.4f}" if d.value is not None else "not measured"
        if each.metric == IGNORED:
            reasons.append(f"{each.set}: ignores the question more often than stable ({size})")
        elif d.low is None:
            reasons.append(f"{each.set}: {each.metric} {size}, too few groups for an interval")
        else:
            reasons.append(
                f"{each.set}: {each.metric} {size} ({d.low:+.4f} to {d.high:+.4f}) may be worse by more "
                f"than gate.margin={margin:g}"
            )
    if not any(each.better for each in checks):
        reasons.append("better on no set")
    return reasons


def _ignored(
    suite: str,
    stable: pd.DataFrame,
    candidate: pd.DataFrame,
    pairs: Iterable[Mapping[str, str]],
    margin: float,
    seed: int,
) -> list[Check]:
    """Opposite questions with opposite labels that get the same answer: worse is more of them.

    Allowed unless the interval lies above 0 or the difference above the margin.
    """
    opposite = [(pair["a"], pair["b"]) for pair in pairs if pair.get("kind") == "opposite"]
    if not opposite:
        return []
    before, after = (joined(frame, opposite) for frame in (stable, candidate))
    both = before.assign(
        opposed=~alike(before, "target"), before=alike(before, "probabilities")
    ).merge(after[ITEM_AND_PAIR].assign(after=alike(after, "probabilities")), on=ITEM_AND_PAIR)
    both = both[both["opposed"]]
    if not len(both):
        return []
    (difference,) = differences(
        both[["before"]].to_numpy(dtype=np.float64),
        both[["after"]].to_numpy(dtype=np.float64),
        group_codes(both["group"]),
        [IGNORED],
        ["lower"],
        seed=seed,
    )
    worse = difference.low is not None and difference.low > 0
    far = difference.value is not None and difference.value > margin
    return [Check(suite, IGNORED, difference, not (worse or far), False)]
