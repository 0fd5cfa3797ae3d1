"""Know which replicas answer, and choose one for each answer.

Rendezvous hashing: an answer's requests go to the replica that scores highest for it, so its resumes find their prefix
cached; when a replica goes, only its own answers move.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

from models.engines.base import RemoteOptions
from models.engines.remote_engine.connection import Connection
from models.engines.remote_engine.wire import AddressNotPrivate, Dialect, ReplicaLost
from models.errors import EngineUnavailable

log = logging.getLogger(__name__)

# A router's own route is asked first: its /health is 503 while one of its replicas is down. vLLM has /health alone.
_HEALTH_PATHS: Final = ("/readiness", "/health")
_FAILURES: Final = 2
Check = Callable[[Connection], Awaitable[Dialect]]


class Replica:
    """Hold one replica's state. ``dialect`` is None until it has been found to serve the same model.

    ``watchers`` are called when it stops answering. ``is_router``: it has a router's route for readiness. ``cause``
    says why it was not reached at the last check.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.is_up = False
        self.dialect: Dialect | None = None
        self.watchers: set[Callable[[], None]] = set()
        self.suspected = asyncio.Event()
        self.refusal = ""
        self.cause = ""
        self._failures = 0
        self.is_router = False
        self._health = _HEALTH_PATHS[0]

    @property
    def url(self) -> str:
        return self.connection.url

    async def is_healthy(self, timeout_s: float) -> bool:
        """Ask for the replica's health; true until it has failed twice in a row, once where nothing listens.

        Raises:
            EngineUnavailable: its address is not one that may be asked.
        """
        try:
            reply = await self.connection.get(self._health, timeout_s)
            if reply.status == 404 and self._health == _HEALTH_PATHS[0]:
                self._health = _HEALTH_PATHS[1]
                reply = await self.connection.get(self._health, timeout_s)
        except AddressNotPrivate as error:
            raise _refused(error) from error
        except ReplicaLost as lost:
            self._failures += _FAILURES if "ConnectError" in str(lost) else 1
        else:
            self.is_router = self._health == _HEALTH_PATHS[0]
            self._failures = 0 if reply.status < 400 else self._failures + 1
        return self._failures < _FAILURES


