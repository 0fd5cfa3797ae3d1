"""What every encoder and every cross-encoder promises, with weights or without, here or at a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from bert_models import build_bert, build_medcpt, build_sentence_folder
from pooling_server import pooling_server

from models.encoders.base import CrossEncoder, Encoder, EncoderOptions, Floats, PassageText, RemoteEncoderOptions
from models.encoders.registry import create_cross_encoder, create_encoder
from models.encoders.remote_encoder.encoder import RemoteEncoder
from models.encoders.remote_encoder.references import probe_rows
from models.encoders.resolve import resolve_encoder

OPTIONS = EncoderOptions(device="cpu", dtype="float32", batch_tokens=256)
# bfloat16 too, where the machine chooses it: its last bits depend on a batch's shape.
ENCODERS = [
    "hashing",
    *(pytest.param(name, marks=pytest.mark.weights) for name in ("minilm", "minilm-auto")),
    *("medcpt", "sentence", "normalised-remote", "sentence-remote"),
]
CROSS_ENCODERS = ["overlap", "classifier"]
WORDS = ("aspirin", "stroke", "TP53", "glucose", "β-blocker", "sepsis", "the", "in", "糖尿病")


def texts(count: int = 24) -> list[str]:
    """Of very different lengths, with an empty one and two alike."""
    made = [" ".join(WORDS[(i * k) % len(WORDS)] for k in range(1 + i * i // 8)) for i in range(count - 2)]
    return [*made, "", made[3]]


def passages() -> list[PassageText]:
    return [PassageText(f"Title {i % 5}" if i % 3 else "", text) for i, text in enumerate(texts())]


@pytest.fixture(scope="module", params=ENCODERS)
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encoder]:
    folder = tmp_path_factory.mktemp("encoder") / "model"
    match request.param:
        case "medcpt":
            yield create_encoder(str(build_medcpt(folder)), OPTIONS)
        case "sentence":
            yield create_encoder(str(build_sentence_folder(folder, similarity_fn_name="euclidean")), OPTIONS)
        case "minilm-auto":
            yield create_encoder("minilm", EncoderOptions(batch_tokens=256))
        case "normalised-remote":
            yield from remote(str(build_sentence_folder(folder)))
        case "sentence-remote":
            yield from remote(str(build_sentence_folder(folder, similarity_fn_name="euclidean")))
        case name:
            yield create_encoder(name, OPTIONS)


def remote(name: str) -> Iterator[Encoder]:
    """Over HTTP, from a small server with the same weights; the vectors it is checked by are computed here."""
    with pooling_server(name) as running:
        options = RemoteEncoderOptions(url=running.url, references=Path("/nowhere"), reply_s=240.0)
        encoder = RemoteEncoder(
            resolve_encoder(name, OPTIONS), options, lambda: probe_rows(create_encoder(name, OPTIONS))
        )
        yield encoder
        encoder.close()


@pytest.fixture(scope="module", params=CROSS_ENCODERS)
def cross_encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> CrossEncoder:
    if request.param == "overlap":
        return create_cross_encoder("overlap", OPTIONS)
    return create_cross_encoder(str(build_bert(tmp_path_factory.mktemp("cross"), labels=1)), OPTIONS)


def alike(first: Floats, second: Floats, by: object) -> bool:
    """The same but for rounding, of which bfloat16 does more."""
    rounded = "bfloat16" in str(getattr(by, "placement", ""))
    return first.shape == second.shape and bool(np.allclose(first, second, atol=0.02 if rounded else 1e-4))


def test_vectors_are_float32_rows_of_the_promised_width(encoder: Encoder) -> None:
    """Finite, one per text, the width of the fingerprint."""
    for vectors in (encoder.encode_queries(texts()), encoder.encode_passages(passages())):
        assert vectors.shape == (24, encoder.dim)
        assert vectors.dtype == np.float32
        assert vectors.flags.c_contiguous
        assert np.isfinite(vectors).all()
    assert encoder.fingerprint.dim == encoder.dim
    assert encoder.fingerprint.metric == encoder.metric
    assert encoder.fingerprint.encoder_id == encoder.name


def test_nothing_gives_no_rows(encoder: Encoder) -> None:
    """An empty list is no error; its result still has a width."""
    assert encoder.encode_queries([]).shape == (0, encoder.dim)
    assert encoder.encode_passages([]).shape == (0, encoder.dim)


def test_empty_texts_have_vectors(encoder: Encoder) -> None:
    """Also a passage with neither title nor text, and text that is no valid Unicode."""
    vectors = encoder.encode_passages([PassageText("", ""), PassageText("\ud800", "\ud800 a")])

    assert np.isfinite(vectors).all()
    assert np.abs(encoder.encode_queries(["", " \n"])).max() > 0


def test_the_order_given_is_the_order_returned(encoder: Encoder) -> None:
    """A text's vector does not depend on the texts around it."""
    together = encoder.encode_passages(passages())
    backwards = encoder.encode_passages(passages()[::-1])[::-1]
    alone = np.concatenate([encoder.encode_passages([passage]) for passage in passages()])

    assert alike(together, backwards, encoder)
    assert alike(together, alone, encoder)


