"""Compare texts with a question by the default encoder: its vectors, its token vectors, and a cross-encoder.

What an encoder computes of a text is cached, since the same articles are found by many questions.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import numpy as np

from models.encoders.base import Codes, Encoder, Floats, PassageText, TokenEncoder, encode_with_tokens
from models.encoders.token_codes import bytes_per_token, max_sim
from models.errors import ModelError
from server.evidence.encoders import EncoderPool
from server.evidence.text_cache import TextCache
from server.methods.shared.passages import SentenceScores

log = logging.getLogger(__name__)
_FLOAT16: Final = 2  # bytes
_QUESTIONS: Final = 32


class TextComparison:
    """Compare texts with questions; one instance per process."""

    def __init__(self, encoders: EncoderPool) -> None:
        self._encoders = encoders
        self._cache: TextCache | None = None
        self._questions: OrderedDict[str, tuple[Floats, Floats | None]] = OrderedDict()

    async def compare(self, question: str, texts: Sequence[str], known: Sequence[bytes | None] = ()) -> SentenceScores:
        """Return the scores of each text; a part that is not there or fails is left out.

        ``known`` has the rows of texts that are encoded already, as ``row_of`` makes them; () for none.
        """
        name, near, late, cross = "", tuple[float, ...](), tuple[float, ...](), tuple[float, ...]()
        try:
            encoder = await self._encoders.run(self._encoders.encoder)
            asked, tokens = await self._asked(encoder, question)
            known = known or [None] * len(texts)
            new = await self._cached(encoder).rows_of([t for t, row in zip(texts, known, strict=True) if row is None])
            encoded = iter(new)
            rows = [next(encoded) if row is None else row for row in known]
            # On a thread, as the tokens of many texts take longer than the event loop should be blocked.
            name, (near, late) = encoder.name, await asyncio.to_thread(_similarities, asked, tokens, rows)
            if self._encoders.cross_encoder_name is not None:
                passages = [PassageText("", text) for text in texts]
                scores = await self._encoders.run(lambda: self._encoders.cross_encoder().score(question, passages))
                cross = tuple(map(float, scores))
        except ModelError as error:
            log.warning("texts are compared without all encoders: cause=%s", error.message)
        return SentenceScores(encoder=name, cosines=near, late=late, cross=cross)

    async def _asked(self, encoder: Encoder, question: str) -> tuple[Floats, Floats | None]:
        """Return what is encoded of a question, once for the articles of a review and their sentences."""
        if question not in self._questions:
            self._questions[question] = await self._encoders.run(lambda: _encoded_question(encoder, question))
        encoded = self._questions[question]
        while len(self._questions) > _QUESTIONS:
            self._questions.popitem(last=False)
        return encoded

    def _cached(self, encoder: Encoder) -> TextCache:
        if self._cache is None:

            async def encode(texts: Sequence[str]) -> list[bytes]:
                passages = [PassageText("", text) for text in texts]
                return await self._encoders.run(lambda: _encoded_rows(encoder, passages))

            self._cache = TextCache({"encoder": encoder.name}, encode)
        return self._cache


def _encoded_question(encoder: Encoder, question: str) -> tuple[Floats, Floats | None]:
    """Return the vector of a question, and those of its tokens where the encoder gives them."""
    if isinstance(encoder, TokenEncoder):
        vectors, tokens = encoder.encode_queries_with_tokens([question])
        return vectors[0], tokens[0]
    return encoder.encode_queries([question])[0], None


def _encoded_rows(encoder: Encoder, passages: Sequence[PassageText]) -> list[bytes]:
    vectors, codes = encode_with_tokens(encoder, passages)
    each: Sequence[Codes | None] = [None] * len(vectors) if codes is None else codes
    return [row_of(vector, one) for vector, one in zip(vectors, each, strict=True)]


def row_of(vector: Floats, codes: Codes | None) -> bytes:
    """Return a vector in float16 and behind it the codes of its tokens, where there are any."""
    return vector.astype(np.float16).tobytes() + (b"" if codes is None else codes.tobytes())


def _similarities(
    asked: Floats, tokens: Floats | None, rows: Sequence[bytes]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the cosine of each row and, with the question's tokens, the similarity of its tokens."""
    dim = len(asked)
    near = cosines(asked, np.stack([np.frombuffer(row, np.float16, dim).astype(np.float32) for row in rows]))
    if tokens is None:
        return near, ()
    width = bytes_per_token(dim)
    codes = [np.frombuffer(row, np.uint8, offset=_FLOAT16 * dim).reshape(-1, width) for row in rows]
    return near, tuple(map(float, max_sim(tokens, codes)))


def cosines(asked: Floats, read: Floats) -> tuple[float, ...]:
    """Return the cosine of the vector ``asked`` [dim] and each row of ``read`` [n, dim]."""
    lengths = np.linalg.norm(read, axis=1) * np.linalg.norm(asked)
    return tuple(float(value) for value in (read @ asked) / np.maximum(lengths, np.float32(1e-12)))
