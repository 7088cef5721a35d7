"""The OpenAI Decisions shape: what `POST /v1/decisions` takes, as pydantic models."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool, StrictStr

from reflex.contract.questions import MAX_LEVELS


class _Open(BaseModel):
    """Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Closed(BaseModel):
    """Unknown fields are refused: a misspelt one would change what is asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TextPart(_Open):
    """`prompt_cache_breakpoint` and the like are accepted and not needed: states are kept anyway."""

    type: Literal["input_text", "output_text"]
    text: str


class RefusalPart(_Open):
    type: Literal["refusal"]
    refusal: str


class JsonPart(_Open):
    type: Literal["input_json"]
    data: dict[str, JsonValue] | list[dict[str, JsonValue]]


class ImagePart(_Open):
    type: Literal["input_image"]


Part: TypeAlias = Annotated[
    TextPart | RefusalPart | JsonPart | ImagePart, Field(discriminator="type")
]


class Message(_Open):
    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "developer", "system"]
    content: str | list[Part]


class FunctionCall(_Open):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class CustomToolCall(_Open):
    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str


class ToolOutput(_Open):
    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    output: str | list[Part]


Item: TypeAlias = Message | FunctionCall | CustomToolCall | ToolOutput


class Predicate(_Closed):
    type: Literal["predicate"]
    instructions: str | list[Part] = Field(min_length=1)
    name: str | None = None


class Option(_Closed):
    value: StrictStr | StrictBool
    description: str | None = None


class ChoiceQuestion(_Closed):
    type: Literal["choice"]
    instructions: str | list[Part]
    choices: list[Option] = Field(min_length=1)
    name: str | None = None


class Level(_Closed):
    label: str
    description: str | None = None


class ScoreQuestion(_Closed):
    type: Literal["score"]
    instructions: str | list[Part]
    levels: list[Level] = Field(min_length=1, max_length=MAX_LEVELS)
    name: str | None = None


Asked: TypeAlias = Annotated[
    Predicate | ChoiceQuestion | ScoreQuestion, Field(discriminator="type")
]


class DecisionsRequest(_Open):
    """Unknown top-level fields (cache options, safety identifiers) are ignored."""

    model: str
    input: str | list[Item]
    questions: list[Asked] = Field(min_length=1)
