"""The filter of passages."""

from __future__ import annotations

import pytest

from retrieval.corpus.store.base import PassageFilter
from retrieval.errors import NamespaceInvalid


@pytest.mark.parametrize("fields", [{"date_from": 2020}, {"date_from": 20200101, "date_to": 20190101}])
def test_dates_that_cannot_be_are_refused(fields: dict[str, int]) -> None:
    """A year alone would silently filter everything away."""
    with pytest.raises(NamespaceInvalid):
        PassageFilter(**fields)  # type: ignore[arg-type]
