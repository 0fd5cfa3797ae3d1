"""Train the head that tells what kind of message a person writes, and report how well it does on messages unseen.

    OMP_NUM_THREADS=2 python -m scripts.train_emergency_head [--out FOLDER] [--check FILE]

The messages of ``scripts/training/tasks/emergency_messages.tsv`` were written for this; their vectors are those of the
encoder that ships, and what an n-gram counts comes from its frequency in all of them. Figures are from five folds, in
which most messages that say the same in two languages are in one fold; the threshold is the lowest at which the folds
note no more than 3 % of the professional messages and 5 % of greetings and of questions on knowledge, research and the
own health.
``--check``: JSON lines with ``message`` and ``emergency``, which are read with the finished head and nothing else.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from scipy.sparse import csr_matrix, hstack, vstack
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression

from models.encoders.base import Encoder, EncoderOptions, Floats
from models.encoders.message_head import CONFIG, EMERGENCIES, HEAD_DIR, WEIGHTS, MessageHead, hashed_grams, load_head
from models.encoders.registry import create_encoder

MESSAGES: Final = Path(__file__).parent / "training" / "tasks" / "emergency_messages.tsv"
LANGUAGES: Final = ("en", "de", "fr", "es")
KINDS: Final = (
    "own", "other", "professional", "past", "figurative", "animal", "general", "question", "greeting", "research",
    "minor",
)  # fmt: skip
PROFESSIONAL: Final = KINDS.index("professional")
BUCKETS: Final = 49_152
GRAM_WEIGHT: Final = 3.0
STRENGTH: Final = 10.0
SEED: Final = 20261128
FOLDS: Final = 5
MAX_PROFESSIONAL: Final = 0.03
MAX_ORDINARY: Final = 0.05
# What the server is there for. A note on what is past, an animal, a figure of speech or a minor complaint does less
# harm.
ORDINARY: Final = tuple(KINDS.index(kind) for kind in ("general", "question", "greeting", "research"))
_BLOCK: Final = 500
_MARKS: Final = re.compile(r"[?!.,'’¿¡:;]")


class Labelled(NamedTuple):
    """Hold a message with its kind and language, and the group whose messages share a fold."""

    kind: str
    language: str
    text: str
    group: str


@dataclass(frozen=True, slots=True)
class Data:
    """Hold messages, each once as it is and once misspelt: rows ``2 * i`` and ``2 * i + 1``."""

    messages: Sequence[Labelled]
    inputs: Any  # csr_matrix [rows, dim + buckets]
    grams: Any  # csr_matrix [rows, buckets]
    idf: NDArray[np.float64]  # [buckets]

    @property
    def kinds(self) -> NDArray[np.int64]:
        return np.array([KINDS.index(message.kind) for message in self.messages])

    @property
    def languages(self) -> NDArray[np.int64]:
        return np.array([LANGUAGES.index(message.language) for message in self.messages])


def read_messages(path: Path = MESSAGES) -> list[Labelled]:
    """Return the labelled messages; the n-th of a kind in each language are one group, as many are translations."""
    counts: Counter[tuple[str, str]] = Counter()
    messages = []
    for line in path.read_text("utf-8").splitlines()[1:]:
        kind, language, text = line.split("\t")
        messages.append(Labelled(kind, language, text, f"{kind} {counts[kind, language]}"))
        counts[kind, language] += 1
    return messages


def misspelt(text: str, draw: random.Random) -> str:
    """Return a text as people type it in a hurry: small letters, no marks, no accents, a letter wrong."""
    if draw.random() < 0.5:
        text = text.lower()
    if draw.random() < 0.5:
        text = _MARKS.sub("", text)
    if draw.random() < 0.4:
        text = "".join(char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char))
    for _ in range((1 + len(text) // 60) * (len(text) > 12 and draw.random() < 0.5)):
        place = draw.randrange(1, len(text) - 1)
        swapped = text[place + 1] + text[place]
        text = text[:place] + draw.choice(["", swapped[0] * 2, swapped]) + text[place + 2 :]
    return text


def prepared(messages: Sequence[Labelled], encoder: Encoder) -> Data:
    # A seed for each message: others that are added or go change none of its misspellings.
    texts = [
        form
        for message in messages
        for form in (message.text, misspelt(message.text, random.Random(f"{SEED} {message.text}")))
    ]
    blocks = [texts[start : start + _BLOCK] for start in range(0, len(texts), _BLOCK)]
    alike = np.ones(BUCKETS, np.float32)
    counts = vstack([csr_matrix(np.stack([hashed_grams(text, alike) for text in block])) for block in blocks])
    weighting = TfidfTransformer().fit(counts)
    grams, vectors = weighting.transform(counts), csr_matrix(encoder.encode_queries(texts))
    return Data(messages, hstack([vectors, GRAM_WEIGHT * grams], format="csr"), grams, weighting.idf_)


def fitted(inputs: Any, targets: NDArray[np.int64], strength: float = STRENGTH) -> LogisticRegression:
    model = LogisticRegression(C=strength, max_iter=200, tol=1e-3, class_weight="balanced")
    return model.fit(inputs, np.repeat(targets, 2))


def _rows(chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.repeat(chosen, 2)


def cross_validated(data: Data) -> tuple[Floats, NDArray[np.int64]]:
    """Return the probabilities of kinds [messages, kinds] and the language of each message, from folds without it."""
    fold = np.array([zlib.crc32(message.group.encode()) % FOLDS for message in data.messages])
    of_kind = np.zeros((len(fold), len(KINDS)), np.float32)
    language = np.zeros(len(fold), np.int64)
    for number in range(FOLDS):
        learnt, unseen = fold != number, fold == number
        rows, plain = _rows(learnt), np.flatnonzero(unseen) * 2
        of_kind[unseen] = fitted(data.inputs[rows], data.kinds[learnt]).predict_proba(data.inputs[plain])
        language[unseen] = fitted(data.grams[rows], data.languages[learnt]).predict(data.grams[plain])
    return of_kind, language


def emergencies_of(of_kind: Floats) -> Floats:
    total: Floats = of_kind[:, [KINDS.index(kind) for kind in EMERGENCIES]].sum(axis=1)
    return total


def chosen_threshold(probability: Floats, kinds: NDArray[np.int64]) -> float:
    """Return the lowest threshold that keeps both bounds on wrong notes."""
    professional, ordinary = kinds == PROFESSIONAL, np.isin(kinds, ORDINARY)
    for step in range(5, 100):
        threshold = step / 100
        wrong = (probability[professional] >= threshold).mean(), (probability[ordinary] >= threshold).mean()
        if wrong[0] <= MAX_PROFESSIONAL and wrong[1] <= MAX_ORDINARY:
            return threshold
    raise ValueError("no threshold keeps the bounds on wrong notes")


def report(data: Data, of_kind: Floats, language: NDArray[np.int64], threshold: float) -> str:
    """Return the share noted by kind and language, the reliability of the probability, and the language's accuracy."""
    probability, kinds = emergencies_of(of_kind), data.kinds
    lines = [f"| noted at {threshold:.2f}, unseen | n | all | {' | '.join(LANGUAGES)} |", f"|{' --- |' * 7}"]
    for number, kind in enumerate(KINDS):
        shares = [_share(probability, (kinds == number) & (data.languages == place), threshold) for place in range(4)]
        whole = _share(probability, kinds == number, threshold)
        lines.append(f"| {kind} | {(kinds == number).sum()} | {whole} | {' | '.join(shares)} |")
    real = np.isin(kinds, [KINDS.index(kind) for kind in EMERGENCIES])
    lines += ["", "| probability | n | mean | emergencies |", "| --- | --- | --- | --- |"]
    for low in np.arange(0.0, 1.0, 0.1):
        inside = (probability >= low) & (probability < low + 0.1 + 1e-6)
        if inside.any():
            lines.append(
                f"| {low:.1f}-{low + 0.1:.1f} | {inside.sum()} | {probability[inside].mean():.2f} | "
                f"{real[inside].mean():.2f} |"
            )
    right = (of_kind.argmax(axis=1) == kinds).mean()
    lines += ["", f"kind right {right:.3f}, language right {(language == data.languages).mean():.3f}"]
    return "\n".join(lines)


