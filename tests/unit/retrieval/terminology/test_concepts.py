"""The shipped table of names."""

from __future__ import annotations

import pytest

from retrieval.terminology.concepts import SOURCES, TABLE, parse, shipped_terminology

_HEAD = b"concept\tsource\tidentifier\tkind\tnames\tclaimed\n"
_MOST_BYTES = 6_000_000


def test_lines_of_equal_number_are_one_concept() -> None:
    terminology = parse(
        _HEAD + b"0\tdoid\tDOID:1\tDisease\tgout\t\n0\thp\tHP:1\tPhenotype\tpodagra\t\n1\tdrugbank\tDB1\tDrug\tzinc\t\n"
    )
    assert terminology.concept(0).names == ("gout", "podagra")
    assert terminology.concept(1).name == "zinc"
    assert [term.may_be("Gene") for term in terminology.terms()] == [False, False, False]
    assert not any(term.is_class for term in terminology.terms())
    assert [term.may_be("Compound") for term in terminology.terms()] == [False, False, True]


@pytest.mark.parametrize("content", [b"concept\tsource\n", _HEAD + b"1\tdoid\tDOID:1\tDisease\tgout\t\n"])
def test_another_table_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="table of names"):
        parse(content)


def test_each_shipped_line_has_a_source_with_a_licence() -> None:
    """And the table stays small."""
    terminology = shipped_terminology()
    assert {term.source for term in terminology.terms()} == set(SOURCES)
    assert len(terminology) > 80_000
    classes = {term.identifier for term in terminology.terms() if term.is_class}
    assert "DOID:0050736" in classes and "DOID:9352" not in classes
    assert TABLE.stat().st_size < _MOST_BYTES
