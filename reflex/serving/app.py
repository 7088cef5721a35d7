"""The FastAPI app: both doors, models, health, metrics, and the playground."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from reflex.errors import ReflexError
from reflex.serving import page as playground
from reflex.serving.auth import Keys
from reflex.serving.config import ServeConfig
from reflex.serving.engine import Engine
from reflex.serving.exchange import Exchange, request_id
from reflex.serving.metrics import Metrics
from reflex.serving.replies import KINDS, error_reply, json_reply, openai_error
from reflex.serving.schema import openapi

RELEASED = "2026-01-01"


def create_app(engine: Engine, config: ServeConfig, keys: Keys) -> FastAPI:
    """The app around `engine`, which it starts and stops.

    `/` is the playground for a browser, and tells programs what is there.
    """
    metrics = Metrics(engine)
    engine.on_batch = metrics.batch
    exchange = Exchange(engine, config, keys, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        engine.stop()
        exchange.pool.shutdown()

    # The interactive docs load scripts from elsewhere; the schema itself is at /openapi.json.
    app = FastAPI(title="reflex", lifespan=lifespan, docs_url=None, redoc_url=None)
    if config.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(config.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["x-typesafe-request-id", "x-reflex-latency-ms", "retry-after"],
        )

    async def systemone(request: Request) -> Response:
        return await exchange.handle(request, "systemone")

    async def decisions(request: Request) -> Response:
        return await exchange.handle(request, "decisions")

    async def models(request: Request) -> Response:
        keys.check(request.headers.get("authorization"))
        headers = {"x-typesafe-request-id": request_id(request)}
        return json_reply({"models": [model_entry(engine)]}, headers=headers)

    async def health(request: Request) -> Response:
        return json_reply(engine.facts(), 503 if engine.status == "failed" else 200)

    async def ready(request: Request) -> Response:
        engine.check_ready()
        return json_reply({"status": "ready"})

    async def prometheus(request: Request) -> Response:
        if config.metrics_need_key:
            keys.check(request.headers.get("authorization"))
        return Response(metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def index(request: Request) -> Response:
        if playground.wants_page(request):
            return playground.page(request)
        return json_reply({"name": "reflex", "endpoints": endpoints}, headers={"vary": "accept"})

    doors: list[tuple[str, str, playground.Handler]] = [
        ("POST", "/v1/systemone", systemone),
        ("POST", "/v1/decisions", decisions),
        ("GET", "/v1/models", models),
        ("GET", "/health", health),
        ("GET", "/ready", ready),
        ("GET", "/metrics", prometheus),
    ]
    endpoints = sorted([*(f"{method} {path}" for method, path, _ in doors), "GET /openapi.json"])
    files = {"/": index, **playground.assets()}
    for method, path, handler in (*doors, *(("GET", *file) for file in files.items())):
        app.add_route(path, handler, methods=[method], include_in_schema=False)

    app.add_exception_handler(ReflexError, _on_reflex_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.openapi = lambda: openapi(config, bool(keys))  # type: ignore[method-assign]
    return app


def model_entry(engine: Engine) -> dict[str, str]:
    """One entry of /v1/models. Raises NotReadyError before the model is loaded."""
    facts = engine.decider.model.backbone.facts
    run = f", run {engine.source.run[:12]}" if engine.source.run else ""
    return {
        "name": engine.name,
        "description": f"{facts.name} ({facts.architecture}, {facts.dtype}){run}, served by reflex",
        "release_date": engine.source.about.get("released", RELEASED),
    }


async def _on_reflex_error(request: Request, error: Exception) -> Response:
    reply = error_reply(error)
    reply.headers["x-typesafe-request-id"] = request_id(request)
    return reply


async def _on_http_error(request: Request, error: Exception) -> Response:
    """404 and 405 in the contract's error shape; at the Decisions door also in its own."""
    assert isinstance(error, HTTPException)
    status, message = error.status_code, str(error.detail)
    kind = KINDS.get(status, "http_error")
    body: dict[str, Any] = {"detail": {"error_type": kind, "message": message}}
    if request.url.path == "/v1/decisions":
        body["error"] = openai_error(message, status)
    return json_reply(body, status, dict(error.headers or {}))
