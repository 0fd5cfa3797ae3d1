"""Let namespaces follow folders of this server: look at them again and again, and read what changed as jobs.

A folder is looked at rather than watched, as file systems of a network tell nobody of changes. No log has file names.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from models.errors import ArrowheadError
from retrieval.corpus.ingest.folder import (
    FolderReader,
    Listing,
    Plan,
    known_files,
    listing_of,
    plan_of,
    read_files,
    unread_of,
)
from retrieval.corpus.items import ReadOptions
from retrieval.corpus.namespaces.registry import TITLE, Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.store.base import log_name
from retrieval.errors import NAMESPACE_EXISTS, CorpusError
from server.jobs.corpus_changes import watch_of
from server.jobs.queue import Job, JobQueue, JobSpec, Outcome

log = logging.getLogger(__name__)
KIND: Final = "follow"
EVERY_S: Final = 15.0
# A new file is read when a second look finds it alike; one that pauses for longer while it is written is read again.
SETTLED_S: Final = 2.0
_LONGEST_S: Final = 600.0
# Listing a folder takes at most this share (1/n) of the time.
_SHARE: Final = 20
# Other changes of the namespace take their turn between two jobs.
_FILES_A_JOB: Final = 50
_WAIT_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class FollowedFolder:
    """Describe a folder that a namespace follows: its files, those that wait to be read, when it was last looked at.

    ``problem``: why it is not followed to the letter, "" for nothing. ``checked``: Unix time, 0 for never.
    """

    folder: str
    files: int = 0
    waiting: int = 0
    checked: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Followed:
    """Hold what the follower works with: the namespaces, their jobs, and the encoder of a namespace that it makes.

    ``options``: how files are read.
    """

    namespaces: Namespaces
    jobs: JobQueue
    encoder: str
    max_bytes: int
    options: ReadOptions = field(default_factory=ReadOptions)


class FolderFollower:
    """Keep namespaces as their folders are; ``folders`` has the folder of each by its name.

    A folder is looked at every ``every_s`` seconds, and ``settled_s`` after a look that found new files.
    """

    def __init__(
        self, folders: Mapping[str, Path], followed: Followed, every_s: float = EVERY_S, settled_s: float = SETTLED_S
    ) -> None:
        self._folders = {name: path.expanduser().resolve() for name, path in folders.items()}
        self._with = followed
        self._every_s = every_s
        self._settled_s = min(settled_s, every_s)
        self._states = {name: FollowedFolder(str(path)) for name, path in self._folders.items()}
        self._tasks: list[asyncio.Task[None]] = []

    def state(self, name: str) -> FollowedFolder | None:
        """Return what a namespace follows, None for nothing."""
        return self._states.get(name)

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._follow(name), name=KIND) for name in self._folders]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, name: str) -> None:
        """Look at one folder for ever; after a fault less and less often."""
        before, pause = Listing({}), self._every_s
        while True:
            try:
                before, pause = await self._look(name, before)
            except ArrowheadError as error:
                pause = self._failed(name, error.message, type(error).__name__, pause)
            except Exception as error:
                log.exception("a followed folder cannot be looked at: namespace=%s", log_name(name))
                pause = self._failed(
                    name, "a fault of the server; its log has the details", type(error).__name__, pause
                )
            await asyncio.sleep(pause)

    def _failed(self, name: str, message: str, cause: str, pause: float) -> float:
        """Show a fault, and return how long to wait."""
        self._show(name, problem=message)
        log.warning("a followed folder is not read: namespace=%s cause=%s", log_name(name), cause)
        return min(_LONGEST_S, max(self._every_s, 2 * pause))

    async def _look(self, name: str, before: Listing) -> tuple[Listing, float]:
        """Look at a folder, and read what changed.

        Return the listing that the next one is compared with, which is old enough to tell a file that is still being
        written, and after how many seconds the next look is due, 0 where more is to be read at once.

        Raises:
            ArrowheadError: it could not be read.
        """
        began = time.monotonic()
        now = await asyncio.to_thread(listing_of, self._folders[name])
        least = _SHARE * (time.monotonic() - began)
        known = await asyncio.to_thread(self._known, name)
        problem = now.problem
        if known and not now.files and not problem:
            problem = "the folder is empty: the documents stay until a file is in it, in case its disk is not mounted"
            now = replace(now, problem=problem)
        ocr = self._with.options.ocr
        plan, unread = plan_of(known, now, before, ocr), len(unread_of(known, now, ocr))
        if problem and problem != self._states[name].problem:
            log.warning("a followed folder has a problem: namespace=%s", log_name(name))
        self._show(name, files=len(now.files), waiting=unread, checked=int(time.time()), problem=problem)
        pause = max(least, self._settled_s if unread > len(plan.changed) else self._every_s)
        if not (plan.removed or plan.changed):
            return now, pause
        part = replace(plan, changed=plan.changed[:_FILES_A_JOB])
        await self._done(name, partial(self._perform, name, part, now))
        self._show(name, waiting=max(0, unread - len(part.changed)))
        return (before, 0.0) if len(part.changed) < len(plan.changed) else (now, pause)

    def _known(self, name: str) -> Mapping[str, Any]:
        """Return what is known of the files; makes the namespace where it is not there."""
        namespaces = self._with.namespaces
        if not namespaces.stores.exists(name):
            today = datetime.now(UTC).date().isoformat()
            title = {TITLE: self._folders[name].name}
            try:
                namespaces.create(name, NamespaceSettings(encoder=self._with.encoder), today, title)
            except CorpusError as error:
                if not NAMESPACE_EXISTS.is_of(error):
                    raise
        return known_files(namespaces, name)

    async def _done(self, name: str, work: partial[Outcome]) -> None:
        """Do work as a job, and wait for its end.

        Raises:
            ArrowheadError: it failed, or may not run now.
        """
        jobs = self._with.jobs
        job = await jobs.submit(JobSpec(KIND, name, ""), work)
        while not job.has_ended:
            job = await jobs.wait(job, _WAIT_S)
        if job.error is not None:
            raise CorpusError(str(job.error.body["error"]["message"]))

    def _perform(self, name: str, plan: Plan, listing: Listing, job: Job) -> Outcome:
        """Do a plan, on the thread of a job."""
        reader = FolderReader(self._with.namespaces, name, self._folders[name], watch_of(job))
        if plan.removed:
            reader.remove(plan.removed)
        files = {file: listing.files[file] for file in plan.changed}
        read_files(reader, files, self._with.options, self._with.max_bytes)
        return Outcome({"files": len(files), "added": 0, **reader.counts}, job.is_cancelled())

    def _show(self, name: str, **fields: Any) -> None:
        self._states[name] = replace(self._states[name], **fields)


def follows_object(state: FollowedFolder, *, with_path: bool) -> dict[str, Any]:
    """Return what a reply tells of a followed folder; its whole path only ``with_path``."""
    folder = state.folder if with_path else Path(state.folder).name
    return asdict(state) | {"folder": folder, "problem": state.problem or None, "checked": state.checked or None}
