"""Encode texts with a server that computes the vectors of token ids.

Tokenizer, truncation, prefixes, normalisation and fingerprint are those of the local encoder, from the same files. A
server does not tell which weights it has, so every reply is checked: each request has a probe text more, whose local
vector is known. The first request is preceded by all probe texts.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import SENTENCE, Fingerprinted, Floats, PassageText, Progress, RemoteEncoderOptions
from models.encoders.remote_encoder.connection import Connection
from models.encoders.remote_encoder.references import PROBES, probe_vectors, query_texts
from models.encoders.resolve import ResolvedEncoder, check_tables
from models.encoders.specs import EncoderSpec
from models.encoders.texts import EncoderTexts, Text, TruncatingTokenizer, file_digests, fingerprint_of, load_tokenizer
from models.errors import ENCODER_UNUSABLE, ModelNotFound
from models.files import read_json

log = logging.getLogger(__name__)
Ids = NDArray[np.int32]
# Texts tokenised and sorted together.
_CHUNK: Final = 2048
# The probe text is one more; text-embeddings-inference and others take 32 inputs by default.
_MAX_ROWS: Final = 31
# Requests of one call that run at once.
_IN_FLIGHT: Final = 4
# Measured over the probe texts of MiniLM against float32 here: vLLM in float32 gives 0.9999999999, bfloat16 on a CPU
# 0.99987.
MIN_COSINE: Final = 0.999
# Where vectors are not normalised, their length counts in an inner product, too.
MAX_LENGTH_ERROR: Final = 0.02
_TINY: Final = 1e-12


class RemoteEncoder(Fingerprinted):
    """Implement ``Encoder`` with a server; safe from many threads, which send their requests side by side.

    ``probes`` returns the local vectors of the probe texts and is called at first use.

    Raises:
        ModelNotFound: files are missing or damaged; the encoder reads pairs or has two models, so that a server cannot
            compute its vectors from token ids; or tokenizer and config do not fit.
    """

    def __init__(
        self, resolved: ResolvedEncoder, remote: RemoteEncoderOptions, probes: Callable[[], Floats] | None = None
    ) -> None:
        spec = resolved.spec
        _check_sendable(spec, remote.url)
        sha256 = file_digests(resolved)
        config = read_json(resolved.passage.path / "config.json")
        tokenizer = load_tokenizer(resolved.passage.path)
        check_tables(config, len(tokenizer), max(spec.max_query, spec.max_passage), spec.name)
        self._fingerprint = fingerprint_of(resolved, sha256, int(config["hidden_size"]))
        literal = spec.separator == SENTENCE
        self._query = TruncatingTokenizer(tokenizer, spec.max_query, literal=literal)
        self._passage = TruncatingTokenizer(tokenizer, spec.max_passage, literal=literal)
        self._texts = EncoderTexts(spec)
        self._server = Connection(remote)
        self._probes = probes or (lambda: probe_vectors(resolved, self._fingerprint, remote.references))
        self._checking = threading.Lock()
        self._expected: Floats | None = None
        self._is_checked = False
        self._marker: Ids = self._passage.rows(list(self._texts.passages(PROBES[:1])))[0].ids

    @property
    def url(self) -> str:
        return self._server.url

    def encode_queries(self, texts: Sequence[str], *, progress: Progress | None = None) -> Floats:
        return self._encode(self._query, self._texts.queries(texts), len(texts), progress)

    def encode_passages(self, passages: Sequence[PassageText], *, progress: Progress | None = None) -> Floats:
        return self._encode(self._passage, self._texts.passages(passages), len(passages), progress)

    def count_query_tokens(self, text: str) -> int:
        return self._query.count(self._texts.query(text))

    def close(self) -> None:
        self._server.close()

    def check(self) -> None:
        """Compare the server's vectors of all probe texts with the local ones.

        Raises:
            ModelError: the server does not answer.
            ModelNotFound: its vectors are not those of this encoder, or the local ones cannot be computed.
        """
        with self._checking:
            self._check()

    def _check(self) -> Floats:
        """Compare all probe texts, and return the local vectors."""
        if self._expected is None:
            self._expected = self._probes()
        passages = self._passage.rows(list(self._texts.passages(PROBES)))
        queries = self._query.rows(list(self._texts.queries(query_texts(PROBES))))
        # Short and long texts together, as they come later.
        self._compare(self._post([row.ids for row in (*passages, *queries)]), self._expected)
        self._is_checked = True
        log.info("remote encoder checked: name=%s url=%s", self.name, self.url)
        return self._expected

    def _compare(self, vectors: Floats, expected: Floats) -> None:
        measured = similarity(vectors, expected)
        if measured.is_same:
            return
        self._is_checked = False
        raise ModelNotFound(
            f"{self.url} does not compute the vectors of {self.name}: over the probe texts the lowest cosine with the "
            f"local ones is {measured.cosine:.4f}, and their lengths differ by up to {measured.length_error:.1%}. "
            "Start it with the same model files, pooling and context length; it must take token ids as they are",
            ENCODER_UNUSABLE,
        )

    def _encode(
        self, cutter: TruncatingTokenizer, texts: Iterator[Text], total: int, progress: Progress | None
    ) -> Floats:
        result = np.empty((total, self.dim), np.float32)
        start = 0
        while chunk := list(islice(texts, _CHUNK)):
            rows = [row.ids for row in cutter.rows(chunk)]
            done = start
            for part, vectors in self._sent(rows):
                result[start + part] = vectors
                done += len(part)
                if progress is not None:
                    progress(done, total)
            start += len(chunk)
        return result

    def _sent(self, rows: Sequence[Ids]) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """Yield row numbers and vectors of each batch, longest rows first, a few of them under way at once."""
        order = sorted(range(len(rows)), key=lambda number: -len(rows[number]))
        batches = [np.array(order[at : at + _MAX_ROWS]) for at in range(0, len(rows), _MAX_ROWS)]
        if len(batches) == 1:
            yield batches[0], self._vectors(rows, batches[0])
            return
        with ThreadPoolExecutor(_IN_FLIGHT, thread_name_prefix="remote-encoder") as pool:
            try:
                yield from zip(batches, pool.map(partial(self._vectors, rows), batches), strict=True)
            finally:
                pool.shutdown(cancel_futures=True)

    def _vectors(self, rows: Sequence[Ids], part: NDArray[np.int64]) -> Floats:
        """Return the vectors of some rows from a server that was checked, and whose reply proves that it still is."""
        with self._checking:
            expected = self._expected if self._is_checked else None
            if expected is None:
                expected = self._check()
        vectors = self._post([*(rows[number] for number in part), self._marker])
        self._compare(vectors[-1:], expected[:1])
        return vectors[:-1]

    def _post(self, rows: Sequence[Ids]) -> Floats:
        reply = self._server.post(request_body(rows, normalise=self._fingerprint.normalise))
        try:
            vectors = read_vectors(reply, len(rows), self.dim)
        except ModelNotFound as error:
            raise ModelNotFound(
                f"{self.url} is no server of {self.name}: its reply {error.message}", ENCODER_UNUSABLE
            ) from error
        return unit(vectors) if self._fingerprint.normalise else vectors


def _check_sendable(spec: EncoderSpec, url: str) -> None:
    reason = ""
    if spec.pairs:
        reason = "reads title and text as a pair, and the segments of a pair cannot be sent as token ids"
    elif len(spec.towers) > 1:
        reason = "has two models, one for queries and one for passages, and a server has one"
    if reason:
        raise ModelNotFound(
            f"{spec.name} {reason}: it cannot run at {url}; take it out of retrieval.encoder_urls, "
            "so that it runs here",
            ENCODER_UNUSABLE,
        )


class Similarity(NamedTuple):
    """Hold the smallest cosine of two sets of vectors, and the largest relative difference of their lengths."""

    cosine: float
    length_error: float

    @property
    def is_same(self) -> bool:
        return self.cosine >= MIN_COSINE and self.length_error <= MAX_LENGTH_ERROR


def similarity(vectors: Floats, expected: Floats) -> Similarity:
    ours, other = vectors.astype(np.float64), expected.astype(np.float64)
    lengths, known = np.linalg.norm(ours, axis=1), np.linalg.norm(other, axis=1)
    cosines = (ours * other).sum(axis=1) / np.maximum(lengths * known, _TINY)
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
        ModelNotFound: the reply is none for ``count`` texts in ``dim`` finite numbers; the message has no address.
    """
    vectors = np.empty((count, dim), np.float32)
    missing = set(range(count))
    try:
        entries = json.loads(reply)["data"]
        for entry in entries:
            number = entry["index"]
            if number not in missing:
                raise ModelNotFound(f"has {len(entries)} vectors for {count} texts", ENCODER_UNUSABLE)
            missing.remove(number)
            vector = _vector(entry["embedding"])
            if vector.shape != (dim,):
                raise ModelNotFound(f"has vectors of {vector.size} numbers and the encoder {dim}", ENCODER_UNUSABLE)
            vectors[number] = vector
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise ModelNotFound(f"is no list of embeddings ({type(error).__name__})", ENCODER_UNUSABLE) from error
    if missing:
        raise ModelNotFound(f"has {count - len(missing)} vectors for {count} texts", ENCODER_UNUSABLE)
    if not np.isfinite(vectors).all():
        raise ModelNotFound("has numbers that are not finite", ENCODER_UNUSABLE)
    return vectors


def unit(vectors: Floats) -> Floats:
    """Return vectors of length 1, by the rule of the local encoder."""
    scaled: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(_TINY))
    return scaled


def _vector(embedding: object) -> Floats:
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4").astype(np.float32)
    return np.array(embedding, np.float32)
