"""Does the answer follow the question? Opposite and paraphrased questions over one state; several wordings.

A suite says which of its questions belong together: `facts["question_pairs"] = [{"kind": "opposite", "a":
"positive", "b": "negative"}, …]`, kinds `opposite` (noul: true of one is false of the other) and `paraphrase`
(the same question, the same options, other words).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from reflex.errors import DataError
from reflex.metrics.frame import Bools, Floats, group_codes
from reflex.metrics.intervals import Metric, mean, share
from reflex.readouts.merge import per_wording, wording_disagreement

KINDS = ("opposite", "paraphrase")

ITEM_AND_PAIR = ["item_id", "question_id", "question_id_b"]
"""What names a row of `joined`."""

DEFINITIONS: dict[str, str] = {
    "opposite_gap": "opposite yes/no questions a, b over one state: mean |p_a - (1 - p_b)|, 0..1; "
    "labels: the same of the labels",
    "question_ignored": "share of opposite pairs answered alike (both yes, both no, or both exactly one half): "
    "the answer ignores the question; labels: the same of the labels",
    "paraphrase_gap": "the same question in other words: mean total variation of the two answers",
    "paraphrase_flips": "share of paraphrased pairs whose top answer differs",
    "wording_disagreement": "wording ensembles: mean total variation of each wording (orders averaged) "
    "to the mean over wordings, 0..1",
    "wording_flips": "share of questions whose top answer changes with the wording",
}
"""As in reflex.metrics.core: one line per metric that `compute` may return."""


def compute(df: pd.DataFrame, pairs: Iterable[Mapping[str, str]] = ()) -> dict[str, Metric]:
    """The metrics that apply to `df`; none without pairs and with one wording.

    Raises DataError for a pair of an unknown kind, of a question that is nowhere, or whose two questions
    cannot be compared.
    """
    opposite: list[Any] = []
    paraphrase: list[Any] = []
    for pair in pairs:
        kind = pair.get("kind")
        if kind not in KINDS:
            raise DataError(f"question_pairs: kind {kind!r} is not one of {', '.join(KINDS)}")
        (opposite if kind == "opposite" else paraphrase).append((pair["a"], pair["b"]))
    found: dict[str, Metric] = {}
    if opposite:
        found |= _opposites(joined(df, opposite))
    if paraphrase:
        found |= _paraphrases(joined(df, paraphrase))
    return found | _wordings(df)


def joined(df: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """One row per item and pair: columns of question a, and of question b with the suffix `_b`.

    Raises DataError for a question that is nowhere, or two that have different options.
    """
    parts = []
    for a, b in pairs:
        sides = [df[df["question_id"] == name] for name in (a, b)]
        for name, side in zip((a, b), sides, strict=True):
            if not len(side):
                raise DataError(f"question_pairs: no answer to a question {name!r}")
        both = sides[0].merge(sides[1], on="item_id", suffixes=("", "_b"))
        if any(list(x) != list(y) for x, y in zip(both["keys"], both["keys_b"])):
            raise DataError(f"question_pairs: {a!r} and {b!r} have different options")
        parts.append(both)
    return pd.concat(parts, ignore_index=True)


def _yes(df: pd.DataFrame, column: str) -> Floats:
    if (df["type"] != "noul").any():
        bad = df.loc[df["type"] != "noul", "question_id"].iloc[0]
        raise DataError(
            f"question_pairs: {bad!r} is not a yes/no question, so nothing is its opposite"
        )
    return np.array([row[0] for row in df[column]], dtype=np.float64)


def _opposites(pairs: pd.DataFrame) -> dict[str, Metric]:
    p_a, p_b = _yes(pairs, "probabilities"), _yes(pairs, "probabilities_b")
    t_a, t_b = _yes(pairs, "target"), _yes(pairs, "target_b")
    groups = group_codes(pairs["group"])
    return {
        "opposite_gap": mean(
            np.abs(p_a - (1 - p_b)), groups, labels=float(np.abs(t_a - (1 - t_b)).mean())
        ),
        "question_ignored": {
            **share(alike(pairs, "probabilities").astype(float), groups),
            "labels": float(alike(pairs, "target").mean()),
        },
    }


def alike(pairs: pd.DataFrame, column: str) -> Bools:
    """Of `joined` yes/no questions, whether both probabilities of yes lie on one side of a half, or both on it:
    who says one half to every question ignores it too. Raises DataError for another type of question."""
    a, b = _yes(pairs, column), _yes(pairs, f"{column}_b")
    return np.asarray(np.sign(a - 0.5) == np.sign(b - 0.5))


def _paraphrases(pairs: pd.DataFrame) -> dict[str, Metric]:
    answers = list(zip(pairs["probabilities"], pairs["probabilities_b"]))
    gap = np.array([np.abs(np.subtract(a, b)).sum() / 2 for a, b in answers])
    flips = np.array([float(np.argmax(a) != np.argmax(b)) for a, b in answers])
    groups = group_codes(pairs["group"])
    return {"paraphrase_gap": mean(gap, groups), "paraphrase_flips": share(flips, groups)}


def _wordings(df: pd.DataFrame) -> dict[str, Metric]:
    if "wordings" not in df or not (df["wordings"] > 1).any():
        return {}
    far, flips = [], []
    for rows, wordings in zip(df["order_probabilities"], df["wordings"]):
        table = np.asarray(rows, dtype=np.float64)
        top_w = per_wording(table, int(wordings)).argmax(axis=1)
        far.append(wording_disagreement(table, int(wordings)))
        flips.append(float(len(set(top_w.tolist())) > 1))
    groups = group_codes(df["group"])
    return {
        "wording_disagreement": mean(np.array(far), groups),
        "wording_flips": share(np.array(flips), groups),
    }
