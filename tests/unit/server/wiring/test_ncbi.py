"""The vocabulary of a site: what its store, its graph and the lists of the package know."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_files import SMALL, build_small_graph
from shipped_data import give_store

from retrieval.gateway.store.open import open_store
from retrieval.types import NAME_KINDS, KnownName
from server.settings.schema import Settings
from server.wiring.ncbi import fill_gateway, site_names


def test_a_graph_counts_from_when_it_is_built(tmp_path: Path) -> None:
    """Before that its names are unknown, and no error is raised; nor by a damaged one."""
    store = open_store(give_store(tmp_path / "gateway"))
    names = site_names(store, tmp_path / "graphs", SMALL)
    assert list(names.find("tremor", NAME_KINDS)) == []

    (tmp_path / "damaged" / SMALL).mkdir(parents=True)
    damaged = site_names(store, tmp_path / "damaged", SMALL)
    assert list(damaged.find("tremor", NAME_KINDS)) == []

    build_small_graph(tmp_path / "graphs").close()
    assert list(names.find("tremor", NAME_KINDS)) == [KnownName("tremor", "heading")]


@pytest.mark.asyncio
async def test_a_store_that_cannot_be_filled_stops_no_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It answers from what it has; the log says why."""
    (tmp_path / "gateway").write_text("no folder")
    settings = Settings.model_validate({"gateway": {"data_dir": str(tmp_path / "gateway"), "human_genes": True}})

    await fill_gateway(settings)

    assert "human genes not added" in caplog.text


@pytest.mark.asyncio
async def test_a_site_can_leave_the_human_genes_out(tmp_path: Path) -> None:
    settings = Settings.model_validate({"gateway": {"data_dir": str(tmp_path / "gateway"), "human_genes": False}})

    await fill_gateway(settings)

    assert not (tmp_path / "gateway").exists()


def test_organisms_of_common_questions_are_always_known(tmp_path: Path) -> None:
    """Whatever has been imported."""
    names = site_names(open_store(give_store(tmp_path / "gateway")), tmp_path / "graphs", SMALL)

    assert KnownName("rhesus monkey", "organism") in set(names.find("Rhesus monkey", {"organism"}))
    assert list(names.find("Homo johnsmithensis", NAME_KINDS)) == []


def test_ordinary_words_are_language_or_people(tmp_path: Path) -> None:
    """Symbols that are neither stay free of conditions."""
    names = site_names(open_store(give_store(tmp_path / "gateway")), tmp_path / "graphs", SMALL)

    assert all(names.is_ordinary(word) for word in ("rest", "cat", "she", "has", "john", "schmidt", "fatima"))
    assert not any(names.is_ordinary(word) for word in ("brca", "psmb", "egfr", "hb", "x"))
