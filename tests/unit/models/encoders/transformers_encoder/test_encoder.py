"""Vectors of transformers encoders against plain transformers and sentence-transformers."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bert_models import TEXTS, build_bert, build_medcpt, by_hand, minilm_folder

from models.encoders.base import EncoderOptions, PassageText
from models.encoders.registry import create_encoder, encoder_memory
from models.encoders.resolve import resolve_encoder
from models.encoders.specs import KNOWN_ENCODERS, EncoderSpec
from models.encoders.texts import TruncatingTokenizer, load_tokenizer
from models.encoders.transformers_encoder.encoder import BatchRunner, Inputs, TransformersEncoder
from models.encoders.transformers_encoder.loading import FifoLock, Placement, place
from models.errors import ENCODER_UNUSABLE, EngineUnavailable, ModelNotFound, UnsupportedParam
from models.torch_runtime.devices import cpu_has_bfloat16

EXACT = EncoderOptions(device="cpu", dtype="float32", batch_tokens=600)
PAIRS = [
    PassageText("Central diabetes insipidus", TEXTS[0]),
    PassageText("", TEXTS[4]),
    PassageText("Aspirin in stroke. " * 60, TEXTS[4]),
    PassageText("Aspirin", ""),
    PassageText("", ""),
]


@pytest.fixture(scope="module")
def medcpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_medcpt(tmp_path_factory.mktemp("medcpt"))


@pytest.fixture(scope="module")
def minilm() -> TransformersEncoder:
    return build("minilm", EXACT)


def build(source: EncoderSpec | str, options: EncoderOptions) -> TransformersEncoder:
    return TransformersEncoder(resolve_encoder(source, options), options)


def one_tower(folder: Path, name: str) -> EncoderSpec:
    return replace(KNOWN_ENCODERS[name], query=str(folder), passage=str(folder), package="")


def check_medcpt(folder: Path, atol: float) -> None:
    encoder = build(str(folder), EXACT)
    query, article = folder / "MedCPT-Query-Encoder", folder / "MedCPT-Article-Encoder"

    np.testing.assert_allclose(encoder.encode_queries(TEXTS), by_hand(query, TEXTS, "cls", 64), atol=atol)
    np.testing.assert_allclose(encoder.encode_passages(PAIRS), by_hand(article, PAIRS, "cls", 512), atol=atol)


def test_medcpt_is_the_cls_of_its_own_tower_cut_at_64_and_512(medcpt: Path) -> None:
    """Pairs are two segments, nothing is normalised, and no [CLS] is taken for a mean."""
    check_medcpt(medcpt, 2e-5)
    query = medcpt / "MedCPT-Query-Encoder"
    assert np.abs(by_hand(query, TEXTS, "cls", 64) - by_hand(query, TEXTS, "mean", 64)).max() > 0.5
    assert np.abs(by_hand(query, TEXTS, "cls", 64) - by_hand(query, TEXTS, "cls", 512)).max() > 0.1


@pytest.mark.weights
@pytest.mark.long
def test_the_same_holds_at_medcpts_true_size(tmp_path: Path) -> None:
    """12 layers of 768, both towers; and bfloat16 points the same way."""
    folder = build_medcpt(tmp_path, "base")
    check_medcpt(folder, 1e-4)
    exact = build(str(folder), EXACT).encode_passages(PAIRS)
    rounded = build(str(folder), replace(EXACT, dtype="bfloat16")).encode_passages(PAIRS)

    assert cosines(exact, rounded).min() >= 0.999


def test_contriever_is_the_mean_of_title_and_text_in_one(tmp_path: Path) -> None:
    """Not normalised."""
    folder = build_bert(tmp_path / "contriever")
    joined = [f"{PAIRS[0].title}. {PAIRS[0].text}", PAIRS[1].text.strip()]
    vectors = build(str(folder), EXACT).encode_passages(PAIRS[:2])

    np.testing.assert_allclose(vectors, by_hand(folder, joined, "mean", 512), atol=2e-5)


def test_specter_reads_its_separator_as_the_special_token(tmp_path: Path) -> None:
    """Other encoders read the same characters as text."""
    folder = build_bert(tmp_path / "bert")
    specter = build(one_tower(folder, "specter"), EXACT)
    expected = by_hand(folder, ["Aspirin[SEP]Stroke"], "cls", 512)

    np.testing.assert_allclose(specter.encode_passages([PassageText("Aspirin", "Stroke")]), expected, atol=2e-5)
    assert specter.metric == "l2"
    assert specter.count_query_tokens("[SEP]") == 3
    assert build(one_tower(folder, "contriever"), EXACT).count_query_tokens("[SEP]") == 5


def test_a_model_without_segments_gets_none(tmp_path: Path) -> None:
    """DistilBERT, here with a tokenizer that numbers segments all the same."""
    from transformers import DistilBertConfig, DistilBertModel

    folder = build_bert(tmp_path / "contriever")
    config = DistilBertConfig(vocab_size=30522, dim=32, n_layers=1, n_heads=2, hidden_dim=64, initializer_range=0.2)
    DistilBertModel(config).save_pretrained(folder)
    encoder = build(str(folder), EXACT)

    assert encoder.encode_queries(TEXTS).shape == (len(TEXTS), 32)
    assert encoder_memory(str(folder), EXACT).activations > 0


def test_minilm_equals_sentence_transformers(minilm: TransformersEncoder) -> None:
    """The real weights, in float32, through mean pooling, normalisation and the cut at 256 tokens."""
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(minilm_folder()), device="cpu").encode(list(TEXTS))

    np.testing.assert_allclose(minilm.encode_queries(TEXTS), theirs, atol=1e-5)
    np.testing.assert_allclose(minilm.encode_passages([PassageText("", t) for t in TEXTS]), theirs, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("heart attack", "myocardial infarction", "broken leg"),
        ("high blood pressure", "hypertension", "photosynthesis in algae"),
        (
            "drug for type 2 diabetes",
            "metformin lowers blood glucose",
            "surgical repair of the anterior cruciate ligament",
        ),
    ],
)
def test_minilms_neighbours_make_sense(minilm: TransformersEncoder, text: str, near: str, far: str) -> None:
    """Synonyms without a common word are nearer than other things."""
    query, close, distant = minilm.encode_queries([text, near, far])

    assert query @ close > query @ distant + 0.1


def test_bfloat16_points_the_same_way(minilm: TransformersEncoder) -> None:
    """Cosine to float32 of at least 0.999, with the real weights."""
    rounded = build("minilm", replace(EXACT, dtype="bfloat16"))

    assert cosines(minilm.encode_queries(TEXTS), rounded.encode_queries(TEXTS)).min() >= 0.999
    assert rounded.encode_queries(TEXTS).dtype == np.float32


def test_the_fingerprint_says_what_decides_a_vector(minilm: TransformersEncoder, medcpt: Path) -> None:
    """Rounding and batches are no part of it, so an index made on a GPU can be asked from a CPU."""
    print_of_minilm = minilm.fingerprint
    assert print_of_minilm == build("minilm", replace(EXACT, dtype="bfloat16", batch_tokens=64)).fingerprint
    assert dict(print_of_minilm.sha256)["model.safetensors"].startswith("53aa5117")
    assert (print_of_minilm.dim, print_of_minilm.pooling, print_of_minilm.normalise) == (384, "mean", True)

    other = build(str(medcpt), EXACT).fingerprint
    assert (other.dim, other.max_query, other.max_passage, other.pairs) == (32, 64, 512, True)
    assert "passage/model.safetensors" in dict(other.sha256)


def test_query_tokens_are_counted_before_the_cut(medcpt: Path) -> None:
    """With [CLS] and [SEP]: a vignette's length shows, though only 64 tokens are read."""
    encoder = build(str(medcpt), EXACT)

    assert encoder.count_query_tokens("drug") == 3
    assert encoder.count_query_tokens("drug " * 500) == 502


