"""The memory that is left on a card, and the order of loading."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from models.errors import ModelError
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.errors import BACKEND_UNAVAILABLE, IndexFault
from retrieval.index.backends.base import Backend
from retrieval.index.backends.card import Card
from retrieval.index.backends.faiss_cpu import FaissCpuBackend
from retrieval.index.spec import GIB
from retrieval.passages import Document
from server.evidence.passages import Retrieval
from server.settings.model import ModelSettings
from server.settings.retrieval import RetrievalSettings
from server.settings.schema import Settings
from server.settings.verifier import VerifierSettings
from server.wiring.retrieval import build_retrieval, card_reserve, engine_reserve, preload

TEXT = "IL-6 drives the acute phase."


@pytest.fixture
def retrieval(tmp_path: Path) -> Iterator[Retrieval]:
    made = build_retrieval(RetrievalSettings(encoders=("hashing",)), tmp_path)
    made.namespaces.create("notes", NamespaceSettings(encoder="hashing"))
    document = Document(document_id="note:1", title="Cytokines")
    add_items(made.namespaces, "notes", [ParsedDocument(document, TEXT, (Span(0, len(TEXT)),))])
    yield made
    asyncio.run(made.close())


def test_preloading_opens_indices_and_encoders(retrieval: Retrieval) -> None:
    """A search afterwards loads nothing; a damaged index costs a warning, not the server."""
    preload(retrieval)
    with retrieval.namespaces.using("notes") as namespace:
        assert namespace.vectors.stats().rows == 1


def test_an_encoder_that_is_not_here_costs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Requests for it say why."""
    made = build_retrieval(RetrievalSettings(encoders=("hashing", "nobody/has-this")), tmp_path)
    preload(made)
    assert "encoder not loaded: name=nobody/has-this" in caplog.text
    with pytest.raises(ModelError):
        made.encoders.encoder("nobody/has-this")
    asyncio.run(made.close())


def test_the_engine_leaves_free_what_encoders_allocate_at_work() -> None:
    """Where they share a GPU; a cross-encoder with its weights, as it is loaded after the engine."""

    def reserve(device: str, engine: str = "auto", gpus: int = 1, cross_encoder: str | None = None) -> int:
        retrieval = RetrievalSettings(encoders=("minilm",), device=device, cross_encoder=cross_encoder)
        model = ModelSettings(device=engine, tensor_parallel_size=gpus)
        return engine_reserve(Settings(retrieval=retrieval, model=model))

    shared = reserve("cuda")
    assert shared > 100 * 2**20
    assert reserve("cuda:1", "cuda") == reserve("cuda", "cpu") == reserve("cpu") == 0
    assert reserve("cuda:1", "cuda", gpus=2) == reserve("cuda:1", "cuda:1") == shared
    # Not here: its loading says so.
    assert reserve("cuda", cross_encoder="nobody/has-this") == shared


def test_the_engine_leaves_room_for_vectors_that_come(retrieval: Retrieval) -> None:
    """By what is there, or as much as is set; with a search's scratch, and only where they share a GPU."""

    def reserve(device: str = "cuda", growth_gib: float | None = None) -> int:
        of_vectors = RetrievalSettings(encoders=("hashing",), device="cuda", backend="torch", growth_gib=growth_gib)
        served = Settings(retrieval=of_vectors, model=ModelSettings(device=device))
        return engine_reserve(served, retrieval.namespaces) - engine_reserve(served)

    assert GIB + 2**28 < reserve() < GIB + 2**28 + 2**20
    assert reserve("cpu") == 0
    assert (reserve(growth_gib=2), reserve(growth_gib=0)) == (3 * GIB, GIB)


def test_vectors_leave_free_what_others_on_their_card_need() -> None:
    """The scratch of a search, encoders at work and the verifier with its weights."""

    def kept(verifier: str | None) -> int:
        chosen = RetrievalSettings(encoders=("minilm",), device="cuda")
        return card_reserve(Settings(retrieval=chosen, verifier=VerifierSettings(model=verifier)))

    # Not here: its loading says so.
    assert kept("nobody/has-this") > GIB + 100 * 2**20
    assert kept(None) > kept("nobody/has-this") + 50 * 2**20


def test_a_card_that_cannot_be_searched_on_costs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is opened before an engine fills it; requests for vectors say what is wrong."""

    def none() -> Backend:
        raise IndexFault("no driver", BACKEND_UNAVAILABLE)

    made = build_retrieval(RetrievalSettings(encoders=("hashing",)), tmp_path)
    preload(replace(made, card=Card(none, FaissCpuBackend(), lambda: 0)))
    assert "the card cannot be searched on: cause=IndexFault" in caplog.text
    asyncio.run(made.close())


def test_the_engine_leaves_free_what_the_verifier_needs() -> None:
    """With its weights, as it is loaded after the engine; one that is not here says so when it is loaded."""

    def reserve(device: str, model: str | None = None) -> int:
        retrieval = RetrievalSettings(encoders=("hashing",), device=device)
        return engine_reserve(Settings(retrieval=retrieval, verifier=VerifierSettings(model=model)))

    assert reserve("cuda") > 100 * 2**20
    assert reserve("cpu") == reserve("cuda", "nobody/has-this") == 0
