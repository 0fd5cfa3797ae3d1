"""The body of an embeddings request, replies that are none, and the measure by which vectors are compared."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from models.encoders.remote_encoder.encoder import read_vectors, request_body, similarity, unit
from models.errors import ENCODER_UNUSABLE, ModelNotFound

VECTORS = np.array([[3.0, 4.0], [0.0, 2.0]], np.float32)


def reply(*embeddings: object) -> bytes:
    return json.dumps({"data": [{"index": number, "embedding": one} for number, one in enumerate(embeddings)]}).encode()


def test_a_request_holds_token_ids_and_no_text() -> None:
    """Normalisation is switched off where the encoder has none; a server with one model needs no name."""
    rows = [np.array([101, 7, 102], np.int32)]

    assert request_body(rows, normalise=True) == {"input": [[101, 7, 102]], "encoding_format": "base64"}
    assert request_body(rows, normalise=False)["use_activation"] is False


def test_vectors_are_read_from_base64_and_from_numbers_by_their_index() -> None:
    packed = base64.b64encode(VECTORS[1].tobytes()).decode()
    backwards = json.loads(reply(VECTORS[0].tolist(), packed))
    backwards["data"].reverse()

    np.testing.assert_array_equal(read_vectors(json.dumps(backwards).encode(), 2, 2), VECTORS)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "no list of embeddings"),
        (b"[]", "no list of embeddings"),
        (b'{"data": [{"index": 0}]}', "no list of embeddings"),
        (reply("not base64!", [1, 2]), "no list of embeddings"),
        (reply([1, 2]), "1 vectors for 2 texts"),
        (reply([1, 2], [1, 2], [1, 2]), "3 vectors for 2 texts"),
        (reply([1, 2], [1, 2, 3]), "3 numbers and the encoder 2"),
        (reply([1, 2], [1, float("nan")]), "not finite"),
    ],
)
def test_replies_that_are_none_are_refused(body: bytes, message: str) -> None:
    with pytest.raises(ModelNotFound, match=message, check=ENCODER_UNUSABLE.is_of):
        read_vectors(body, 2, 2)


@pytest.mark.parametrize(
    ("found", "is_same"),
    [
        (VECTORS, True),
        (VECTORS * np.float32(1.01), True),
        (VECTORS * np.float32(1.03), False),
        (-VECTORS, False),
        (VECTORS + np.array([[0.0, 0.0], [0.1, 0.0]], np.float32), False),
        (np.zeros_like(VECTORS), False),
    ],
)
def test_direction_and_length_count(found: Any, is_same: bool) -> None:
    """The worst row decides: a cosine of 0.9988 is too small, and so is another length by 3 %."""
    assert similarity(found, VECTORS).is_same is is_same


def test_unit_vectors_have_length_one_but_for_zero() -> None:
    np.testing.assert_allclose(unit(VECTORS), [[0.6, 0.8], [0.0, 1.0]], rtol=1e-6)
    assert not unit(np.zeros((1, 2), np.float32)).any()