def _share(probability: Floats, of: NDArray[np.bool_], threshold: float) -> str:
    return f"{(probability[of] >= threshold).mean():.2f}" if of.any() else "-"


def save(folder: Path, data: Data, threshold: float) -> None:
    """Fit on all messages and write the head."""
    of_kind, of_language = fitted(data.inputs, data.kinds), fitted(data.grams, data.languages)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: np.ascontiguousarray(np.vstack([model.coef_.T, model.intercept_]).astype(np.float16))
        for name, model in (("kinds", of_kind), ("languages", of_language))
    }
    save_file(weights | {"idf": data.idf.astype(np.float16)}, folder / WEIGHTS)
    config = {"kinds": KINDS, "languages": LANGUAGES, "threshold": threshold, "gram_weight": GRAM_WEIGHT}
    (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", "utf-8")


def checked(path: Path, head: MessageHead, encoder: Encoder) -> str:
    """Return how the head reads messages of a file, and which of them wrongly."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    vectors = encoder.encode_queries([row["message"] for row in rows])
    read = [head.read(row["message"], vector) for row, vector in zip(rows, vectors, strict=True)]
    lines = []
    for real, name in ((True, "emergencies noted"), (False, "others noted wrongly")):
        noted = [one.is_emergency for one, row in zip(read, rows, strict=True) if row["emergency"] is real]
        lines.append(f"{name}: {sum(noted)} of {len(noted)}")
    for one, row in zip(read, rows, strict=True):
        if one.is_emergency is not row["emergency"]:
            lines.append(f"  wrong: {one.emergency:.2f} {one.kind} {one.language}: {row['message']}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=HEAD_DIR)
    parser.add_argument("--check", type=Path)
    arguments = parser.parse_args()
    started = time.monotonic()
    encoder = create_encoder(options=EncoderOptions(device="cpu", dtype="float32"))
    data = prepared(read_messages(), encoder)
    of_kind, language = cross_validated(data)
    threshold = chosen_threshold(emergencies_of(of_kind), data.kinds)
    print(report(data, of_kind, language, threshold))
    save(arguments.out, data, threshold)
    if arguments.check is not None:
        print(checked(arguments.check, load_head(arguments.out), encoder))
    print(f"{len(data.messages)} messages, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
