"""Judge what evidence says of questions and claims, with one model for all that the server does.

Methods ask it whether what they found answers, ``POST /v1/verify`` and ``arrowhead verify`` whether the claims of
another system hold.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Final

from models.encoders.base import EncoderOptions
from models.encoders.model_files import locate
from models.errors import ArrowheadError, ModelNotFound
from models.verifiers.base import Judgement, OperatingPoints, Pair, Verifier
from retrieval.observer import NullObserver, RetrievalObserver
from server.errors import SERVER_FULL, SERVER_STOPPING, VERIFIER_UNAVAILABLE, RequestError
from server.settings.schema import Settings

log = logging.getLogger(__name__)
SHIPPED: Final = "arrowhead-verifier"
_SHIPPED_MODULE: Final = "models.verifiers.cross_encoder"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierLimits:
    """Bound the work of the verifier.

    ``batch``: pairs of one pass; a longer list goes in parts, between which those of other callers have their turn.
    ``waiting``: parts that wait. ``part_s``: the longest wait for one part, with the model's loading. ``retry_s``: a
    model that could not be loaded is not tried again before.
    """

    batch: int = 64
    waiting: int = 64
    part_s: float = 60.0
    retry_s: float = 30.0


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    pairs: Sequence[Pair]
    judged: asyncio.Future[list[Judgement]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class VerifierService:
    """Load the verifier at its first use, and judge the pairs of all callers in batches, off the event loop.

    One instance per process, for concurrent tasks of one event loop. ``load`` blocks until the model is in memory.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[], Verifier],
        observer: RetrievalObserver | None = None,
        limits: VerifierLimits | None = None,
    ) -> None:
        self.name = name
        self._load = load
        self._observer = observer or NullObserver()
        self._limits = limits or VerifierLimits()
        self._verifier: Verifier | None = None
        self._retry_at = 0.0
        self._waiting: deque[_Part] = deque()
        self._num_passes = 0
        self._work: asyncio.Task[None] | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="verifier")

    @property
    def points(self) -> OperatingPoints:
        """Return the bars of the model, which ``judge`` and ``warm_up`` load.

        Raises:
            VERIFIER_UNAVAILABLE: it is not loaded.
        """
        if self._verifier is None:
            raise RequestError(f"the verifier {self.name} is not loaded", VERIFIER_UNAVAILABLE)
        return self._verifier.points

    async def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        """Return a judgement for each pair, in order.

        Raises:
            VERIFIER_UNAVAILABLE: the model cannot be loaded, failed or took too long.
            QUEUE_FULL: too much waits.
        """
        found: list[Judgement] = []
        for start in range(0, len(pairs), self._limits.batch):
            found += await self._judge_part(pairs[start : start + self._limits.batch])
        return found

    async def warm_up(self, _: object = None) -> None:
        """Load the model, so that nobody waits for it; a failure is in the log."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._worker, self._loaded)
        except RequestError as error:
            if not VERIFIER_UNAVAILABLE.is_of(error):
                raise

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
        while self._waiting:
            _fail([self._waiting.popleft()], RequestError("the server is stopping", SERVER_STOPPING))
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def _judge_part(self, pairs: Sequence[Pair]) -> list[Judgement]:
        if len(self._waiting) >= self._limits.waiting:
            raise RequestError("the verifier has too much to judge", SERVER_FULL)
        part, passes = _Part(pairs), self._num_passes
        self._waiting.append(part)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._judge_waiting(), name="verifier")
        try:
            async with asyncio.timeout(self._limits.part_s):
                return await part.judged
        except TimeoutError:
            if part in self._waiting and self._num_passes > passes:
                # It works, for others: there is no room, as where too much waits.
                raise RequestError("the verifier has too much to judge", SERVER_FULL) from None
            limit = self._limits.part_s
            raise RequestError(
                f"the verifier {self.name} judged nothing within {limit:g} s", VERIFIER_UNAVAILABLE
            ) from None
        finally:
            if part in self._waiting:
                self._waiting.remove(part)

    async def _judge_waiting(self) -> None:
        while self._waiting:
            parts = self._next_parts()
            try:
                await self._judge_together(parts)
            except asyncio.CancelledError:
                _fail(parts, RequestError("the server is stopping", SERVER_STOPPING))
                raise

    def _next_parts(self) -> list[_Part]:
        """Take the parts of one batch, the longest waiting first."""
        parts = [self._waiting.popleft()]
        size = len(parts[0].pairs)
        while self._waiting and size + len(self._waiting[0].pairs) <= self._limits.batch:
            parts.append(self._waiting.popleft())
            size += len(parts[-1].pairs)
        return parts

    async def _judge_together(self, parts: Sequence[_Part]) -> None:
        """Judge parts in one pass, or each on its own where that fails, as one text may be the cause."""
        pairs = [pair for part in parts for pair in part.pairs]
        try:
            judged = await asyncio.get_running_loop().run_in_executor(self._worker, self._judged, pairs)
        except RequestError as error:
            if len(parts) == 1 or self._verifier is None:
                _fail(parts, error)
                return
            for part in parts:
                await self._judge_together([part])
            return
        self._num_passes += 1
        rest = iter(judged)
        for part in parts:
            own = [next(rest) for _ in part.pairs]
            if not part.judged.done():
                part.judged.set_result(own)

    def _judged(self, pairs: list[Pair]) -> list[Judgement]:
        verifier = self._loaded()
        began = time.monotonic()
        try:
            judged = verifier.judge(pairs)
        # Libraries raise errors of their own; none may end the task that all callers wait for.
        except Exception as error:
            log.warning("the verifier failed: name=%s cause=%s", self.name, _cause(error))
            raise RequestError(
                f"the verifier {self.name} failed: {type(error).__name__}", VERIFIER_UNAVAILABLE
            ) from error
        self._observer.encoded("pair", len(pairs), time.monotonic() - began)
        return judged

    def _loaded(self) -> Verifier:
        if self._verifier is not None:
            return self._verifier
        if time.monotonic() < self._retry_at:
            raise self._not_loaded()
        began = time.monotonic()
        try:
            self._verifier = self._load()
        except Exception as error:
            log.warning("the verifier cannot be loaded: name=%s cause=%s", self.name, _cause(error))
            self._retry_at = time.monotonic() + self._limits.retry_s
            raise self._not_loaded() from error
        log.info("verifier ready: name=%s seconds=%.1f", self.name, time.monotonic() - began)
        return self._verifier

    def _not_loaded(self) -> RequestError:
        """Return the error for clients, which are told of no path; the cause is in the log."""
        return RequestError(f"the verifier {self.name} cannot be loaded", VERIFIER_UNAVAILABLE)


def _fail(parts: Sequence[_Part], error: ArrowheadError) -> None:
    for part in parts:
        if not part.judged.done():
            # One of its own for each: a shared exception would gather the traces of all callers.
            part.judged.set_exception(copy.copy(error))


def _cause(error: Exception) -> str:
    """Return what the log may hold of an error: texts of libraries can hold what was judged."""
    kind = type(error).__name__
    return f"{kind}: {error.message}" if isinstance(error, ArrowheadError) else kind


def load_shipped(device: str = "auto") -> Verifier:
    """Load the verifier that comes with Arrowhead.

    Raises:
        ModelNotFound: this installation has none.
    """
    try:
        module = import_module(_SHIPPED_MODULE)
    except ModuleNotFoundError as error:
        raise ModelNotFound("this installation ships no verifier: name a model with verifier.model") from error
    verifier: Verifier = module.load_verifier(options=EncoderOptions(device=device))
    return verifier


def verifier_service(settings: Settings, observer: RetrievalObserver | None = None) -> VerifierService:
    """Return the service over the model of the settings, or the one that ships; loads nothing."""
    source, device, bar = settings.verifier.model, settings.retrieval.device, settings.verifier.bar
    if source is None:
        return VerifierService(SHIPPED, lambda: load_shipped(device), observer)
    name = Path(source).name

    def load() -> Verifier:
        # Before the import, which brings torch.
        folder = locate(source, revision=None, allow_download=False)
        from models.verifiers.hub_model import DEFAULT_BAR, HubVerifier

        return HubVerifier(folder, name, EncoderOptions(device=device), bar or DEFAULT_BAR)

    return VerifierService(name, load, observer)
