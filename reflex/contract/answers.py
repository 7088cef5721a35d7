"""The answer half of the wire contract, and the confidence it carries.

Probabilities are never rounded: rounding forty options to two decimals makes sums of 0.96 to 1.18.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from reflex.contract.questions import Choice, Noul, Question, Text, option_keys


class _Extensible(BaseModel):
    """Extra fields are allowed, and by convention of the contract start with `x_`."""

    model_config = ConfigDict(extra="allow")


class NoulAnswer(_Extensible):
    type: Literal["noul"] = "noul"
    noul: float


class ChoiceAnswer(_Extensible):
    type: Literal["choice"] = "choice"
    choice: str
    probabilities: dict[str, float]
    confidence: float


class ScoreAnswer(_Extensible):
    type: Literal["score"] = "score"
    score: float
    legend: dict[str, Text]
    probabilities: dict[str, float]
    confidence: float


Answer: TypeAlias = Annotated[NoulAnswer | ChoiceAnswer | ScoreAnswer, Field(discriminator="type")]


class Usage(_Extensible):
    input_tokens: int
    output_tokens: int = 0


class Response(_Extensible):
    model: str
    answers: dict[str, Answer]
    usage: Usage


def choice_confidence(probabilities: Sequence[float]) -> float:
    """Chance-corrected maximum (m − 1/n) / (1 − 1/n), in [0, 1]; 1 for a single option."""
    n = len(probabilities)
    if n == 1:
        return 1.0
    return min(1.0, max(0.0, (max(probabilities) - 1 / n) / (1 - 1 / n)))


def score_confidence(probabilities: Sequence[float]) -> float:
    """max(0, 1 − Σ pᵢ |i − k| / D) with k the mode and D = (1/n) Σ |i − (n−1)/2|; 1 for one level."""
    n = len(probabilities)
    if n == 1:
        return 1.0
    mode = max(range(n), key=lambda level: probabilities[level])
    spread = sum(p * abs(level - mode) for level, p in enumerate(probabilities))
    scale = sum(abs(level - (n - 1) / 2) for level in range(n)) / n
    return min(1.0, max(0.0, 1 - spread / scale))


def build_answer(
    question: Question, probabilities: Mapping[str, float], extras: Mapping[str, Any] | None = None
) -> NoulAnswer | ChoiceAnswer | ScoreAnswer:
    """Turn a distribution over `option_keys(question)` into the typed answer.

    `extras` must be named `x_…`; they are added to the answer unchanged.
    """
    extra = dict(extras or {})
    if isinstance(question, Noul):
        return NoulAnswer(noul=probabilities["true"], **extra)
    keys = option_keys(question)
    values = [probabilities[key] for key in keys]
    named = dict(zip(keys, values, strict=True))
    if isinstance(question, Choice):
        return ChoiceAnswer(
            choice=max(keys, key=lambda key: named[key]),
            probabilities=named,
            confidence=choice_confidence(values),
            **extra,
        )
    return ScoreAnswer(
        score=sum(level * p for level, p in enumerate(values)),
        legend=dict(zip(keys, question.criteria, strict=True)),
        probabilities=named,
        confidence=score_confidence(values),
        **extra,
    )
