"""Scores of cross-encoders against plain transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from bert_models import TEXTS, build_bert

from models.encoders.base import EncoderOptions, PassageText
from models.encoders.registry import create_cross_encoder
from models.encoders.specs import KNOWN_CROSS_ENCODERS
from models.errors import ENCODER_UNUSABLE, ModelNotFound

EXACT = EncoderOptions(device="cpu", dtype="float32", batch_tokens=600)
QUERY = "Which drug lowers blood glucose?"
PASSAGES = [
    PassageText("Metformin", TEXTS[0]),
    PassageText("A title.", TEXTS[4]),
    PassageText("", TEXTS[2]),
    PassageText("", ""),
]
JOINED = [f"Metformin. {TEXTS[0]}", f"A title. {TEXTS[4].strip()}", TEXTS[2], ""]


def by_hand(folder: Path, query: str, texts: list[str]) -> list[float]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    scores = []
    with torch.inference_mode():
        for text in texts:
            encoded = tokenizer([[query, text]], truncation=True, max_length=512, return_tensors="pt")
            scores.append(float(model(**encoded).logits[0, 0]))
    return scores


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bert(tmp_path_factory.mktemp("cross"), labels=1)


def test_the_score_is_the_logit_of_query_and_title_with_text(folder: Path) -> None:
    """No sigmoid: scores may be below 0 and above 1."""
    scores = create_cross_encoder(str(folder), EXACT).score(QUERY, PASSAGES)

    np.testing.assert_allclose(scores, by_hand(folder, QUERY, JOINED), atol=2e-5)
    assert scores.shape == (4,)


def test_a_long_query_is_cut_as_the_library_does(folder: Path) -> None:
    """Of the two parts the longer one loses its end."""
    query = "metformin and glucose " * 300
    scores = create_cross_encoder(str(folder), EXACT).score(query, PASSAGES)

    np.testing.assert_allclose(scores, by_hand(folder, query, JOINED), atol=2e-5)


def test_medcpts_own_name_and_hub_id_mean_its_source(folder: Path) -> None:
    """512 tokens for both parts together."""
    options = EncoderOptions(revision="f" * 40)
    for name in ("medcpt-cross", "ncbi/medcpt-cross-encoder"):
        with pytest.raises(ModelNotFound, match="ncbi/MedCPT-Cross-Encoder"):
            create_cross_encoder(name, options)
    assert KNOWN_CROSS_ENCODERS["medcpt-cross"].max_tokens == 512


def test_a_model_of_several_labels_is_refused(tmp_path: Path) -> None:
    """Its first label need not be relevance."""
    with pytest.raises(ModelNotFound, match="2 labels", check=ENCODER_UNUSABLE.is_of):
        create_cross_encoder(str(build_bert(tmp_path, labels=2)), EXACT)


def test_an_encoder_without_a_head_is_refused(tmp_path: Path) -> None:
    """The library would put a random one on it."""
    from transformers import AutoConfig

    folder = build_bert(tmp_path)
    config = AutoConfig.from_pretrained(folder)
    config.num_labels = 1
    config.save_pretrained(folder)

    with pytest.raises(ModelNotFound, match=r"classifier\.", check=ENCODER_UNUSABLE.is_of):
        create_cross_encoder(str(folder), EXACT)
