"""The second door: `POST /v1/decisions` in the OpenAI Decisions shape, onto the same engine.

predicate ↔ noul, choices list ↔ criteria map (a boolean and a string of the same text stay apart),
levels ↔ criteria array. Input items become a JSON state in their order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from reflex.contract import (
    Choice,
    ChoiceAnswer,
    Noul,
    NoulAnswer,
    Question,
    Request,
    Score,
    ScoreAnswer,
)
from reflex.contract.questions import first_fault
from reflex.errors import RequestError
from reflex.serving.config import ServeConfig
from reflex.serving.decisions_shape import (
    Asked,
    ChoiceQuestion,
    DecisionsRequest,
    ImagePart,
    Item,
    JsonPart,
    Message,
    Part,
    Predicate,
    RefusalPart,
    ScoreQuestion,
    ToolOutput,
)
from reflex.serving.requests import check_number


@dataclass(frozen=True)
class Translated:
    """A Decisions request as the contract's; `ids[i]` is the question id of `source.questions[i]`."""

    request: Request
    source: DecisionsRequest
    ids: tuple[str, ...]

    def placed(self, error: RequestError) -> RequestError:
        """An error about the contract's request with its path in this one: ids are nothing its caller knows."""
        match error.loc:
            case ("body", "questions", str(question_id), *rest) if question_id in self.ids:
                index = self.ids.index(question_id)
                options = {"choice": "choices", "score": "levels"}
                own = {"criteria": options.get(self.source.questions[index].type, "criteria")}
                loc = ("body", "questions", index, *(own.get(str(part), part) for part in rest))
                return RequestError(error.message, loc)
        return error


def translate(raw: Any, config: ServeConfig, backbone: str) -> Translated:
    """Raises RequestError naming the offending path."""
    asked_raw = raw.get("questions") if isinstance(raw, dict) else None
    if isinstance(asked_raw, list):
        check_number(asked_raw, config)
    try:
        source = DecisionsRequest.model_validate(raw)
    except ValidationError as error:
        path, fault = first_fault(error, raw)
        raise RequestError(fault["msg"], ("body", *path)) from None
    questions: dict[str, Question] = {}
    ids = []
    for index, asked in enumerate(source.questions):
        question = _question(asked, ("body", "questions", index), backbone)
        # The id follows from what is asked, so neither place nor name can move an answer.
        question_id = asked.type + json.dumps(question.model_dump(), ensure_ascii=True)
        questions[question_id] = question
        ids.append(question_id)
    state = _state(source.input, backbone)
    return Translated(
        Request(model=source.model, state=state, questions=questions), source, tuple(ids)
    )


def _state(given: str | list[Item], backbone: str) -> Any:
    if isinstance(given, str):
        return given
    items: list[Any] = []
    calls: set[tuple[str, str]] = set()
    for index, item in enumerate(given):
        loc = ("body", "input", index)
        if isinstance(item, Message):
            items.append({"role": item.role, "content": _content(item.content, loc, backbone)})
        elif isinstance(item, ToolOutput):
            kind = item.type.removesuffix("_output")
            if (kind, item.call_id) not in calls:
                raise RequestError(f"no earlier {kind} has this call_id", (*loc, "call_id"))
            output = _content(item.output, loc, backbone)
            items.append({"type": item.type, "call_id": item.call_id, "output": output})
        else:
            calls.add((item.type, item.call_id))
            items.append(item.model_dump())
    return items


def _content(content: str | list[Part], loc: tuple[str | int, ...], backbone: str) -> Any:
    """A string, or the parts: text as strings, JSON as it is. One text part is that text."""
    if isinstance(content, str):
        return content
    parts: list[Any] = []
    for part in content:
        if isinstance(part, ImagePart):
            raise RequestError(f"{backbone} reads text only and cannot see images", loc)
        if isinstance(part, JsonPart):
            parts.append(part.data)
        else:
            parts.append(part.refusal if isinstance(part, RefusalPart) else part.text)
    return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else parts


def _question(asked: Asked, loc: tuple[str | int, ...], backbone: str) -> Question:
    instructions = _content(asked.instructions, (*loc, "instructions"), backbone)
    if isinstance(asked, Predicate):
        if not instructions:
            raise RequestError("a predicate needs instructions", (*loc, "instructions"))
        return Noul(instructions=instructions)
    if isinstance(asked, ScoreQuestion):
        levels = [
            f"{level.label}: {level.description}" if level.description else level.label
            for level in asked.levels
        ]
        return Score(instructions=instructions, criteria=levels)
    values = [(type(option.value), option.value) for option in asked.choices]
    if len(set(values)) != len(values):
        raise RequestError("every choice must be unique", (*loc, "choices"))
    keys = option_names(asked)
    described = [option.description or None for option in asked.choices]
    return Choice(instructions=instructions, criteria=dict(zip(keys, described, strict=True)))


def option_names(asked: ChoiceQuestion) -> tuple[str, ...]:
    """A text per choice, all distinct: strings as they are, booleans marked where a string has the name."""
    strings = {option.value for option in asked.choices if isinstance(option.value, str)}
    names = []
    for option in asked.choices:
        name = option.value if isinstance(option.value, str) else str(option.value).lower()
        while not isinstance(option.value, str) and name in strings:
            name += " (boolean)"
        names.append(name)
    return tuple(names)


def to_decisions(translated: Translated, response: Any) -> dict[str, Any]:
    """The contract's response in the Decisions shape, answers in question order."""
    answers = [
        _answer(asked, response.answers[question_id])
        for asked, question_id in zip(translated.source.questions, translated.ids, strict=True)
    ]
    extras: Mapping[str, Any] = response.usage.model_extra or {}
    state_tokens = int(extras.get("x_state_tokens", 0))
    hit = bool(extras.get("x_state_cache_hit", False))
    total = response.usage.input_tokens
    return {
        "model": response.model,
        "answers": answers,
        "usage": {
            "input_tokens": total,
            "input_tokens_details": {
                "cached_tokens": state_tokens if hit else 0,
                "cache_write_tokens": 0,
            },
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": total,
        },
    }


def _answer(asked: Asked, answer: NoulAnswer | ChoiceAnswer | ScoreAnswer) -> dict[str, Any]:
    told: dict[str, Any] = {"type": asked.type, "name": asked.name}
    if isinstance(answer, NoulAnswer):
        return told | {"probability": answer.noul}
    if isinstance(answer, ScoreAnswer):
        assert isinstance(asked, ScoreQuestion)
        return told | {
            "score": answer.score,
            "confidence": answer.confidence,
            "probabilities": [
                {"value": i, "label": level.label, "probability": answer.probabilities[str(i)]}
                for i, level in enumerate(asked.levels)
            ],
        }
    assert isinstance(asked, ChoiceQuestion)
    names = option_names(asked)
    values = {name: option.value for name, option in zip(names, asked.choices, strict=True)}
    return told | {
        "choice": values[answer.choice],
        "confidence": answer.confidence,
        "probabilities": [
            {"value": values[name], "probability": answer.probabilities[name]} for name in names
        ],
    }
