"""Values of fixed lists, how dates combine, and how much all of them can carry."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import pytest

from retrieval.ncbi.calls.table import CALLS
from server.egress.recognition.recognizer import CHOICES, check_dates, recognize_choice, recognize_link
from server.egress.recognition.terms import NotRecognized

# Also stated in docs/egress.md.
MAX_BITS = 18


@pytest.mark.parametrize(
    ("params", "fits"),
    [
        ({}, True),
        ({"reldate": "365"}, True),
        ({"mindate": "2000", "maxdate": "2010", "datetype": "pdat"}, True),
        ({"mindate": "2000"}, False),
        ({"maxdate": "2000"}, False),
        ({"datetype": "pdat"}, False),
        ({"mindate": "2000", "maxdate": "2010", "reldate": "365"}, False),
        ({"mindate": "2010", "maxdate": "2000"}, False),
    ],
)
def test_dates_are_a_range_or_a_number_of_days(params: dict[str, str], fits: bool) -> None:
    """Half a range, both or an empty range would only carry something; genes have no dates."""
    if fits:
        check_dates("pubmed", params)
    else:
        with pytest.raises(NotRecognized):
            check_dates("pubmed", params)
    if params:
        with pytest.raises(NotRecognized):
            check_dates("gene", params)


@pytest.mark.parametrize("value", ["7", "05", " 5", "5 ", "5.0", "+5", "five", ""])
def test_a_value_beside_the_list_is_refused_without_repeating_it(value: str) -> None:
    """In the listed spelling only; the refusal has the list."""
    assert recognize_choice("esearch", "retmax", "5").text == "5"
    with pytest.raises(NotRecognized) as caught:
        recognize_choice("esearch", "retmax", value)
    assert "use one of 1, 2, 3, 5, 10" in caught.value.refused.text


def test_links_are_source_and_target_or_listed() -> None:
    """A listed name of other databases does not fit."""
    assert recognize_link("gene", "omim", "gene_omim").text == "gene_omim"
    assert recognize_link("gene", "pubmed", "gene_pubmed_rif").text == "gene_pubmed_rif"
    for name in ("gene_omim_john", "snp_gene", "pubmed_pubmed_refs"):
        with pytest.raises(NotRecognized):
            recognize_link("gene", "omim", name)


@pytest.mark.parametrize("endpoint", CHOICES)
def test_every_list_is_part_of_the_call_table(endpoint: str) -> None:
    """What a model can write is refused here or is in the list: the names are those of the call table."""
    known = {param.name for param in CALLS[endpoint]}  # type: ignore[index]
    assert set(CHOICES[endpoint]) <= known  # type: ignore[index]


def _ways_of_dating() -> int:
    """Return in how many ways a search can have dates, or none."""
    lists = CHOICES["esearch"]
    names = [name for name in lists if name in ("datetype", "reldate", "mindate", "maxdate")]
    return sum(
        _fits({name: value for name, value in zip(names, values, strict=True) if value})
        for values in product(*(("", *lists[name]) for name in names))
    )


def _fits(params: dict[str, str]) -> bool:
    try:
        check_dates("pubmed", params)
    except NotRecognized:
        return False
    return True


def test_the_lists_together_carry_few_bits() -> None:
    """If someone chose a value of each list, or none, for what they encode."""
    dates = {"datetype", "reldate", "mindate", "maxdate"}
    bits = {
        endpoint: sum(math.log2(len(values) + 1) for name, values in lists.items() if name not in dates)
        for endpoint, lists in CHOICES.items()
        if endpoint != "blast_put"
    }
    bits["esearch"] += math.log2(_ways_of_dating())

    assert 12 < max(bits.values()) < MAX_BITS
    assert f"at most {MAX_BITS} bits" in " ".join(
        (Path(__file__).parents[5] / "docs" / "egress.md").read_text(encoding="utf-8").split()
    )
