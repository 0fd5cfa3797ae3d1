"""An error of the server whose fault is the one that is expected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from server.errors import Fault, RequestError


@contextmanager
def refused_for(fault: Fault, match: str | None = None) -> Iterator[pytest.ExceptionInfo[RequestError]]:
    """As ``pytest.raises``, for the fault in place of a class."""
    with pytest.raises(RequestError, match=match) as caught:
        yield caught
    assert caught.value.fault is fault
