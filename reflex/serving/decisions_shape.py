"""The OpenAI Decisions shape: what `POST /v1/decisions` takes, as pydantic models."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool, StrictStr


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TextPart(BaseModel):
    """`prompt_cache_breakpoint` and the like are accepted and not needed: states are kept anyway."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    type: Literal["input_text", "output_text"]
    text: str


class RefusalPart(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)
    type: Literal["refusal"]
    refusal: str


class JsonPart(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)
    type: Literal["input_json"]
    data: dict[str, JsonValue] | list[dict[str, JsonValue]]


class ImagePart(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)
    type: Literal["input_image"]


Part: TypeAlias = Annotated[
    TextPart | RefusalPart | JsonPart | ImagePart, Field(discriminator="type")
]


class Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)
    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "developer", "system"]
    content: str | list[Part]


class FunctionCall(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class CustomToolCall(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)
    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str


class ToolOutput(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)
    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    output: str | list[Part]


Item: TypeAlias = Message | FunctionCall | CustomToolCall | ToolOutput


class Predicate(_Shape):
    type: Literal["predicate"]
    instructions: str | list[Part] = Field(min_length=1)
    name: str | None = None


class Option(_Shape):
    value: StrictStr | StrictBool
    description: str | None = None


class ChoiceQuestion(_Shape):
    type: Literal["choice"]
    instructions: str | list[Part]
    choices: list[Option] = Field(min_length=1)
    name: str | None = None


class Level(_Shape):
    label: str
    description: str | None = None


class ScoreQuestion(_Shape):
    type: Literal["score"]
    instructions: str | list[Part]
    levels: list[Level] = Field(min_length=1, max_length=10)
    name: str | None = None


Asked: TypeAlias = Annotated[
    Predicate | ChoiceQuestion | ScoreQuestion, Field(discriminator="type")
]


class DecisionsRequest(BaseModel):
    """Unknown top-level fields (cache options, safety identifiers) are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    model: str
    input: str | list[Item]
    questions: list[Asked] = Field(min_length=1)
