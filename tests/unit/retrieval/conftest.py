"""What tests of the gateway and of its replies share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gateway_records import make_store

from retrieval.gateway.store.reader import GatewayStore


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayStore]:
    """A store of a record or two of each database, which no test changes."""
    opened = make_store(tmp_path_factory.mktemp("gateway"))
    yield opened
    opened.close()
