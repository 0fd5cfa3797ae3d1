"""Serve ``GET /v1/models`` (what answers, embeds, re-ranks and verifies), ``POST /tokenize`` and ``POST /detokenize``.

The latter two have vLLM's fields and the served model's tokens. A chat has the tokens that the plain model gets for it:
by the model's chat template or, for a base model, as plain text. Special tokens have no text: they are "" in
``token_strs`` and do not appear in detokenized text.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from models.engines.base import Engine
from server.api.answers.pages import listed
from server.api.declarations import RETRIEVAL_ERRORS, Reads, Reply, Schema, errors, with_unused
from server.api.http_io import Body, cancel_on_disconnect, parse_body, read_body, read_json
from server.api.openai.schemas import MAX_MESSAGES, MAX_TEXT, ChatMessage, served_fields
from server.auth.authentication import Principal
from server.errors import UNSUPPORTED_FIELD, RequestError
from server.methods.base import AnswerRequest, ids_of, plain_ids, uses_chat_template
from server.methods.shared.synthesis import Synthesis
from server.wiring.services import ServedModel, Services

router = APIRouter(tags=["Answers"])


class Capability(Reply):
    """Say which routes take the model, and how its answers are made: the default way first, [] for none."""

    routes: list[str]
    synthesis: list[Synthesis]


class Model(Reply):
    """Describe a base model, a method over it, or what embeds, ranks or verifies texts: the first fields alone."""

    id: str
    object: Literal["model"]
    type: Literal["model"] = Field(description="this and the next two are for Anthropic's SDK")
    display_name: str
    created_at: str
    created: int
    owned_by: str
    ready: bool
    description: str
    arrowhead: Capability
    base: str | None = None
    method: str | None = None
    licence: str | None = None
    max_model_len: int | None = None


_ANSWERS: Final = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions")
_EMBEDS: Final = ("/v1/embeddings",)
_RERANKS: Final = ("/v1/rerank",)
_VERIFIES: Final = ("/v1/verify", "/v1/decisions")


class ModelList(Reply):
    """List the models that the key may use."""

    object: Literal["list"]
    data: list[Model]
    first_id: str | None
    last_id: str | None
    has_more: Literal[False]


@router.get("/v1/models", summary="List models and methods", responses={200: {"model": ModelList}})
async def list_models(request: Request) -> Response:
    services: Services = request.app.state.services
    models = [_model(services, served) for served in services.models(request.state.principal)]
    found = [*models, *_encoders(services)]
    return JSONResponse(listed(found, len(found) + 1, dict))


@router.get(
    "/v1/models/{model:path}", summary="Describe one model or method", responses={200: {"model": Model}, **errors(404)}
)
async def get_model(request: Request, model: str) -> Response:
    services: Services = request.app.state.services
    known = next((one for one in _encoders(services) if one["id"] == model), None)
    return JSONResponse(known or _model(services, services.find(model, request.state.principal)))


def _encoders(services: Services) -> list[dict[str, Any]]:
    """Return what embeds, re-ranks and verifies, each loaded at its first use."""
    pool = services.encoders
    embedders = dict.fromkeys(pool.embedders, ("Embeds texts as vectors.", _EMBEDS))
    rerankers = dict.fromkeys(pool.rerankers, ("Ranks texts by their relevance to a query.", _RERANKS))
    verifiers = {services.verifier.name: ("Tells whether evidence supports a claim.", _VERIFIES)}
    return [
        _entry(services, name, description, ready=True) | {"arrowhead": {"routes": list(routes), "synthesis": []}}
        for name, (description, routes) in (embedders | rerankers | verifiers).items()
    ]


def _entry(services: Services, name: str, description: str, *, ready: bool) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "display_name": name,
        "created_at": datetime.fromtimestamp(services.created, UTC).isoformat(),
        "created": services.created,
        "owned_by": "arrowhead",
        "ready": ready,
        "description": description,
    }


def _model(services: Services, served: ServedModel) -> dict[str, Any]:
    card = services.lifecycle.card
    is_ready = services.lifecycle.state == "ready"
    return _entry(services, served.id, served.method.description, ready=is_ready) | {
        "base": card.name,
        "method": served.method.name,
        "licence": card.licence,
        # An engine may have fitted it to its memory.
        "max_model_len": services.lifecycle.get().max_model_len
        if is_ready
        else services.settings.model.max_model_len or card.context_length,
        "arrowhead": {"routes": list(_ANSWERS), "synthesis": list(served.syntheses)},
    }


_MAX_TOKENS = 1_000_000
# Field -> values that mean "not used".
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "continue_final_message": (None, False),
    "chat_template": (None,),
    "chat_template_kwargs": (None, {}),
    "media_io_kwargs": (None, {}),
    "mm_processor_kwargs": (None, {}),
    "tools": (None, []),
}


def _describe(schema: Schema) -> None:
    with_unused(schema, NEUTRAL)
    schema["examples"] = [{"prompt": "PSMB10"}]


class TokenizeRequest(Body):
    """Tokenize either ``prompt`` or ``messages``.

    ``add_special_tokens`` None: a prompt gets them, a chat those of its template.
    """

    model_config = ConfigDict(json_schema_extra=_describe)
    model: str | None = None
    prompt: Annotated[str, Field(max_length=MAX_TEXT)] | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_MESSAGES)] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool = True
    return_token_strs: bool | None = None


class DetokenizeRequest(Body):
    """Convert tokens to text."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"tokens": [1]}]})
    model: str | None = None
    tokens: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=_MAX_TOKENS)]