class ReplicaPool:
    """Watch the replicas from ``start`` to ``close``; ``check`` tells what one takes."""

    def __init__(self, connections: Sequence[Connection], options: RemoteOptions, check: Check) -> None:
        self.replicas = [Replica(one) for one in connections]
        self._options = options
        self._check = check
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._none_since: float | None = None

    async def start(self) -> None:
        """Wait for the first replica that serves the model, and check the others that answer now.

        Raises:
            EngineUnavailable: one serves something else, or none answers in time.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._options.start_s
        while True:
            found = await asyncio.gather(*(self._admit(one) for one in self.replicas), return_exceptions=True)
            for one in found:
                if isinstance(one, BaseException):
                    raise one
            if any(one.is_up for one in self.replicas):
                break
            if loop.time() > until:
                urls, causes = (
                    ", ".join(one.url for one in self.replicas),
                    "; ".join(one.cause for one in self.replicas),
                )
                raise EngineUnavailable(
                    f"model.urls: none of {urls} answers after {self._options.start_s:g} s: {causes}"
                )
            await asyncio.sleep(self._options.probe_every_s)
        for replica in self.replicas:
            if not replica.is_up:
                log.warning("replica not reached: url=%s cause=%s", replica.url, replica.cause)
            self._tasks.append(asyncio.create_task(self._watch(replica), name="replica-watch"))

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for replica in self.replicas:
            replica.is_up = False
            for interrupt in tuple(replica.watchers):
                interrupt()
            with suppress(Exception):
                await replica.connection.close()
        async with self._changed:
            self._changed.notify_all()

    @property
    def seconds_without(self) -> float:
        """Return for how long no replica has answered, 0 where one does."""
        if any(one.is_up for one in self.replicas):
            return 0.0
        since = self._none_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    async def choose(self, session: str, avoid: Collection[str] = ()) -> Replica:
        """Return the replica for a session, one not in ``avoid`` where another is up.

        Raises:
            EngineUnavailable: none came up while the request waited.
        """
        if self._tasks and not any(one.is_up for one in self.replicas):
            try:
                async with asyncio.timeout(self._options.wait_s), self._changed:
                    await self._changed.wait_for(lambda: not self._tasks or any(one.is_up for one in self.replicas))
            except TimeoutError:
                raise EngineUnavailable(f"no replica answered in {self._options.wait_s:g} s") from None
        up = [one for one in self.replicas if one.is_up]
        if not up:
            raise EngineUnavailable("the engine was stopped")
        return ranked(session, [one for one in up if one.url not in avoid] or up)[0]

    def suspect(self, replica: Replica) -> None:
        """Take a replica that failed a request out until it has been found healthy again."""
        if replica.is_up:
            self._set_down(replica)
        replica.suspected.set()

    async def _watch(self, replica: Replica) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._options.probe_every_s):
                    await replica.suspected.wait()
            was_suspected = replica.suspected.is_set()
            replica.suspected.clear()
            try:
                if not await replica.is_healthy(self._options.probe_timeout_s):
                    self._lose(replica)
                elif not replica.is_up and replica.is_router and replica.dialect is not None:
                    # A check would reach one of its replicas, perhaps the dead one; the router knows which are well.
                    await self._take_in(replica, replica.dialect)
                elif not replica.is_up:
                    await self._admit(replica)
            except EngineUnavailable as error:
                self._lose(replica)
                if error.message != replica.refusal:
                    log.error("replica refused: %s", error.message)
                replica.refusal = error.message
            except Exception as error:  # a reply of another form must not end the watch
                log.warning("replica not checked: url=%s cause=%s", replica.url, type(error).__name__)
            if was_suspected and not replica.is_up:
                # A replica that fails each request but reports health must not be probed without a pause.
                await asyncio.sleep(self._options.probe_every_s / 4)

    async def _admit(self, replica: Replica) -> None:
        """Check a replica and take it in; one that does not answer stays out.

        Raises:
            EngineUnavailable: it serves something else, or its address is not one that may be asked.
        """
        try:
            dialect = await self._check(replica.connection)
        except AddressNotPrivate as error:
            raise _refused(error) from error
        except ReplicaLost as lost:
            replica.cause = str(lost)
            log.debug("replica not admitted: url=%s cause=%s", replica.url, lost)
            return
        await self._take_in(replica, dialect)

    async def _take_in(self, replica: Replica, dialect: Dialect) -> None:
        replica.dialect, replica.is_up, replica.refusal, self._none_since = dialect, True, "", None
        log.info("replica up: url=%s", replica.url)
        async with self._changed:
            self._changed.notify_all()

    def _lose(self, replica: Replica) -> None:
        """Interrupt what runs on a replica that does not answer."""
        if replica.is_up:
            self._set_down(replica)
        for interrupt in tuple(replica.watchers):
            interrupt()

    def _set_down(self, replica: Replica) -> None:
        replica.is_up = False
        log.warning("replica down: url=%s", replica.url)
        if not any(one.is_up for one in self.replicas):
            self._none_since = asyncio.get_running_loop().time()


def _refused(error: AddressNotPrivate) -> EngineUnavailable:
    return EngineUnavailable(str(error))


def ranked(session: str, replicas: Sequence[Replica]) -> list[Replica]:
    """Return the replicas in the order in which a session prefers them, the same in every server."""

    def score(replica: Replica) -> bytes:
        return hashlib.blake2b(f"{session}\n{replica.url}".encode(), digest_size=8).digest()

    return sorted(replicas, key=score, reverse=True)
