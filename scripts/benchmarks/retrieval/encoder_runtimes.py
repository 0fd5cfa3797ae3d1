"""Compare runtimes for MiniLM on a CPU: processor time, vectors, and MAP@10, of float32 and int8, by torch and ONNX.

    pip install onnx onnxruntime
    python scripts/benchmarks/retrieval/encoder_runtimes.py FOLDER [--questions 120] [--others 800] [--texts 40]

FOLDER is that of scripts/evals/retrieval.py. Questions are drawn from its half ``dev``; they are searched for among
their own documents and ``--others``. Times are the least of the rounds, one thread, all runtimes in turn; batches,
pooling and the codes of tokens are the product's. "late": the first hundred, ordered by cosine plus late interaction.
int8 is dynamic: weights by column; activations by one scale for a batch ("batch") or one for each token ("token").
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.encoders.base import Codes, EncoderOptions, Floats, PassageText, join_title
from models.encoders.model_files import ModelFolder
from models.encoders.resolve import resolve_encoder
from models.encoders.texts import TruncatingTokenizer, load_tokenizer
from models.encoders.token_codes import kept_tokens, max_sim, pack
from models.encoders.transformers_encoder.encoder import BatchRunner, PooledForward, TokenForward, unit_rows
from models.encoders.transformers_encoder.loading import (
    FifoLock,
    TokenVectors,
    load_plain_bert,
    load_transformer,
    place,
)
from scripts.benchmarks.retrieval.onnx_bert import write_graph
from scripts.evals.retrieval import Question, average_precision, corpus, read_questions

LIMIT: Final = 256
DEPTH: Final = 100
OPTIONS: Final = EncoderOptions(device="cpu", dtype="float32", threads=1)


class OnnxBert:
    """Compute token vectors with onnxruntime, in the form of a transformers model."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> TokenVectors:
        found = self._session.run(None, {"ids": input_ids.numpy(), "mask": attention_mask.numpy()})
        return TokenVectors(torch.from_numpy(found[0]))

    __call__ = forward


def torch_int8(folder: ModelFolder, engine: str) -> Any:
    from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

    torch.backends.quantized.engine = engine
    layers = {torch.nn.Linear: per_channel_dynamic_qconfig}
    return quantize_dynamic(load_plain_bert(folder, torch.float32), layers, dtype=torch.qint8)  # type: ignore[no-untyped-call]


def models(folder: ModelFolder, work: Path) -> dict[str, Callable[[], Any]]:
    def graph(activations: str) -> OnnxBert:
        path = work / f"{activations}.onnx"
        write_graph(folder, path, activations)
        return OnnxBert(path)

    return {
        "torch, float32": lambda: load_transformer(folder, place(OPTIONS)),
        "onnxruntime, float32": lambda: graph("float32"),
        "onnxruntime, int8, batch": lambda: graph("batch"),
        "onnxruntime, int8, token": lambda: graph("token"),
        "torch, int8, batch": lambda: torch_int8(folder, "onednn"),
    }


class TextEncoder:
    """Encode texts as the product does, with any model of token vectors."""

    def __init__(self, folder: ModelFolder, model: Any) -> None:
        tokenizer = load_tokenizer(folder.path)
        self._cutter = TruncatingTokenizer(tokenizer, LIMIT)
        self._pooled = PooledForward(model, tokenizer, "mean", True)
        self._kept = kept_tokens(self._cutter.vocabulary)

    def passages(self, texts: Sequence[str]) -> tuple[Floats, list[Codes]]:
        vectors, rotated = self._encode(texts)
        return vectors, [pack(one) for one in rotated]

    def queries(self, texts: Sequence[str]) -> tuple[Floats, list[Floats]]:
        """Encode one by one, as a search does."""
        found = [self._encode([text]) for text in texts]
        return np.concatenate([vector for vector, _ in found]), [unit_rows(tokens[0]) for _, tokens in found]

    def _encode(self, texts: Sequence[str]) -> tuple[Floats, list[Floats]]:
        found: list[Floats] = []
        runner = BatchRunner(TokenForward(self._pooled, self._kept, found.append), 384, place(OPTIONS), FifoLock())
        vectors, places = runner.run_with_places(self._cutter, LIMIT, iter(texts), len(texts), None)
        return vectors, [found[place] for place in places]


