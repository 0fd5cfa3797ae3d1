"""Define the protocols of encoders and cross-encoders.

Free of torch, safe to import anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from models.types import Dtype, ServerAddress

Pooling = Literal["cls", "mean"]
Metric = Literal["inner_product", "l2"]
Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]


class PassageText(NamedTuple):
    """Hold the text of a passage to embed.

    Encoders trained on pairs get title and text as a pair, the others one text of both.
    """

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderFingerprint:
    """Identify everything that determines a vector: equal fingerprints mean equal vectors, up to ``dtype``.

    ``sha256`` maps file names of both towers (query, passage) to digests. ``max_query``, ``max_passage`` are tokens.
    ``separator`` stands between title and text where ``pairs`` is false; ". " becomes " " after a title that ends in
    a full stop. ``prefixes`` go before every query and every passage.
    """

    encoder_id: str
    revision: str
    sha256: tuple[tuple[str, str], ...]
    pooling: Pooling
    normalise: bool
    metric: Metric
    dim: int
    max_query: int
    max_passage: int
    pairs: bool
    separator: str = ". "
    prefixes: tuple[str, str] = ("", "")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Fingerprinted:
    """Tell what an encoder is by its fingerprint."""

    _fingerprint: EncoderFingerprint

    @property
    def name(self) -> str:
        return self._fingerprint.encoder_id

    @property
    def dim(self) -> int:
        return self._fingerprint.dim

    @property
    def metric(self) -> Metric:
        return self._fingerprint.metric

    @property
    def fingerprint(self) -> EncoderFingerprint:
        return self._fingerprint


class Encoder(Protocol):
    """Encode texts as vectors, with loaded weights.

    Safe from many threads; calls run one after another.
    """

    @property
    def name(self) -> str: ...

    @property
    def dim(self) -> int: ...

    @property
    def metric(self) -> Metric: ...

    @property
    def fingerprint(self) -> EncoderFingerprint: ...

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Return one vector per text, float32 [n, dim], in the order given.

        Texts over the token limit are cut at their end.
        """
        ...

    def encode_passages(self, passages: Sequence[PassageText]) -> Floats:
        """Return one vector per passage, float32 [n, dim], in the order given."""
        ...

    def count_query_tokens(self, text: str) -> int:
        """Count the tokens of a query before truncation, special tokens included.

        More than ``max_query`` means that ``encode_queries`` cuts the end of the text.
        """
        ...


@runtime_checkable
class TokenEncoder(Encoder, Protocol):
    """Encode texts as one vector each and, in the same pass, their tokens for late interaction.

    ``models.encoders.token_codes`` scores them.
    """

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[Floats]]:
        """Return the vectors of ``encode_queries``, and for each text the rotated unit vectors of its kept tokens.

        A text of function words alone keeps all of its tokens; an empty text has none.
        """
        ...

    def encode_passages_with_tokens(self, passages: Sequence[PassageText]) -> tuple[Floats, list[Codes]]:
        """Return the vectors of ``encode_passages``, and for each passage the codes of its kept tokens."""
        ...


@runtime_checkable
class RemoteVectors(Encoder, Protocol):
    """Encode texts with a server, which sends one vector for each text and none of its tokens."""

    @property
    def url(self) -> str: ...

    def check(self) -> None:
        """Compare vectors of the server with known ones.

        Raises:
            ModelError: the server does not answer.
            ModelNotFound: its vectors are not those of this encoder, or there are none to compare them with.
        """
        ...

    def close(self) -> None:
        """Close the connections; later calls raise ModelError."""
        ...


def encode_with_tokens(encoder: Encoder, passages: Sequence[PassageText]) -> tuple[Floats, list[Codes] | None]:
    """Return the vectors of passages, and the codes of their tokens, None from an encoder that gives none."""
    if isinstance(encoder, TokenEncoder):
        return encoder.encode_passages_with_tokens(passages)
    return encoder.encode_passages(passages), None


def lacks_tokens(encoder: Encoder) -> bool:
    """Return whether the weights give token vectors for late interaction and this encoder, being remote, does not."""
    return isinstance(encoder, RemoteVectors) and encoder.fingerprint.pooling == "mean"


class CrossEncoder(Protocol):
    """Score a query and a passage together."""

    @property
    def name(self) -> str: ...

    def score(self, query: str, passages: Sequence[PassageText]) -> Floats:
        """Return one raw logit per passage, float32 [n], higher for better, in the order given."""
        ...


SENTENCE: Final = ". "
_ENDS: Final = (".", "?", "!")


def join_title(passage: PassageText, separator: str = SENTENCE) -> str:
    """Join title and text with ``separator``; return the other alone if one is empty.

    With the default separator, only a space follows a title that ends a sentence, as PubMed's titles do.
    """
    title, text = passage.title.strip(), passage.text.strip()
    if not title or not text:
        return title or text
    if separator == SENTENCE and title.endswith(_ENDS):
        return f"{title} {text}"
    return f"{title}{separator}{text}"


# Called with (texts done, total texts) after every batch. An error that it raises ends the work and propagates.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderOptions:
    """Set device, dtype, batch size, threads and file source of an encoder.

    ``device`` is ``auto``, ``cpu``, ``cuda`` or ``cuda:N``. ``dtype`` ``auto``: bfloat16 on CUDA and on CPUs that
    compute in it (AMX, AVX512-BF16), otherwise float32. ``batch_tokens`` bounds one batch, padding counted; None
    selects a value for the device. ``threads`` of a CPU forward pass; None: one for a question, else torch's number.
    ``allow_download`` lets a hub id be downloaded; otherwise only local files are used. ``revision`` of a hub id:
    commit, tag or branch; of two towers both, as ``query,passage``; None selects the revision of the known encoder.
    """

    device: str = "auto"
    dtype: Dtype = "auto"
    batch_tokens: int | None = None
    threads: int | None = None
    allow_download: bool = False
    revision: str | None = None

    def __post_init__(self) -> None:
        for name in ("batch_tokens", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEncoderOptions(ServerAddress):
    """Set where the server of a remote encoder is, and how long it is waited for.

    ``references`` is the folder of the vectors that the server's are compared with; it is created when it is needed.
    ``reply_s`` bounds a reply.
    """

    references: Path
    reply_s: float = 60.0
