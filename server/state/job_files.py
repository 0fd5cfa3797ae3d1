"""Keep the uploaded files of jobs in the database, in parts, so that any of its servers can read them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from retrieval.errors import RetrievalError
from server.errors import TooManyRequests
from server.jobs.uploads import Upload
from server.state.database import Database

_PART: Final = 1 << 20
_HELD: Final = "SELECT coalesce(sum(file_bytes), 0) FROM arrowhead_jobs WHERE state IN ('queued', 'running')"


class JobFiles:
    """Store and fetch files; those of all jobs that have not ended hold at most ``max_bytes``."""

    def __init__(self, database: Database, max_bytes: int) -> None:
        self._database = database
        self._max_bytes = max_bytes

    async def put(self, job_id: str, path: Path) -> int:
        """Store a file and return its length in bytes; each part is a transaction of its own.

        Raises:
            TooManyRequests: the files of waiting jobs leave no room for this one.
            StateUnavailable: the database does not answer.
        """
        size = (await asyncio.to_thread(path.stat)).st_size
        async with self._database.pooled() as connection:
            row = await (await connection.execute(_HELD)).fetchone()
        if row is not None and row[0] + size > self._max_bytes:
            raise TooManyRequests("the files of waiting changes take all the room that there is (state.max_file_bytes)")
        for part in range(-(-size // _PART)):
            data = await asyncio.to_thread(_read, path, part)
            async with self._database.pooled() as connection:
                sql = "INSERT INTO arrowhead_job_files (job, part, data) VALUES (%s, %s, %s)"
                await connection.execute(sql, (job_id, part, data))
        return size

    async def fetch(self, job_id: str, size: int, upload: Upload) -> None:
        """Write the file into ``upload``, and close it.

        Raises:
            RetrievalError: the database no longer has all of it.
            UploadTooLarge, UploadNotWritten: this server does not take it.
            StateUnavailable: the database does not answer.
        """
        for part in range(-(-size // _PART)):
            async with self._database.pooled() as connection:
                sql = "SELECT data FROM arrowhead_job_files WHERE job = %s AND part = %s"
                row = await (await connection.execute(sql, (job_id, part))).fetchone()
            if row is None:
                break
            await asyncio.to_thread(upload.write, row[0])
        await asyncio.to_thread(upload.close)
        if upload.size != size:
            raise RetrievalError("the file of this job is not there any more: send it again")

    async def drop(self, job_id: str) -> None:
        async with self._database.pooled() as connection:
            await connection.execute("DELETE FROM arrowhead_job_files WHERE job = %s", (job_id,))


def _read(path: Path, part: int) -> bytes:
    with path.open("rb") as file:
        file.seek(part * _PART)
        return file.read(_PART)
