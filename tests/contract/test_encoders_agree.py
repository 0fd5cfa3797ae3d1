"""A real pooling server computes the vectors of the encoder here, in 32 bits and by the same token ids."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from bert_models import TEXTS, minilm_folder

from models.encoders.base import Encoder, EncoderOptions, PassageText, RemoteEncoderOptions
from models.encoders.registry import create_encoder
from models.encoders.remote_encoder.encoder import RemoteEncoder
from models.encoders.remote_encoder.references import probe_rows
from models.encoders.resolve import resolve_encoder
from models.errors import ENCODER_UNUSABLE, ModelNotFound
from scripts.benchmarks.serving.vllm_replica import VllmReplica, vllm_pooling

OPTIONS = EncoderOptions(device="cpu", dtype="float32", batch_tokens=512)
KEY = "a-key-of-the-encoder"
# As with the replicas of an engine, vLLM is started as a server of its own, which takes a minute.
pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def local() -> Encoder:
    return create_encoder("minilm", OPTIONS)


@pytest.fixture(scope="module")
def server() -> Iterator[VllmReplica]:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("the vLLM package is not installed")
    with vllm_pooling(minilm_folder(), "float32", KEY) as running:
        yield running


def test_a_pooling_server_of_vllm_gives_the_vectors_of_the_encoder(server: VllmReplica, local: Encoder) -> None:
    """Of texts of all lengths, cut and uncut; another encoder's check refuses the server by name."""
    options = RemoteEncoderOptions(url=server.url, references=Path("/nowhere"), api_key=KEY, reply_s=300.0)
    encoder = RemoteEncoder(resolve_encoder("minilm", OPTIONS), options, lambda: probe_rows(local))
    passages = [PassageText("A title", text) for text in (*TEXTS, "", "aspirin in stroke " * 200)]

    found = encoder.encode_passages(passages)

    assert encoder.fingerprint == local.fingerprint
    assert (found * local.encode_passages(passages)).sum(axis=1).min() > 0.99999
    np.testing.assert_allclose(encoder.encode_queries(TEXTS), local.encode_queries(TEXTS), atol=1e-4)

    turned = RemoteEncoder(resolve_encoder("minilm", OPTIONS), options, lambda: np.roll(probe_rows(local), 1, axis=1))
    with pytest.raises(ModelNotFound, match="does not compute the vectors of minilm", check=ENCODER_UNUSABLE.is_of):
        turned.encode_queries(TEXTS)
    keyless = RemoteEncoderOptions(url=server.url, references=Path("/nowhere"))
    with pytest.raises(ModelNotFound, match=r"retrieval\.encoder_api_key", check=ENCODER_UNUSABLE.is_of):
        RemoteEncoder(resolve_encoder("minilm", OPTIONS), keyless, lambda: probe_rows(local)).encode_queries(TEXTS)
