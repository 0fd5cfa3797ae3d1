"""Serve ``POST /v1/embeddings`` in OpenAI's form: texts to vectors; and ``POST /v1/rerank``.

Clients of OpenAI's embedding models (LangChain's by default) send token ids of those models, which are decoded.

An encoder with two towers (MedCPT) has two names: ``medcpt`` embeds passages, ``medcpt:query`` questions. For other
encoders both names give the same vectors.
"""

from __future__ import annotations

import base64
import math
import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field, field_validator

from models.encoders.base import Encoder, Floats, PassageText
from models.encoders.openai_tokens import MAX_TOKEN, text_of
from server.api.declarations import QUESTION, RETRIEVAL_ERRORS, Reads, Reply, Schema
from server.api.http_io import Body, cancel_on_disconnect, read_body
from server.api.openai.schemas import MAX_TEXT
from server.api.retrieval.schemas import MAX_INPUTS
from server.errors import RequestError
from server.evidence.encoders import QUERY, EncoderPool
from server.wiring.services import Services

router = APIRouter(tags=["Retrieval"])
_Text = Annotated[str, Field(max_length=MAX_TEXT)]


def _add_tokens(schema: Schema) -> None:
    """Add to the JSON schema that token ids are decoded."""
    tokens = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": MAX_TOKEN},
        "minItems": 1,
        "description": "token ids of cl100k_base, as OpenAI's embedding models take them",
    }
    schema["anyOf"] += [tokens, {"type": "array", "items": tokens, "minItems": 1}]


class EmbeddingsRequest(Body):
    """Embed texts."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "minilm", "input": "PSMB10 is a gene."}]})
    model: str
    input: _Text | Annotated[list[_Text], Field(min_length=1)] = Field(json_schema_extra=_add_tokens)
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    user: str | None = None

    @field_validator("input", mode="before")
    @classmethod
    def _decoded(cls, value: Any) -> Any:
        """Decode token ids here, so that the limits on texts hold for them too."""
        if _is_tokens(value):
            return [text_of(value)]
        if isinstance(value, list) and value and all(map(_is_tokens, value)):
            return [text_of(tokens) for tokens in value]
        return value

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


def _is_tokens(value: object) -> bool:
    """Return whether a value is a text as token ids."""
    return isinstance(value, list) and bool(value) and all(type(one) is int for one in value)


class Embedding(Reply):
    """Provide the vector of one text."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | Annotated[str, Field(description="base64 of float32, little-endian")]


class EmbeddingUsage(Reply):
    """Count the tokens of all texts."""

    prompt_tokens: int
    total_tokens: int


class Truncated(Reply):
    """Name the texts that were too long for the encoder."""

    truncated: list[int]


class Embeddings(Reply):
    """List the vectors of texts."""

    object: Literal["list"]
    model: str
    data: list[Embedding]
    usage: EmbeddingUsage
    arrowhead: Truncated


@router.post(
    "/v1/embeddings",
    summary="Convert texts to vectors",
    openapi_extra=Reads(EmbeddingsRequest),
    responses={200: {"model": Embeddings}, **RETRIEVAL_ERRORS},
)
async def embeddings(request: Request) -> Response:
    services: Services = request.app.state.services
    body = await read_body(request, EmbeddingsRequest)
    if len(body.texts) > MAX_INPUTS:
        raise RequestError(f"input: {len(body.texts)} texts, at most {MAX_INPUTS} are taken at once", param="input")
    async with cancel_on_disconnect(request.receive), services.admitted(request.state.owner):
        return JSONResponse(await services.encoders.run(lambda: _embed(services.encoders, body)))


def _embed(pool: EncoderPool, body: EmbeddingsRequest) -> dict[str, Any]:
    encoder = pool.encoder(body.model.removesuffix(QUERY))
    if body.dimensions not in (None, encoder.dim):
        raise RequestError(f"dimensions: vectors of {body.model} have {encoder.dim}", param="dimensions")
    is_query = body.model.endswith(QUERY)
    vectors = _vectors(encoder, body.texts, is_query=is_query)
    lengths = [encoder.count_query_tokens(text) for text in body.texts]
    limit = encoder.fingerprint.max_query if is_query else encoder.fingerprint.max_passage
    return {
        "object": "list",
        "model": body.model,
        "data": [
            {"object": "embedding", "index": index, "embedding": _written(vector, body.encoding_format)}
            for index, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": sum(lengths), "total_tokens": sum(lengths)},
        "arrowhead": {"truncated": [index for index, length in enumerate(lengths) if length > limit]},
    }


def _vectors(encoder: Encoder, texts: list[str], *, is_query: bool) -> Floats:
    if is_query:
        return encoder.encode_queries(texts)
    return encoder.encode_passages([PassageText("", text) for text in texts])


def _written(vector: Floats, encoding: str | None) -> list[float] | str:
    if encoding == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    return [float(value) for value in np.asarray(vector)]


class RerankDocument(Body):
    """Provide a document with its title."""

    text: _Text
    title: _Text = ""


class RerankRequest(Body):
    """Rank documents by their relevance to a query."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"query": QUESTION, "documents": ["Asthma is a disease.", "PSMB10 is a gene."]}]
        }
    )
    model: str = ""
    query: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    documents: Annotated[list[_Text | RerankDocument], Field(min_length=1)]
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: bool = True

    @property
    def passages(self) -> list[PassageText]:
        return [PassageText("", d) if isinstance(d, str) else PassageText(d.title, d.text) for d in self.documents]


class RankedDocument(Reply):
    """Rank one document."""

    index: int
    relevance_score: float


class Ranking(Reply):
    """List documents, the most relevant first."""

    id: str
    model: str
    results: list[RankedDocument]


_RERANK: Final[Mapping[str, Any]] = {
    "summary": "Rank passages by their relevance to a query",
    "openapi_extra": Reads(RerankRequest),
    "responses": {200: {"model": Ranking}, **RETRIEVAL_ERRORS},
}


@router.post("/v1/rerank", **_RERANK)
@router.post("/v2/rerank", **_RERANK)
@router.post("/rerank", **_RERANK)
async def rerank(request: Request) -> Response:
    services: Services = request.app.state.services
    body = await read_body(request, RerankRequest)
    if len(body.documents) > MAX_INPUTS:
        raise RequestError(f"documents: {len(body.documents)} given, at most {MAX_INPUTS} are taken", param="documents")
    async with cancel_on_disconnect(request.receive), services.admitted(request.state.owner):
        return JSONResponse(await services.encoders.run(lambda: _rerank(services.encoders, body)))


def _rerank(pool: EncoderPool, body: RerankRequest) -> dict[str, Any]:
    """Rank the passages; equal scores preserve the input order."""
    encoder = pool.reranker(body.model)
    passages = body.passages
    logits = [float(logit) for logit in encoder.score(body.query, passages)]
    order = sorted(range(len(logits)), key=lambda index: (-logits[index], index))[: body.top_n]
    return {
        "id": f"rerank-{uuid.uuid4().hex}",
        "model": encoder.name,
        "results": [
            {"index": index, "relevance_score": sigmoid(logits[index]), "logit": logits[index]}
            | ({"document": {"text": passages[index].text}} if body.return_documents else {})
            for index in order
        ],
    }


def sigmoid(logit: float) -> float:
    """Map a logit to (0, 1), as clients expect; double precision separates extreme logits."""
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))
