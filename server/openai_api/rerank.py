"""Serve ``POST /v1/rerank`` in the form that Jina, Cohere and vLLM share: passages by their relevance to a query."""

from __future__ import annotations

import math
import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from models.encoders.base import PassageText
from server.encoder_pool import EncoderPool
from server.errors import InvalidRequest
from server.openai_api.attending import attended
from server.openai_api.body import read_json
from server.openai_api.schemas import MAX_TEXT, parse_body
from server.services import Services

router = APIRouter()
_Text = Annotated[str, Field(max_length=MAX_TEXT)]


class RerankDocument(BaseModel):
    """Provide a document with its title."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: _Text
    title: _Text = ""


class RerankRequest(BaseModel):
    """Rank documents by their relevance to a query."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str = ""
    query: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    documents: Annotated[list[_Text | RerankDocument], Field(min_length=1)]
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: bool = True

    @property
    def passages(self) -> list[PassageText]:
        return [PassageText("", d) if isinstance(d, str) else PassageText(d.title, d.text) for d in self.documents]


@router.post("/v1/rerank")
@router.post("/v2/rerank")
@router.post("/rerank")
async def rerank(request: Request) -> Response:
    services: Services = request.app.state.services
    body = parse_body(RerankRequest, await read_json(request, services.settings.server.max_body_bytes))
    limit = services.settings.retrieval.max_inputs
    if len(body.documents) > limit:
        raise InvalidRequest(f"documents: {len(body.documents)} given, at most {limit} are taken", param="documents")
    async with attended(request.receive), services.admitted(request.state.owner):
        return JSONResponse(await services.encoders.run(lambda: _rerank(services.encoders, body)))


def _rerank(pool: EncoderPool, body: RerankRequest) -> dict[str, Any]:
    """Rank the passages; equal scores preserve the input order."""
    encoder = pool.cross_encoder(body.model)
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
