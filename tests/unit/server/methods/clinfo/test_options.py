"""Options are checked by name, with the value that is wrong and what it must be."""

from __future__ import annotations

from typing import Any

import pytest

from server.methods.base import OptionInvalid
from server.methods.clinfo.options import ClinfoOptions, parse_options


def test_lists_may_be_single_words_and_are_each_once() -> None:
    options = parse_options(
        {"publication_types": "Review", "sources": ["gateway", "gateway"], "exclude_pmids": ["7", 8]}
    )
    assert (options.publication_types, options.sources, options.exclude_pmids) == (
        ("Review",),
        ("gateway",),
        ("7", "8"),
    )
    assert parse_options({"queries": ["a  b", "c"]}).queries == ("a b", "c") and parse_options({}) == ClinfoOptions()


def test_days_are_whole_spans() -> None:
    options = parse_options({"date_from": "2020", "date_to": "2020/3"})
    assert (options.first_day, options.last_day) == (20200000, 20200399)


@pytest.mark.parametrize(
    "options",
    [
        {"nothing": 1},
        {"queries": True},
        {"queries": []},
        {"queries": ["x" * 301]},
        {"queries": ["a\u0007b"]},
        {"date_to": "2020-02-31"},
        {"date_to": 2020},
        {"exclude_pmids": "7"},
        {"exclude_pmids": [1.5]},
        {"max_articles": 1001},
        {"sources": ["web"]},
        {"namespaces": ["../x"]},
        {"max_seconds": 4},
        {"egress": "all"},
        {"expand": "more"},
        {"namespaces": ["a"], "sources": ["gateway"]},
    ],
)
def test_what_is_wrong_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(OptionInvalid) as refused:
        parse_options(options)
    assert refused.value.param == f"arrowhead.{next(iter(options))}"
