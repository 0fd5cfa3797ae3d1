"""Codes of token vectors and their late interaction."""

from __future__ import annotations

import numpy as np
import pytest

from models.encoders.base import EncoderOptions, PassageText, TokenEncoder
from models.encoders.registry import create_encoder
from models.encoders.token_codes import bytes_per_token, kept_tokens, max_sim, pack, rotation


def test_a_rotation_is_the_same_everywhere_and_keeps_lengths() -> None:
    """Codes on a disk were made with these numbers."""
    made = rotation(64)
    assert np.allclose(made @ made.T, np.eye(64), atol=1e-5)
    assert made[0, :3] == pytest.approx([0.091312, -0.041013, -0.049980], abs=5e-6)
    assert rotation(64) is made


def test_codes_estimate_cosines() -> None:
    """The order of 200 cosines is that of their estimates, mostly."""
    generator = np.random.default_rng(0)
    query = generator.standard_normal((1, 384)).astype(np.float32)
    query /= np.linalg.norm(query)
    texts = [(query + generator.standard_normal((1, 384)) * 0.02 * size).astype(np.float32) for size in range(1, 201)]
    cosines = [float((text @ query.T)[0, 0] / np.linalg.norm(text)) for text in texts]
    turned = rotation(384)
    scores = max_sim(query @ turned, [pack(text @ turned) for text in texts])
    assert np.corrcoef(cosines, scores)[0, 1] > 0.93


def test_each_token_of_the_query_takes_its_best_token() -> None:
    """By hand, without a rotation: two of two tokens found, one of two, none at all."""
    query = np.eye(8, dtype=np.float32)[:2] * 2 - 1
    both, one = pack(query[[1, 0]]), pack(query[[0, 0]])
    scores = max_sim(query, [both, one, np.zeros((0, 1), np.uint8)])
    assert scores[0] > scores[1] > 0.0
    assert scores[2] == 0.0
    assert max_sim(query[:0], [both]).tolist() == [0.0]


def test_a_short_passage_is_looked_for_in_the_query() -> None:
    """A name that the question has in full beats a longer one that it has in part."""
    tokens = np.random.default_rng(1).standard_normal((12, 64)).astype(np.float32)
    query = tokens[:6] / np.linalg.norm(tokens[:6], axis=1, keepdims=True)
    name, longer = pack(tokens[:2]), pack(tokens[[0, 1, 8, 9]])
    scores = max_sim(query, [name, longer])
    assert scores[0] > scores[1]


def test_many_passages_are_scored_in_parts_with_the_same_result() -> None:
    """Memory stays bounded."""
    generator = np.random.default_rng(2)
    query = generator.standard_normal((5, 64)).astype(np.float32)
    codes = [pack(generator.standard_normal((900, 64)).astype(np.float32)) for _ in range(40)]
    alone = [float(max_sim(query, [one])[0]) for one in codes]
    assert max_sim(query, codes).tolist() == pytest.approx(alone)


def test_function_words_and_signs_are_not_compared() -> None:
    """Pieces of words are."""
    kept = kept_tokens(["[CLS]", "the", ".", "asthma", "##itis", "4", "##,"])
    assert kept.tolist() == [False, False, False, True, True, True, False]


@pytest.mark.weights
def test_the_built_in_encoder_gives_the_same_vectors_with_tokens() -> None:
    """And for each text its own tokens, whatever the order of lengths."""
    encoder = create_encoder("minilm", EncoderOptions(device="cpu", dtype="float32", batch_tokens=256))
    assert isinstance(encoder, TokenEncoder)
    texts = ["asthma", "inhaled steroids in severe asthma of children and of adults " * 4, "", "the of"]
    vectors, tokens = encoder.encode_queries_with_tokens(texts)
    assert np.allclose(vectors, encoder.encode_queries(texts), atol=1e-5)
    assert [len(one) for one in tokens[:1]] == [1]
    assert len(tokens[1]) > 20
    assert all(np.allclose(np.linalg.norm(one, axis=1), 1.0, atol=1e-4) for one in tokens)
    passages = [PassageText("", text) for text in texts]
    rows, codes = encoder.encode_passages_with_tokens(passages)
    assert np.allclose(rows, encoder.encode_passages(passages), atol=1e-5)
    assert all(one.shape[1] == bytes_per_token(encoder.dim) for one in codes)
    assert all(np.array_equal(pack(given), code) for given, code in zip(tokens, codes, strict=True))
    assert int(np.argmax(max_sim(tokens[0], codes))) in (0, 1)
