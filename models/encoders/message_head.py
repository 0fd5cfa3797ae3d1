"""Tell what kind of message a person writes, and in which language, by a linear head over a sentence vector.

The features of a message are the vector of the encoder that ships (all-MiniLM-L6-v2) and its n-grams of characters and
words, hashed and weighted by inverse document frequency: the encoder was trained on English, and the n-grams carry the
other languages and misspellings. Needs numpy alone; ``scripts/train_emergency_head.py`` trains the head.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from models.encoders.base import Floats
from models.errors import ModelNotFound
from models.files import parse_json

HEAD_DIR: Final = Path(__file__).parents[1] / "embedded" / "message-head"
CONFIG: Final = "head.json"
WEIGHTS: Final = "head.safetensors"
# The kinds of which one is an emergency now: of the one who writes, or of somebody beside them.
EMERGENCIES: Final = ("own", "other")
GREETING: Final = "greeting"
# What the head reads of a message takes a few milliseconds; those that it was trained on are shorter.
MAX_CHARS: Final = 400
_GRAM_SIZES: Final = range(2, 6)
_WORD_GRAM_SIZES: Final = range(1, 3)
_PIECE: Final = re.compile(r"\w+|[^\w\s]")
_SIGN_BIT: Final = 31
# Greetings in four languages reach it; of 1,641 questions, 1,155 of BioASQ among them, four do, none of which asks for
# evidence, though the likeliest kind of 39 ("What is Nextflow?") is a greeting.
_SURE: Final = 0.97
_Trained = TypeVar("_Trained")


@dataclass(frozen=True, slots=True)
class MessageReading:
    """Hold the most likely kind and language (ISO 639-1) of a message, and the probability of an emergency now.

    ``greeting`` is the probability that it asks nothing.
    """

    kind: str
    language: str
    emergency: float
    is_emergency: bool
    greeting: float = 0.0

    @property
    def is_greeting(self) -> bool:
        """Return whether it is no question for a method: a greeting, thanks, small talk, "who are you"."""
        return self.kind == GREETING

    @property
    def asks_nothing(self) -> bool:
        """Return whether it is a greeting so surely that no evidence need be read for it."""
        return self.greeting >= _SURE


@dataclass(frozen=True, slots=True)
class MessageHead:
    """Hold the weights: of kinds float32 [features + 1, kinds], of languages [buckets + 1, languages]; biases last.

    ``threshold``: from which probability on a message is told to be an emergency. ``gram_weight`` scales the n-grams,
    a vector of length 1, against the encoder's, which has length 1 as well;
    ``idf`` [buckets] is what an n-gram in each bucket counts.
    """

    kinds: tuple[str, ...]
    languages: tuple[str, ...]
    kind_weights: Floats
    language_weights: Floats
    idf: Floats
    threshold: float
    gram_weight: float

    def read(self, message: str, vector: Floats) -> MessageReading:
        """Return what a message is; ``vector`` is the encoder's, float32 [dim]."""
        grams = hashed_grams(message, self.idf)
        of_kind = softmax(np.append(np.concatenate([vector, self.gram_weight * grams]), 1.0) @ self.kind_weights)
        of_language = np.append(grams, 1.0) @ self.language_weights
        emergency = float(sum(of_kind[self.kinds.index(kind)] for kind in EMERGENCIES))
        kind, language = self.kinds[int(of_kind.argmax())], self.languages[int(of_language.argmax())]
        greeting = float(of_kind[self.kinds.index(GREETING)])
        return MessageReading(kind, language, emergency, emergency >= self.threshold, greeting)


def load_head(folder: Path = HEAD_DIR) -> MessageHead:
    """Load the head of a folder, by default the one that ships.

    Raises:
        ModelNotFound: its files are missing or do not fit one another.
    """
    head = read_trained(
        folder,
        lambda config, weights: MessageHead(
            kinds=tuple(config["kinds"]),
            languages=tuple(config["languages"]),
            kind_weights=weights["kinds"],
            language_weights=weights["languages"],
            idf=weights["idf"],
            threshold=float(config["threshold"]),
            gram_weight=float(config["gram_weight"]),
        ),
    )
    named = (head.kind_weights.shape[1], *head.language_weights.shape)
    if named != (len(head.kinds), len(head.idf) + 1, len(head.languages)):
        raise unfitting(folder)
    return head


def read_trained(folder: Path, build: Callable[[Mapping[str, Any], Mapping[str, Floats]], _Trained]) -> _Trained:
    """Build what was trained from the configuration and the weights (float32) of a folder.

    Raises:
        ModelNotFound: a file is missing or cannot be read, or lacks what ``build`` takes from it.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        config = parse_json((folder / CONFIG).read_text("utf-8"))
        return build(config, {name: tensor.astype(np.float32) for name, tensor in load_file(folder / WEIGHTS).items()})
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ModelNotFound(f"no usable weights in {folder}: {type(error).__name__}: {error}") from error


def unfitting(folder: Path) -> ModelNotFound:
    return ModelNotFound(f"the weights in {folder} do not fit the names of its {CONFIG}")


def shortened(message: str) -> str:
    """Return the part of a message that is read: the whole, or beginning and end of a long one."""
    if len(message) <= MAX_CHARS:
        return message
    half = MAX_CHARS // 2
    return f"{message[:half]} {message[len(message) - half + 1 :]}"


def hashed_grams(message: str, idf: Floats) -> Floats:
    """Return the n-grams of a message, hashed to a bucket and a sign: float32 [buckets] of length 1 or 0.

    Words and marks stand apart by single spaces; each n-gram of characters, word and pair of words counts once.
    """
    pieces = _PIECE.findall(unicodedata.normalize("NFKC", shortened(message)).casefold())
    text = f" {' '.join(pieces)} "
    grams = {text[start : start + size] for size in _GRAM_SIZES for start in range(len(text) - size + 1)}
    # The mark keeps a word apart from the same characters within another.
    grams |= {
        "\0" + " ".join(pieces[start : start + size])
        for size in _WORD_GRAM_SIZES
        for start in range(len(pieces) - size + 1)
    }
    counts = np.zeros(len(idf), np.float32)
    for gram in grams:
        code = zlib.crc32(gram.encode("utf-8", "replace"))
        counts[code % len(idf)] += 1.0 if code >> _SIGN_BIT else -1.0
    counts *= idf
    norm = float(np.linalg.norm(counts))
    return counts / norm if norm else counts


def softmax(scores: Floats) -> Floats:
    """Return the shares [n] of scores [n]."""
    powers = np.exp(scores - scores.max())
    return np.asarray(powers / powers.sum(), np.float32)