class Tokens(Reply):
    """List the tokens of a text or a chat."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = Field(description="with return_token_strs")


class Detokenized(Reply):
    """Provide the text of tokens."""

    prompt: str


@router.post(
    "/tokenize",
    summary="Return the tokens of a text or a chat in the served model",
    openapi_extra=Reads(TokenizeRequest),
    responses={200: {"model": Tokens}, **RETRIEVAL_ERRORS},
)
async def tokenize(request: Request) -> Response:
    services: Services = request.app.state.services
    body = _parse(await read_json(request))
    engine = _engine(services, body.model, request.state.principal)

    def work() -> tuple[list[int], list[str] | None]:
        tokens = _tokens(services, engine, body)
        texts = [engine.tokenizer.decode([token]) for token in tokens] if body.return_token_strs else None
        return tokens, texts

    async with cancel_on_disconnect(request.receive):
        tokens, texts = await services.compute(request.state.owner, work)
    reply = {"count": len(tokens), "max_model_len": engine.max_model_len, "tokens": tokens, "token_strs": texts}
    return JSONResponse(reply)


@router.post(
    "/detokenize",
    summary="Return the text of tokens",
    openapi_extra=Reads(DetokenizeRequest),
    responses={200: {"model": Detokenized}, **RETRIEVAL_ERRORS},
)
async def detokenize(request: Request) -> Response:
    services: Services = request.app.state.services
    body = await read_body(request, DetokenizeRequest)
    engine = _engine(services, body.model, request.state.principal)
    size = engine.tokenizer.vocab_size
    if any(token >= size for token in body.tokens):
        raise RequestError(f"tokens: the vocabulary has {size} tokens, numbered from 0", param="tokens")
    async with cancel_on_disconnect(request.receive):
        text = await services.compute(request.state.owner, lambda: engine.tokenizer.decode(body.tokens))
    return JSONResponse({"prompt": text})


def _parse(data: object) -> TokenizeRequest:
    body = parse_body(TokenizeRequest, served_fields(data, NEUTRAL, ()))
    if (body.prompt is None) == (body.messages is None):
        raise RequestError("prompt: send either prompt or messages", param="prompt")
    return body


def _engine(services: Services, model: str | None, principal: Principal) -> Engine:
    """Return the engine; a method has the tokens of its base model.

    Raises:
        RequestError: the key has no such model.
        EngineUnavailable: the model is loading.
    """
    if model is not None:
        services.find(model, principal)
    return services.lifecycle.get()


def _tokens(services: Services, engine: Engine, body: TokenizeRequest) -> list[int]:
    if body.prompt is not None:
        with_specials = body.add_special_tokens is not False
        return plain_ids(engine, body.prompt) if with_specials else engine.tokenizer.encode(body.prompt)
    messages = tuple(message.to_message() for message in body.messages or ())
    bos = engine.tokenizer.bos_token_id
    first = [bos] if body.add_special_tokens and bos is not None else []
    if uses_chat_template(engine, services.lifecycle.card):
        plain = [{"role": message.role, "content": message.content} for message in messages]
        return first + engine.tokenizer.encode_chat(plain, add_generation_prompt=body.add_generation_prompt)
    if not body.add_generation_prompt:
        raise RequestError(
            "add_generation_prompt: a base model has no turns, its prompt ends where the answer begins: leave it out",
            UNSUPPORTED_FIELD,
            param="add_generation_prompt",
        )
    if not any(message.role == "user" for message in messages):
        raise RequestError("messages: there is no user message", param="messages")
    return first + ids_of(AnswerRequest(request_id="tokenize", messages=messages), engine, services.lifecycle.card)
