"""Questions in, distributions out: the wire contract of `POST /v1/systemone`. Imports no torch."""

from reflex.contract.answers import (
    Answer,
    ChoiceAnswer,
    NoulAnswer,
    Response,
    ScoreAnswer,
    Usage,
    build_answer,
    choice_confidence,
    score_confidence,
)
from reflex.contract.questions import (
    TYPES,
    Choice,
    Noul,
    Question,
    Request,
    Score,
    Text,
    option_keys,
    parse_question,
    parse_request,
    question_is_described,
)

__all__ = [
    "TYPES",
    "Answer",
    "Choice",
    "ChoiceAnswer",
    "Noul",
    "NoulAnswer",
    "Question",
    "Request",
    "Response",
    "Score",
    "ScoreAnswer",
    "Text",
    "Usage",
    "build_answer",
    "choice_confidence",
    "option_keys",
    "parse_question",
    "parse_request",
    "question_is_described",
    "score_confidence",
]
