"""Define how stores reach a PostgreSQL database that several servers share; ``server.state`` implements it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Row = tuple[Any, ...]


class Connection(Protocol):
    """Run statements with ``%s`` for parameters; outside ``transaction`` each one is its own transaction.

    One thread at a time uses it. Texts have U+FFFD for NUL, which PostgreSQL cannot store.

    Every method raises DatabaseUnavailable where the database does not answer or refuses.
    """

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Run a statement and return its rows."""

    def run(self, sql: str, parameters: Sequence[object] = ()) -> int:
        """Run a statement and return how many rows it changed."""

    def transaction(self) -> AbstractContextManager[None]:
        """Run the block as one transaction, which an error rolls back; inside another one, as a part of it."""

    def lock(self, number: int, wait_s: float) -> bool:
        """Take an advisory lock until the connection is closed or lost; return False where another one has it."""

    def close(self) -> None: ...


class SharedDatabase(Protocol):
    """Give connections to one database; thread-safe, and blocking."""

    def connection(self) -> AbstractContextManager[Connection]:
        """Lend a connection of the pool for short statements.

        Raises:
            DatabaseUnavailable: the database does not answer, or every connection is lent for too long.
        """

    def session(self) -> Connection:
        """Open a connection of its own, for long statements and transactions; the caller closes it.

        Raises:
            DatabaseUnavailable: the database does not answer, or refuses.
        """

    def close(self) -> None: ...
