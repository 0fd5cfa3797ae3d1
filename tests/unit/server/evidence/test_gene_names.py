"""Other names of genes, from the sample of facts that comes with the package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from retrieval.errors import GatewayDataError
from retrieval.gateway.store.open import open_store
from retrieval.gateway.store.reader import GatewayStore
from server.evidence.ncbi import StoreGenes


@pytest.fixture(scope="module")
def genes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreGenes]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    yield StoreGenes(lambda: open_store(folder), lambda word: word in ("large", "set"))


def test_a_symbol_or_a_sole_alias_names_a_gene(genes: StoreGenes) -> None:
    """With the official symbol, aliases and the name, without what was asked for."""
    names = genes.synonyms("LMP10")
    assert "PSMB10" in names and "LMP10" not in names
    assert "LMP10" in genes.synonyms("PSMB10") and genes.is_gene("psmb10")


@pytest.mark.parametrize("name", ["zebrafish", "", "large", "a" * 500, "%_", "MECL1 OR 1"])
def test_what_is_no_gene_has_no_synonyms(genes: StoreGenes, name: str) -> None:
    """Nor have words of English, and nothing in a name is query syntax."""
    assert genes.synonyms(name) == ()


async def test_a_store_that_cannot_be_opened_means_no_synonyms() -> None:
    """Tried once, and told in the log."""
    tries = []

    def fail() -> GatewayStore:
        tries.append(1)
        raise GatewayDataError("damaged")

    genes = StoreGenes(fail, lambda _: False)
    assert genes.synonyms("LMP10") == genes.synonyms("PSMB10") == ()
    assert len(tries) == 1
    await genes.close()
