"""Names in queries, of genes and of the terminology."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.gateway.query.synonyms import StoreSynonyms
from retrieval.gateway.store.open import open_store
from retrieval.graph.linking.dictionary_lookup.terms import term_names
from retrieval.terminology.concepts import parse
from server.evidence.query_names import QueryNames

_TABLE = """\
concept\tsource\tidentifier\tkind\tnames\tclaimed
0\tdoid\tDOID:1\tDisease\trheumatoid arthritis|arthritis, rheumatoid|atrophic polyarthritis\t
1\tdrugbank\tDB1\tDrug\tmethotrexate|Trexall\t
2\tmesh\tMESH:D1\tDisease\tgout\t
3\tdrugbank\tDB2\tDrug\tinterleukin 6 of the table|IL-6\t
"""


@pytest.fixture
def names(tmp_path: Path) -> QueryNames:
    genes = StoreSynonyms(lambda: open_store(tmp_path), lambda word: word in ("large", "set"))
    return QueryNames(genes, lambda: term_names(parse(_TABLE.encode())))


async def test_genes_come_from_the_store_and_the_rest_from_the_terminology(names: QueryNames) -> None:
    """Each with its other names; what has none is not told, and a gene's name is looked for once."""
    found = {
        one.name: one.synonyms for one in names.named_in("Does Trexall lower IL-6 in atrophic polyarthritis or gout?")
    }
    assert "interleukin 6" in found.pop("IL-6")
    assert found == {"Trexall": ("methotrexate",), "atrophic polyarthritis": ("rheumatoid arthritis",)}
    assert names.is_gene("IL6") and "interleukin 6" in names.synonyms("IL6")
    await names.close()