def test_progress_counts_to_the_end_and_can_stop_the_work(minilm: TransformersEncoder) -> None:
    """What the callback raises reaches the caller, before the next batch is run."""
    seen: list[tuple[int, int]] = []
    minilm.encode_queries(TEXTS, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(TEXTS), len(TEXTS))
    assert len(seen) > 1

    calls = 0

    def stop(done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        raise InterruptedError("stopped by the user")

    with pytest.raises(InterruptedError, match="stopped by the user"):
        minilm.encode_queries(TEXTS, progress=stop)
    assert calls == 1


def test_the_number_of_threads_is_put_back(medcpt: Path) -> None:
    """It belongs to the process, in which an engine may run."""
    before = torch.get_num_threads()
    encoder = build(str(medcpt), replace(EXACT, threads=before + 1))
    seen: list[int] = []
    encoder.encode_queries(["a"], progress=lambda done, total: seen.append(torch.get_num_threads()))

    assert seen == [before] == [torch.get_num_threads()]


def test_a_question_has_one_thread() -> None:
    with place(EXACT).computing(40):
        assert torch.get_num_threads() == 1


def test_weights_that_are_not_all_there_are_refused(tmp_path: Path) -> None:
    """The library would fill them with random numbers and a warning."""
    from safetensors.torch import load_file, save_file

    folder = build_bert(tmp_path / "contriever")
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})

    with pytest.raises(ModelNotFound, match=r"encoder\.layer\.1\.output\.dense\.weight", check=ENCODER_UNUSABLE.is_of):
        create_encoder(str(folder), EXACT)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    """A download that broke off."""
    folder = build_bert(tmp_path / "contriever")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])

    with pytest.raises(ModelNotFound):
        create_encoder(str(folder), EXACT)


