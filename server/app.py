"""Assemble the HTTP application from services that are already built.

Imports no model library.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from models.errors import ArrowheadError
from retrieval.errors import RetrievalError
from server.api import system
from server.api.administration import collections, keys, overview
from server.api.answers.kept import KeepAnswers, KeptReplies
from server.api.files import files, vector_stores
from server.api.mcp import endpoint
from server.api.mcp.endpoint import McpEndpoint
from server.api.messages import routes as messages
from server.api.openai import chat, completions, models
from server.api.reference import document
from server.api.responses import conversations, stored
from server.api.responses import routes as responses
from server.api.responses.background import BackgroundAnswers
from server.api.retrieval import decisions, documents, embeddings, namespaces, search, stored_documents, verify
from server.api.reviews import routes as reviews
from server.error_mapping import ErrorReply, error_reply
from server.errors import EgressRaised
from server.middleware import AccessControl, AccessLogMiddleware, SecurityMiddleware, log_failure
from server.version import installed_version
from server.web import routes as web
from server.wiring.services import Services


class Application(FastAPI):
    """Complete the OpenAPI document that FastAPI generates from the routes, and log each request."""

    def build_middleware_stack(self) -> ASGIApp:
        """Return the layers, with the access log around the framework's own ones."""
        return AccessLogMiddleware(super().build_middleware_stack(), self.state.services.observability)

    def openapi(self) -> dict[str, Any]:
        """Return the document."""
        return document.completed(super().openapi, self.routes, needs_key=self.state.services.key_lookup.requires_key)


# In the order in which the description of the API has them.
_ROUTED: Final = (
    *(chat, completions, responses, stored, conversations, messages, models),
    *(embeddings, verify, decisions, search, namespaces),
    *(stored_documents, documents, files, vector_stores, reviews, endpoint, system),
    *(keys, overview, collections, document, web),
)


def create_app(services: Services) -> Application:
    """Return the application, which starts to load the model at its own start.

    Until the model is loaded, requests for answers get a 503.
    """
    background = BackgroundAnswers()
    kept = KeptReplies(is_off=services.settings.traces.max_traces == 0)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        services.start()
        await services.start_jobs()
        try:
            yield
        finally:
            await kept.close()
            await background.close()
            await app.state.mcp.close()
            await services.close()

    app = Application(
        title="Arrowhead",
        version=installed_version(),
        description=document.ABOUT,
        openapi_tags=list(document.TAGS),
        servers=[{"url": "/"}],
        # As they are: FastAPI's include_router would read each of them again.
        routes=[route for module in _ROUTED for route in module.router.routes],
        lifespan=lifespan,
        openapi_url=None,  # /openapi.json is a route of its own, which needs a key
        docs_url=None,
        redoc_url=None,
    )
    app.state.services = services
    app.state.kept = kept
    app.state.background = background
    app.state.mcp = McpEndpoint(services.settings.server.max_body_bytes)
    app.add_exception_handler(ArrowheadError, _on_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    _add_middleware(app, services, kept)
    return app


def _add_middleware(app: Application, services: Services, kept: KeptReplies) -> None:
    """Add the layers around the routes, the innermost first."""
    app.add_middleware(KeepAnswers, replies=kept)
    server = services.settings.server
    access_control = AccessControl(server, services.key_lookup, services.rates, services.first_key)
    app.add_middleware(SecurityMiddleware, access_control=access_control, body_timeout_s=server.slow_client_s)


async def _on_error(request: Request, error: Exception) -> JSONResponse:
    log_failure(error)
    reply = error_reply(error)
    services: Services = request.app.state.services
    if isinstance(error, EgressRaised) and services.egress is not None:
        await services.egress.recorded()  # no client knows of a refusal that the audit log does not have
    if isinstance(error, RetrievalError):  # messages of namespaces and indices name their files
        reply = replace(reply, message=services.retrieval.uploads.conceal(reply.message))
    request.state.error_code = reply.code
    body = reply.body_at(request.scope["path"])
    return JSONResponse(body, status_code=reply.status, headers=reply.headers)


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    """Answer an unknown route or method."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    text = "there is no such route" if status == 404 else "the route does not take this method"
    request.state.error_code = "unknown_url"
    reply = ErrorReply(status, "invalid_request_error", "unknown_url", text)
    body = reply.body_at(request.scope["path"])
    return JSONResponse(body, status_code=status, headers=getattr(error, "headers", None))