def test_the_same_call_gives_the_same_numbers(encoder: Encoder) -> None:
    """To the last bit."""
    np.testing.assert_array_equal(encoder.encode_queries(texts()), encoder.encode_queries(texts()))


def test_vectors_have_length_one_where_that_is_said(encoder: Encoder) -> None:
    """And only there."""
    lengths = np.linalg.norm(encoder.encode_queries(texts()), axis=1)

    assert bool(np.allclose(lengths, 1.0, atol=1e-3)) == encoder.fingerprint.normalise


def test_texts_over_the_limit_are_cut_at_their_end(encoder: Encoder) -> None:
    """What comes after the limit changes nothing; the count tells that it was cut."""
    long = "aspirin " * (encoder.fingerprint.max_query + 10)
    longer = long + "but entirely other words at the end"

    assert encoder.count_query_tokens(longer) > encoder.count_query_tokens(long) > encoder.fingerprint.max_query
    assert encoder.count_query_tokens("aspirin") <= encoder.fingerprint.max_query
    assert alike(encoder.encode_queries([long]), encoder.encode_queries([longer]), encoder)


def test_a_title_counts(encoder: Encoder) -> None:
    """The same text under another title is another passage."""
    first, second = encoder.encode_passages([PassageText("Sepsis", "aspirin"), PassageText("Glucose", "aspirin")])

    assert not np.allclose(first, second, atol=1e-3)


def test_many_threads_get_what_one_gets(encoder: Encoder) -> None:
    """Calls of four threads at once, queries and passages mixed."""
    queries, rows = encoder.encode_queries(texts()), encoder.encode_passages(passages())

    def call(number: int) -> Floats:
        return encoder.encode_queries(texts()) if number % 2 else encoder.encode_passages(passages())

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(call, range(4)))

    for number, result in enumerate(results):
        assert alike(result, queries if number % 2 else rows, encoder)


def test_the_fingerprint_is_plain_data(encoder: Encoder) -> None:
    """It is written into the manifest of an index."""
    as_dict = encoder.fingerprint.as_dict()

    assert as_dict["encoder_id"] == encoder.name
    assert hash(encoder.fingerprint) == hash(encoder.fingerprint)


def test_scores_are_float32_one_per_passage(cross_encoder: CrossEncoder) -> None:
    """Finite, and none for none."""
    scores = cross_encoder.score("aspirin in stroke", passages())

    assert scores.shape == (24,)
    assert scores.dtype == np.float32
    assert np.isfinite(scores).all()
    assert cross_encoder.score("aspirin", []).shape == (0,)


def test_a_score_does_not_depend_on_the_other_passages(cross_encoder: CrossEncoder) -> None:
    """Nor on their order."""

    def score(rows: Sequence[PassageText]) -> Floats:
        return cross_encoder.score("aspirin in stroke", rows)

    alone = np.concatenate([score([passage]) for passage in passages()])

    assert alike(score(passages()), score(passages()[::-1])[::-1], cross_encoder)
    assert alike(score(passages()), alone, cross_encoder)


def test_scores_have_no_bounds_of_a_probability(cross_encoder: CrossEncoder) -> None:
    """Raw logits: an empty query or passage is scored like any other."""
    scores = cross_encoder.score("", [PassageText("", ""), PassageText("Aspirin", "stroke")])

    assert np.isfinite(scores).all()
    assert not (
        (cross_encoder.score("aspirin", passages()) > 0) & (cross_encoder.score("aspirin", passages()) < 1)
    ).all()