def test_more_tokens_than_places_are_refused(tmp_path: Path) -> None:
    """At the start, not at the first long text."""
    spec = replace(one_tower(build_bert(tmp_path / "bert"), "contriever"), max_passage=513)

    with pytest.raises(
        ModelNotFound, match="513 tokens, but its model has places for 512", check=ENCODER_UNUSABLE.is_of
    ):
        create_encoder(spec, EXACT)


def test_numbers_that_overflow_are_refused(tmp_path: Path) -> None:
    """One vector that is no number spoils every ranking it is in."""
    from safetensors.torch import load_file, save_file

    folder = build_bert(tmp_path / "contriever")
    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer.1.output.LayerNorm.weight"].fill_(float("inf"))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})

    with pytest.raises(ModelNotFound, match="not finite", check=ENCODER_UNUSABLE.is_of):
        create_encoder(str(folder), EXACT).encode_queries(["aspirin"])


@pytest.mark.parametrize(("device", "error"), [("cuda:0", EngineUnavailable), ("toaster", UnsupportedParam)])
def test_a_device_that_is_not_there_is_refused(device: str, error: type[Exception]) -> None:
    """Rather than quietly using another one."""
    if device.startswith("cuda") and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(error):
        place(EncoderOptions(device=device))


def test_bfloat16_is_chosen_where_the_cpu_multiplies_in_it() -> None:
    """Elsewhere it would be imitated, slower than float32."""
    chosen = place(EncoderOptions(device="cpu")).dtype

    assert chosen is (torch.bfloat16 if cpu_has_bfloat16() else torch.float32)


@pytest.mark.gpu
def test_a_gpu_gives_the_cpus_vectors(minilm: TransformersEncoder) -> None:
    """In bfloat16, to a cosine of 0.999."""
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    on_gpu = build("minilm", EncoderOptions(device="cuda"))

    assert cosines(minilm.encode_queries(TEXTS), on_gpu.encode_queries(TEXTS)).min() >= 0.999


class SmallMemory:
    """A model on a device that holds ``rows`` texts."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, inputs: Inputs) -> torch.Tensor:
        self.shapes.append(tuple(inputs.ids.shape))
        if inputs.ids.shape[0] > self.rows:
            raise torch.OutOfMemoryError("full")
        return (inputs.ids * inputs.mask).sum(dim=1, keepdim=True).float()


def run_on(forward: SmallMemory, texts: list[str]) -> Any:
    cutter = TruncatingTokenizer(load_tokenizer(minilm_folder()), 256)
    placement = Placement(torch.device("cpu"), torch.float32, 2048, None)
    return BatchRunner(forward, 1, placement, FifoLock()).run(cutter, 256, iter(texts), len(texts), None)


def test_a_batch_that_does_not_fit_is_halved() -> None:
    """Until it fits, with the same result."""
    texts = [f"gene {i}" for i in range(9)]
    small = SmallMemory(2)

    np.testing.assert_array_equal(run_on(small, texts), run_on(SmallMemory(100), texts))
    assert small.shapes[0] == (9, 8)


def test_a_text_that_does_not_fit_alone_is_an_error() -> None:
    """Which may pass, once others have left the memory."""
    with pytest.raises(EngineUnavailable, match="does not fit into the memory") as caught:
        run_on(SmallMemory(0), ["a"])
    assert caught.value.retryable


def test_a_short_call_gets_in_between_the_batches_of_a_long_one(minilm: TransformersEncoder) -> None:
    """A query does not wait for bulk work to end."""
    order: list[str] = []

    def query() -> None:
        minilm.encode_queries(["aspirin"])
        order.append("query")

    thread = threading.Thread(target=query)

    def progress(done: int, total: int) -> None:
        if not thread.ident:
            thread.start()
        elif done > 32:
            # Later batches wait for the query: it must be able to get in before the work is over.
            thread.join()

    minilm.encode_queries(list(TEXTS) * 8, progress=progress)
    order.append("bulk")

    assert order == ["query", "bulk"]


def cosines(first: Any, second: Any) -> Any:
    return (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
