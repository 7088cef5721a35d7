"""The request half of the wire contract: state, typed questions, options.

Unknown top-level fields of a request are ignored (clients add their own); unknown fields of a question are
refused, because a misspelt `criteria` would silently change what is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from reflex.errors import RequestError

Text: TypeAlias = str | dict[str, JsonValue] | list[JsonValue]
"""Instructions and descriptions: a string, or structured JSON that is rendered as JSON."""

MAX_LEVELS = 10
MAX_PERMUTATIONS = 8


class _Question(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    instructions: Text | None = None


class NoulCriteria(BaseModel):
    """Optional descriptions of the two outcomes of a yes/no question."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    true: Text | None = None
    false: Text | None = None


class Noul(_Question):
    """A yes/no question; the answer is the probability of yes."""

    type: Literal["noul"] = "noul"
    criteria: NoulCriteria | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> Noul:
        described = self.criteria and (self.criteria.true or self.criteria.false)
        if not self.instructions and not described:
            raise ValueError("a noul question needs instructions or a described outcome")
        return self


class Choice(_Question):
    """Pick one of the named options; `criteria` maps option name to description or null."""

    type: Literal["choice"] = "choice"
    criteria: dict[str, Text | None] = Field(min_length=1)


class Score(_Question):
    """Pick one of ordered levels, lowest first."""

    type: Literal["score"] = "score"
    criteria: list[Text] = Field(min_length=1, max_length=MAX_LEVELS)


Question: TypeAlias = Annotated[Noul | Choice | Score, Field(discriminator="type")]


class Request(BaseModel):
    """One state and the questions asked of it.

    assets (images) are refused: what is asked reaches a model as text, and nothing is answered blind. reflex's own
    extensions:

    permutations: how many orders of the options are asked and averaged. x_orders: whether answers show each
    order's own distribution too.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    model: str = "jev-latest"
    state: Text
    questions: dict[Annotated[str, Field(min_length=1)], Question] = Field(min_length=1)
    assets: None = Field(default=None, description="Images: the backbone reads text only.")
    permutations: int | None = Field(default=None, ge=1, le=MAX_PERMUTATIONS, strict=True)
    x_orders: bool = Field(default=False, strict=True)

    @field_validator("assets", mode="before")
    @classmethod
    def _no_images(cls, assets: Any) -> None:
        if assets is not None:
            why = (
                "the backbone reads text only and cannot see images"
                if assets
                else "must not be empty"
            )
            raise ValueError(f"{why}; leave `assets` out")


_QUESTION: TypeAdapter[Question] = TypeAdapter(Question)
TYPES = ("choice", "noul", "score")


def first_fault(
    error: ValidationError, raw: Any
) -> tuple[tuple[str | int, ...], Mapping[str, Any]]:
    """What is wrong first with `raw`, and the path to it: parts the caller sent, then a missing field's name.

    Where several types are allowed, pydantic names each in the path and tells each one's fault; the one found
    deepest is of the type that was meant.
    """
    faults = error.errors(include_url=False, include_input=False)
    found = [(_sent(fault["loc"], raw, fault["type"] == "missing"), fault) for fault in faults]
    start = found[0][0]
    return max(
        ((path, fault) for path, fault in found if path[: len(start)] == start),
        key=lambda one: len(one[0]),
    )


def _sent(loc: tuple[str | int, ...], raw: Any, missing: bool) -> tuple[str | int, ...]:
    path: list[str | int] = []
    for part in loc[:-1] if missing else loc:
        try:
            raw = raw[part]
        except (KeyError, IndexError, TypeError):  # the name of a type
            continue
        path.append(part)
    return (*path, loc[-1]) if missing else tuple(path)


def _one_line(error: ValidationError, raw: Any, root: tuple[str | int, ...]) -> RequestError:
    path, fault = first_fault(error, raw)
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
        given = f" {fault['ctx']['tag']!r}" if "tag" in fault["ctx"] else ""
        message = f"no type{given}; use one of {', '.join(map(repr, TYPES))}"
    return RequestError(message, root + path)


def parse_question(raw: Any, where: tuple[str | int, ...] = ("question",)) -> Question:
    """Validate one question given as a dict. Raises RequestError naming the path below `where`."""
    try:
        return _QUESTION.validate_python(raw)
    except ValidationError as error:
        raise _one_line(error, raw, where) from None


def parse_request(raw: Any) -> Request:
    """Validate a request given as a dict. Raises RequestError naming the first offending path."""
    try:
        return Request.model_validate(raw)
    except ValidationError as error:
        raise _one_line(error, raw, ("body",)) from None


def option_keys(question: Question) -> tuple[str, ...]:
    """The keys an answer's probabilities carry, in the caller's order."""
    if isinstance(question, Noul):
        return ("true", "false")
    if isinstance(question, Choice):
        return tuple(question.criteria)
    return tuple(str(level) for level in range(len(question.criteria)))


def question_is_described(question: Question) -> bool:
    """Whether any option carries a description beyond its bare name (levels always do).

    An empty description of a choice's option counts as one, of yes or no it does not.
    """
    if isinstance(question, Noul):
        return bool(question.criteria and (question.criteria.true or question.criteria.false))
    if isinstance(question, Choice):
        return any(text is not None for text in question.criteria.values())
    return True
