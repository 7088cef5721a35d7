"""Answers that know nothing, on the very rows a run answered: all options equally likely, and the best constant."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd

from reflex.metrics.frame import Floats, Items


def uniform_losses(x: Items) -> dict[str, Floats]:
    """`nll` (nats) and `brier` (0..2) per row of the answer "every option equally likely"."""
    real_nk = np.arange(x.target_nk.shape[1]) < x.options_n[:, None]
    p_nk = real_nk / x.options_n[:, None]
    return {
        "nll": np.log(x.options_n).astype(np.float64),
        "brier": np.square(p_nk - x.target_nk).sum(axis=1),
    }


def constant_correct(df: pd.DataFrame) -> Floats:
    """1.0 where the best constant answer to that question is right, for the rows of `df` with a gold answer.

    Every question of a suite has its own: the option that is right most often, or, where rows differ in their
    options, the place in the declared list. Questions asked once share one: an answer to each of them alone would
    always be right. It is chosen on these rows, so it is not below what guessing by frequency reaches on new ones.
    """
    scored = df[df["gold"] >= 0].reset_index(drop=True)
    correct_n = np.zeros(len(scored))
    asked_n = scored.groupby("question_id")["gold"].transform("size")
    for places in scored.groupby(scored["question_id"].where(asked_n > 1, "")).indices.values():
        rows = scored.iloc[places]
        keys, gold = [list(map(str, each)) for each in rows["keys"]], rows["gold"].tolist()
        if len({frozenset(each) for each in keys}) == 1:
            answers: list[str | int] = [each[index] for each, index in zip(keys, gold, strict=True)]
        else:
            answers = gold
        ((best, _),) = Counter(answers).most_common(1)
        correct_n[places] = [answer == best for answer in answers]
    return correct_n
