"""The OpenAPI document: generated from the contract's own models, then made as exact as the checks."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from reflex.contract import Request, Response
from reflex.serving.config import ServeConfig
from reflex.serving.decisions_shape import DecisionsRequest

REF = "#/components/schemas/{model}"

_SOME_TEXT = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "object", "minProperties": 1},
        {"type": "array", "minItems": 1},
    ]
}
_VALIDATION = {
    "type": "object",
    "required": ["detail"],
    "properties": {
        "detail": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["loc", "msg", "type"],
                "properties": {
                    "loc": {"type": "array", "items": {"type": ["string", "integer"]}},
                    "msg": {"type": "string"},
                    "type": {"type": "string"},
                },
            },
        }
    },
}
_ERROR = {
    "type": "object",
    "required": ["detail"],
    "properties": {
        "detail": {
            "type": "object",
            "required": ["error_type", "message"],
            "properties": {"error_type": {"type": "string"}, "message": {"type": "string"}},
        }
    },
}
ERRORS = {
    401: "No API key, or an unknown one",
    408: "The body did not arrive in time",
    413: "Longer than the context or the server's limits; nothing is truncated",
    415: "A content encoding the server does not know",
    429: "The queue is full; see Retry-After",
    503: "Loading, failed, stopping, or not answered in time",
}


def openapi(config: ServeConfig, needs_key: bool) -> dict[str, Any]:
    """The document for /openapi.json."""
    schemas: dict[str, Any] = {"Error": _ERROR, "ValidationError": _VALIDATION}
    request = _add(schemas, Request, "validation")
    response = _add(schemas, Response, "serialization")
    decisions = _add(schemas, DecisionsRequest, "validation")
    _sharpen(schemas, config)
    decision: dict[str, Any] = {
        "type": "object",
        "required": ["model", "answers", "usage"],
        "properties": {
            "model": {"type": "string"},
            "answers": {"type": "array", "items": {"type": "object"}},
            "usage": {"type": "object"},
        },
    }
    first = "Typed questions in, probabilities out"
    second = "The same in the OpenAI Decisions shape"
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "reflex", "version": "1"},
        "paths": {
            "/v1/systemone": {"post": _operation(first, request, response)},
            "/v1/decisions": {"post": _operation(second, decisions, decision)},
            "/v1/models": {
                "get": _get("The served model", {"models": {"type": "array"}}, needs_key)
            },
            "/health": {"get": _get("What is served, and whether", {"status": {"type": "string"}})},
            "/ready": {"get": _get("Whether requests are taken", {"status": {"type": "string"}})},
        },
        "components": {"schemas": schemas},
    }
    if needs_key:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path in ("/v1/systemone", "/v1/decisions", "/v1/models"):
            for operation in document["paths"][path].values():
                operation["security"] = [{"key": []}]
    return document


def _add(schemas: dict[str, Any], model: type[BaseModel], mode: Any) -> dict[str, str]:
    schema = model.model_json_schema(ref_template=REF, mode=mode)
    schemas |= schema.pop("$defs", {})
    schemas[model.__name__] = schema
    return {"$ref": REF.format(model=model.__name__)}


def _sharpen(schemas: dict[str, Any], config: ServeConfig) -> None:
    """State in the schema what validators check beyond types."""
    schemas["Noul"]["anyOf"] = [
        {"required": ["instructions"], "properties": {"instructions": _SOME_TEXT}},
        {
            "required": ["criteria"],
            "properties": {
                "criteria": {
                    "type": "object",
                    "anyOf": [
                        {"required": [side], "properties": {side: _SOME_TEXT}}
                        for side in ("true", "false")
                    ],
                }
            },
        },
    ]
    for name in ("Noul", "Choice", "Score"):  # the tag has a default in Python, not on the wire
        schemas[name].setdefault("required", []).append("type")
    properties = schemas["Request"]["properties"]
    properties["questions"]["maxProperties"] = config.max_questions
    schemas["Choice"]["properties"]["criteria"]["maxProperties"] = config.max_options


def _operation(summary: str, body: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": body}}
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": content},
        "responses": {
            "200": {"description": "Answered", "content": {"application/json": {"schema": reply}}},
            "422": _response("The request cannot be answered as it stands", "ValidationError"),
            **{str(status): _response(text, "Error") for status, text in ERRORS.items()},
        },
    }


def _response(text: str, model: str) -> dict[str, Any]:
    schema = {"$ref": REF.format(model=model)}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _get(summary: str, properties: dict[str, Any], needs_key: bool = False) -> dict[str, Any]:
    schema = {"type": "object", "required": list(properties), "properties": properties}
    responses = {
        "200": {"description": "OK", "content": {"application/json": {"schema": schema}}},
        "503": {"description": ERRORS[503], "content": {"application/json": {}}},
    }
    if needs_key:
        responses["401"] = _response(ERRORS[401], "Error")
    return {"summary": summary, "responses": responses}
