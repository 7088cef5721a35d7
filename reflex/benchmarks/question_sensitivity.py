"""Opposite and reworded questions over the human-ratings texts: does the answer follow the question?

A model that answers from the text alone says yes to "is it positive?" and to "is it negative?". Every question
has the raters' own distribution as its label, so what a perfect answerer would show stands beside each figure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from reflex.assets import HUMAN_RATINGS, RegistryAsset
from reflex.benchmarks.base import Suite
from reflex.benchmarks.human_ratings import HumanRatings
from reflex.contract import Question, parse_question
from reflex.data.human_ratings import FILES
from reflex.data.rows import Row, parse_label

NAME = "question_sensitivity"


def _noul(instructions: str) -> Question:
    return parse_question({"type": "noul", "instructions": instructions})


QUESTIONS: dict[str, Question] = {
    "positive": _noul("Is the sentiment of this text positive?"),
    "positive_reworded": _noul("Does this text express something good about its subject?"),
    "not_positive": _noul("Is it false that the sentiment of this text is positive?"),
    "negative": _noul("Is the sentiment of this text negative?"),
}
PAIRS: list[dict[str, str]] = [
    {"kind": "opposite", "a": "positive", "b": "negative"},
    {"kind": "opposite", "a": "positive", "b": "not_positive"},
    {"kind": "paraphrase", "a": "positive", "b": "positive_reworded"},
]
"""positive and negative leave room for neutral texts, which both are rightly denied: see `labels`."""


@dataclass
class QuestionSensitivity:
    """The rows of `human_ratings` with other questions; `per_family`, `split`, `families`, `limit` as there."""

    _target_: str = "reflex.benchmarks.question_sensitivity.QuestionSensitivity"
    name: str = NAME
    per_family: int | None = 50
    split: str = "report"
    families: list[str] = field(default_factory=lambda: list(FILES))
    limit: int | None = None

    def __post_init__(self) -> None:
        self._texts()

    def load(self) -> Suite:
        """Fetches the asset the first time. Raises AssetError or DataError."""
        return self.load_from(HUMAN_RATINGS)

    def load_from(self, asset: RegistryAsset) -> Suite:
        """`load` from another asset of the same shape (the tests have a tiny one)."""
        suite = self._texts().load_from(asset)
        facts: dict[str, Any] = {**suite.facts, "question_pairs": PAIRS}
        return Suite(self.name, [_asked(row) for row in suite.rows], facts)

    def _texts(self) -> HumanRatings:
        return HumanRatings(
            per_family=self.per_family,
            split=self.split,
            families=list(self.families),
            questions=["sentiment"],
            limit=self.limit,
        )


def _asked(row: Row) -> Row:
    shares = row.labels["sentiment"]
    yes = {
        "positive": shares["positive"],
        "positive_reworded": shares["positive"],
        "not_positive": 1 - shares["positive"],
        "negative": shares["negative"],
    }
    labels = {name: parse_label(QUESTIONS[name], p, name) for name, p in yes.items()}
    return replace(row, questions=QUESTIONS, labels=labels)
