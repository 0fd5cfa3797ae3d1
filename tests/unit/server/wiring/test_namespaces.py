"""Namespaces by the settings: which back end their vectors get, and what is reused between openings."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.encoders.base import Encoder, EncoderOptions
from models.encoders.registry import create_encoder
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.errors import NamespaceInvalid
from retrieval.passages import Document
from server.settings.retrieval import RetrievalSettings
from server.wiring.namespaces import backend_name, build_namespaces, uses_card

TEXT = "IL-6 drives the acute phase."


def hashing(name: str) -> Encoder:
    assert name == "hashing"
    return create_encoder(name, EncoderOptions())


def added(root: Path) -> Namespaces:
    namespaces = build_namespaces(RetrievalSettings(encoders=("hashing",), backend="faiss"), root, hashing)
    namespaces.create("notes", NamespaceSettings(encoder="hashing"))
    document = Document(document_id="note:1", title="Cytokines")
    add_items(namespaces, "notes", [ParsedDocument(document, TEXT, (Span(0, len(TEXT)),))])
    return namespaces


def test_a_namespace_is_described_without_its_encoder(tmp_path: Path) -> None:
    """Counts and recall come from the store and the index's manifest."""

    def none(name: str) -> Encoder:
        raise AssertionError(f"{name} is not needed")

    added(tmp_path).close()
    namespaces = build_namespaces(RetrievalSettings(encoders=("hashing",), backend="faiss"), tmp_path, none)

    found = namespaces.describe("notes")

    assert found.counts is not None
    assert (found.counts.passages, sum(found.counts.pending.values())) == (1, 0)
    assert found.recalls == {"hashing": 1.0}
    namespaces.close()


def test_an_unknown_back_end_of_words_is_refused_by_name(tmp_path: Path) -> None:
    namespaces = build_namespaces(RetrievalSettings(encoders=("hashing",)), tmp_path, hashing)
    with pytest.raises(NamespaceInvalid, match="no lexical back end 'lucene'"):
        namespaces.backends.words(tmp_path / "words", "lucene", False)
    namespaces.close()


@pytest.mark.parametrize(
    ("backend", "device", "name"),
    [("auto", "cpu", "faiss"), ("auto", "cuda:1", "torch"), ("torch", "cpu", "torch"), ("faiss", "cuda", "faiss")],
)
def test_auto_takes_torch_where_encoders_use_a_card(backend: str, device: str, name: str) -> None:
    settings = RetrievalSettings.model_validate({"backend": backend, "device": device})
    assert backend_name(settings) == name
    assert uses_card(settings) is device.startswith("cuda")
