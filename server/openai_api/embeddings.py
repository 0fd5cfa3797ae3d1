"""Serve ``POST /v1/embeddings`` in OpenAI's form: texts to vectors.

An encoder with two towers (MedCPT) has two names: ``medcpt`` embeds passages, ``medcpt:query`` questions. For other
encoders both names give the same vectors.
"""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, field_validator

from models.encoders.base import Encoder, Floats, PassageText
from server.encoder_pool import EncoderPool
from server.errors import InvalidRequest
from server.openai_api.attending import attended
from server.openai_api.body import read_json
from server.openai_api.schemas import MAX_TEXT, parse_body
from server.services import Services

router = APIRouter()
_QUERY = ":query"
_Text = Annotated[str, Field(max_length=MAX_TEXT)]


class EmbeddingsRequest(BaseModel):
    """Embed texts."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str
    input: _Text | Annotated[list[_Text], Field(min_length=1)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None

    @field_validator("input", mode="before")
    @classmethod
    def _is_text(cls, value: Any) -> Any:
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, int | list):
            raise ValueError("send text: token ids are of a vocabulary that this encoder does not have")
        return value

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


@router.post("/v1/embeddings")
async def embeddings(request: Request) -> Response:
    services: Services = request.app.state.services
    body = parse_body(EmbeddingsRequest, await read_json(request, services.settings.server.max_body_bytes))
    limit = services.settings.retrieval.max_inputs
    if len(body.texts) > limit:
        raise InvalidRequest(f"input: {len(body.texts)} texts, at most {limit} are taken at once", param="input")
    async with attended(request.receive), services.admitted(request.state.owner):
        return JSONResponse(await services.encoders.run(lambda: _embed(services.encoders, body)))


def _embed(pool: EncoderPool, body: EmbeddingsRequest) -> dict[str, Any]:
    encoder = pool.encoder(body.model.removesuffix(_QUERY))
    if body.dimensions not in (None, encoder.dim):
        raise InvalidRequest(f"dimensions: vectors of {body.model} have {encoder.dim}", param="dimensions")
    is_query = body.model.endswith(_QUERY)
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


def _written(vector: Floats, encoding: str) -> list[float] | str:
    if encoding == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    return [float(value) for value in np.asarray(vector)]
