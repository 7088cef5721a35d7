"""A parsed body to a contract `Request`: the server's limits, and what a text-only backbone refuses."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from reflex.contract import Request, Score, option_keys, parse_request
from reflex.errors import ContextLengthError, RequestError
from reflex.serving.config import ServeConfig


def to_request(raw: Any, config: ServeConfig, backbone: str) -> Request:
    """Validate against contract and limits. Raises RequestError with the path of the first fault."""
    if not isinstance(raw, dict):
        raise RequestError("a JSON object is needed", ("body",))
    questions = raw.get("questions")
    _refuse_boxes(questions, backbone)
    if isinstance(questions, dict):
        check_number(questions, config)
    wanted = raw.get("permutations")
    if (
        isinstance(wanted, float) and wanted.is_integer()
    ):  # JSON knows no difference between 2 and 2.0
        raw = {**raw, "permutations": int(wanted)}
    request = parse_request(raw)
    check_limits(request, config)
    return request


def check_number(questions: Sized, config: ServeConfig) -> None:
    """Refuse more questions than this server takes, before the first of them is read."""
    if len(questions) > config.max_questions:
        raise RequestError(
            f"{len(questions)} questions; this server takes {config.max_questions} "
            "in one request (serve.max_questions)",
            ("body", "questions"),
        )


def check_limits(request: Request, config: ServeConfig) -> None:
    """Raise where a valid request is larger than this server takes. Nothing is ever truncated."""
    size = _text_size(request.state)
    if size > config.max_state_chars:
        raise ContextLengthError(
            f"the state has about {size} characters; this server takes {config.max_state_chars} "
            "(serve.max_state_chars)"
        )
    for question_id, question in request.questions.items():
        n = len(option_keys(question))
        if n > config.max_options and not isinstance(question, Score):
            raise RequestError(
                f"{n} options; this server takes {config.max_options} (serve.max_options)",
                ("body", "questions", question_id, "criteria"),
            )


def _refuse_boxes(questions: Any, backbone: str) -> None:
    """`box` questions are of the contract, but need a backbone that sees."""
    if not isinstance(questions, dict):
        return
    for question_id, question in questions.items():
        if isinstance(question, dict) and question.get("type") == "box":
            raise RequestError(
                f"box questions locate things in an image; {backbone} reads text only",
                ("body", "questions", question_id, "type"),
            )


def _text_size(value: Any) -> int:
    """Characters of all strings inside, keys included; other leaves count as a few."""
    total, pending = 0, [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, dict):
            pending += item
            pending += item.values()
        elif isinstance(item, list):
            pending += item
        else:
            total += 4
    return total
