"""Write token ids as the body of an embeddings request, read the vectors of its reply, and compare vectors."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats
from models.errors import EncoderUnusable

# Measured over the probe texts of MiniLM against float32 here: vLLM in float32 gives 0.9999999999, bfloat16 on a CPU
# 0.99987.
MIN_COSINE: Final = 0.999
# Where vectors are not normalised, their length counts in an inner product, too.
MAX_LENGTH_ERROR: Final = 0.02
_TINY: Final = 1e-12


class Similarity(NamedTuple):
    """Hold the smallest cosine of two sets of vectors, and the largest relative difference of their lengths."""

    cosine: float
    length_error: float

    @property
    def is_same(self) -> bool:
        return self.cosine >= MIN_COSINE and self.length_error <= MAX_LENGTH_ERROR


def similarity(found: Floats, expected: Floats) -> Similarity:
    one, other = found.astype(np.float64), expected.astype(np.float64)
    lengths, known = np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1)
    cosines = (one * other).sum(axis=1) / np.maximum(lengths * known, _TINY)
    return Similarity(float(cosines.min()), float(np.abs(lengths / np.maximum(known, _TINY) - 1.0).max()))


def request_body(rows: Sequence[NDArray[np.int32]], *, normalise: bool) -> dict[str, Any]:
    """Return the body for rows of token ids.

    Names no model: a server without one in the request takes its own. vLLM normalises unless it is told not to.
    """
    body: dict[str, Any] = {"input": [row.tolist() for row in rows], "encoding_format": "base64"}
    return body if normalise else body | {"use_activation": False}


def read_vectors(reply: bytes, count: int, dim: int) -> Floats:
    """Return the vectors of a reply, float32 [count, dim], in the order of the request.

    Raises:
        EncoderUnusable: the reply is none for ``count`` texts in ``dim`` finite numbers; the message has no address.
    """
    vectors = np.empty((count, dim), np.float32)
    missing = set(range(count))
    try:
        entries = json.loads(reply)["data"]
        for entry in entries:
            number = entry["index"]
            if number not in missing:
                raise EncoderUnusable(f"has {len(entries)} vectors for {count} texts")
            missing.remove(number)
            vector = _vector(entry["embedding"])
            if vector.shape != (dim,):
                raise EncoderUnusable(f"has vectors of {vector.size} numbers and the encoder {dim}")
            vectors[number] = vector
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise EncoderUnusable(f"is no list of embeddings ({type(error).__name__})") from error
    if missing:
        raise EncoderUnusable(f"has {count - len(missing)} vectors for {count} texts")
    if not np.isfinite(vectors).all():
        raise EncoderUnusable("has numbers that are not finite")
    return vectors


def unit(vectors: Floats) -> Floats:
    """Return vectors of length 1, by the rule of the local encoder."""
    scaled: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(_TINY))
    return scaled


def _vector(embedding: object) -> Floats:
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4").astype(np.float32)
    return np.array(embedding, np.float32)