@dataclass(frozen=True, slots=True)
class Sample:
    """Questions, and the ids and texts of the documents to search."""

    questions: list[Question]
    ids: list[str]
    texts: list[str]


def draw(folder: Path, questions: int, others: int) -> Sample:
    rng = random.Random(1)
    asked = [one for one in read_questions(folder) if one.half == "dev" and one.kind != "known"]
    asked = rng.sample(asked, min(questions, len(asked)))
    gold = {document for one in asked for document in one.gold}
    documents = list(corpus(folder))
    rest = [one.document.document_id for one in documents if one.document.document_id not in gold]
    kept = gold.union(rng.sample(rest, min(others, len(rest))))
    documents = [one for one in documents if one.document.document_id in kept]
    texts = [join_title(PassageText(one.document.title, one.text)) for one in documents]
    return Sample(asked, [one.document.document_id for one in documents], texts)


def times(encoders: dict[str, TextEncoder], texts: Sequence[str], rounds: int) -> dict[str, float]:
    """Return the least seconds of processor time of each, measured in turn."""
    least = dict.fromkeys(encoders, float("inf"))
    for encoder in encoders.values():
        encoder.passages(texts[:2])
    for _ in range(rounds):
        for name, encoder in encoders.items():
            began = time.process_time()
            encoder.passages(texts)
            least[name] = min(least[name], time.process_time() - began)
    return least


def quality(encoder: TextEncoder, sample: Sample) -> tuple[Floats, float, float]:
    """Return the vectors of the documents, and MAP@10 of the vectors alone and with late interaction."""
    vectors, codes = encoder.passages(sample.texts)
    asked, tokens = encoder.queries([one.text for one in sample.questions])
    dense, late = [], []
    for question, query, own in zip(sample.questions, asked, tokens, strict=True):
        cosines = vectors @ query
        first = np.argsort(-cosines, kind="stable")[:DEPTH]
        scores = cosines[first] + max_sim(own, [codes[row] for row in first])
        dense.append(average_precision([sample.ids[row] for row in first], question.gold))
        again = first[np.argsort(-scores, kind="stable")]
        late.append(average_precision([sample.ids[row] for row in again], question.gold))
    return vectors, float(np.mean(dense)), float(np.mean(late))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=int, default=120, help="0: times alone")
    parser.add_argument("--others", type=int, default=800)
    parser.add_argument("--texts", type=int, default=40, help="whose encoding is timed")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(argv)
    torch.set_num_threads(1)
    folder = resolve_encoder("minilm", OPTIONS).passage
    sample = draw(given.folder, given.questions, given.others)
    with tempfile.TemporaryDirectory() as work:
        encoders = {name: TextEncoder(folder, load()) for name, load in models(folder, Path(work)).items()}
    least = times(encoders, sample.texts[:: max(1, len(sample.texts) // given.texts)], given.rounds)
    base: Floats | None = None
    columns = ("runtime", "CPU s", "ratio", "least cosine", "mean cosine", "MAP@10", "late")
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    for name, encoder in encoders.items():
        row = f"| {name} | {least[name]:.2f} | {next(iter(least.values())) / least[name]:.2f} |"
        if sample.questions:
            vectors, dense, late = quality(encoder, sample)
            base = vectors if base is None else base
            cosines = (vectors * base).sum(axis=1)
            row += f" {cosines.min():.4f} | {cosines.mean():.4f} | {dense:.4f} | {late:.4f} |"
        print(row, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
