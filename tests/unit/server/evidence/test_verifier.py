"""The verifier as a service: loaded once off the event loop, batched for all callers, bounded, clear when it fails."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from lexical_verifier import LexicalVerifier
from prometheus_client import CollectorRegistry

from models.errors import ModelNotFound
from models.verifiers.base import Judgement, Pair, Verifier
from server.errors import SERVER_FULL, SERVER_STOPPING, VERIFIER_UNAVAILABLE, RequestError
from server.evidence.verifier import VerifierLimits, VerifierService, verifier_service
from server.observability.metrics import Metrics
from server.settings.schema import Settings
from server.settings.verifier import VerifierSettings

POISON = "poison"


class Watched(LexicalVerifier):
    """Note the batches and their threads; wait for ``may_go``, and fail on one text."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.threads: set[str] = set()
        self.may_go = threading.Event()
        self.may_go.set()
        self.begun = threading.Event()

    def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        self.batches.append(len(pairs))
        self.threads.add(threading.current_thread().name)
        self.begun.set()
        assert self.may_go.wait(30)
        if any(pair.evidence == POISON for pair in pairs):
            raise RuntimeError("the text poison broke it")
        return super().judge(pairs)


def pairs(number: int, word: str = "gene") -> list[Pair]:
    return [Pair(f"{word} {place}", f"{word} {place}") for place in range(number)]


async def until_begun(watched: Watched) -> None:
    assert await asyncio.to_thread(watched.begun.wait, 30)


async def test_two_callers_at_once_share_a_batch_and_get_their_own() -> None:
    """What waits while one batch is judged goes together in the next, and everything on the verifier's own thread."""
    watched = Watched()
    watched.may_go.clear()
    loads: list[int] = []

    def load() -> Verifier:
        loads.append(1)
        return watched

    service = VerifierService("lexical", load)
    first = asyncio.create_task(service.judge(pairs(2)))
    await until_begun(watched)
    others = [asyncio.create_task(service.judge(pairs(3, word))) for word in ("protein", "drug")]
    await asyncio.sleep(0)
    watched.may_go.set()

    assert await first == LexicalVerifier().judge(pairs(2))
    assert [await one for one in others] == [LexicalVerifier().judge(pairs(3, word)) for word in ("protein", "drug")]
    assert (watched.batches, len(loads)) == ([2, 6], 1)
    assert all(name.startswith("verifier") for name in watched.threads)
    assert service.points == LexicalVerifier.points
    await service.close()


async def test_a_long_list_lets_others_between_its_parts() -> None:
    """Whoever has few pairs does not wait for all of a caller with many."""
    watched = Watched()
    watched.may_go.clear()
    service = VerifierService("lexical", lambda: watched, limits=VerifierLimits(batch=4))
    ended: list[str] = []

    async def ask(name: str, number: int) -> None:
        assert len(await service.judge(pairs(number))) == number
        ended.append(name)

    many = asyncio.create_task(ask("many", 17))
    await until_begun(watched)
    few = asyncio.create_task(ask("few", 3))
    await asyncio.sleep(0)
    watched.may_go.set()
    await asyncio.gather(many, few)

    assert ended == ["few", "many"]
    assert max(watched.batches) <= 4
    await service.close()


async def test_one_callers_text_fails_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """The batch is judged again, each caller's part on its own; no text stands in the error or the log."""
    watched = Watched()
    watched.may_go.clear()
    service = VerifierService("lexical", lambda: watched)
    first = asyncio.create_task(service.judge(pairs(1)))
    await until_begun(watched)
    good, bad = (asyncio.create_task(service.judge(own)) for own in (pairs(2), [Pair("x", POISON)]))
    await asyncio.sleep(0)
    watched.may_go.set()

    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(RequestError, match="lexical failed: RuntimeError", check=VERIFIER_UNAVAILABLE.is_of),
    ):
        await bad
    assert len(await good) == 2
    assert len(await first) == 1
    assert POISON not in caplog.text
    assert len(await service.judge(pairs(1))) == 1
    await service.close()


async def test_a_model_that_cannot_be_loaded_is_told_and_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    """Not at each request, as a try can take long; the warm-up fails nobody."""
    tries: list[int] = []

    def load() -> Verifier:
        tries.append(1)
        if len(tries) < 3:
            raise ModelNotFound("no weights in /somewhere")
        return LexicalVerifier()

    service = VerifierService("nli", load, limits=VerifierLimits(retry_s=0.05))
    with caplog.at_level(logging.WARNING):
        await service.warm_up()
        for _ in range(2):
            with pytest.raises(RequestError, match=r"nli cannot be loaded$", check=VERIFIER_UNAVAILABLE.is_of):
                await service.judge(pairs(1))
    assert len(tries) == 1
    assert (
        caplog.text.count("the verifier cannot be loaded: name=nli cause=ModelNotFound: no weights in /somewhere") == 1
    )
    with pytest.raises(RequestError, match="not loaded", check=VERIFIER_UNAVAILABLE.is_of):
        _ = service.points

    await asyncio.sleep(0.06)
    with pytest.raises(RequestError, check=VERIFIER_UNAVAILABLE.is_of):
        await service.judge(pairs(1))
    await asyncio.sleep(0.06)
    assert len(await service.judge(pairs(1))) == 1
    await service.close()


async def test_the_queue_and_the_wait_are_bounded() -> None:
    """A third caller is refused at once; one who waits too long is told so, and its pairs are not judged any more."""
    watched = Watched()
    watched.may_go.clear()
    service = VerifierService("lexical", lambda: watched, limits=VerifierLimits(waiting=1, part_s=0.2))
    running = asyncio.create_task(service.judge(pairs(1)))
    await until_begun(watched)
    waiting = asyncio.create_task(service.judge(pairs(1)))
    await asyncio.sleep(0)
    with pytest.raises(RequestError, match="too much", check=SERVER_FULL.is_of):
        await service.judge(pairs(1))
    for one in (running, waiting):
        with pytest.raises(RequestError, match=r"within 0\.2 s", check=VERIFIER_UNAVAILABLE.is_of):
            await one

    watched.may_go.set()
    assert len(await service.judge(pairs(1))) == 1
    assert watched.batches == [1, 1]
    await service.close()


async def test_who_waits_while_others_are_judged_is_told_of_no_room() -> None:
    """429, which may be tried again; the one whose own text is judged for too long is told that the model failed."""

    class Stepped(LexicalVerifier):
        def __init__(self) -> None:
            self.steps = threading.Semaphore(0)

        def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
            assert self.steps.acquire(timeout=30)
            return super().judge(pairs)

    stepped = Stepped()
    service = VerifierService("stepped", lambda: stepped, limits=VerifierLimits(batch=1, part_s=3.0))
    first, second, third = (asyncio.create_task(service.judge(pairs(1, word))) for word in ("a", "b", "c"))
    await asyncio.sleep(0)
    stepped.steps.release()
    told = await asyncio.gather(first, second, third, return_exceptions=True)
    stepped.steps.release(2)
    await service.close()

    assert [getattr(one, "fault", None) for one in told] == [None, VERIFIER_UNAVAILABLE, SERVER_FULL]


async def test_closing_ends_all_who_wait() -> None:
    watched = Watched()
    watched.may_go.clear()
    service = VerifierService("lexical", lambda: watched)
    running = asyncio.create_task(service.judge(pairs(1)))
    await until_begun(watched)
    waiting = asyncio.create_task(service.judge(pairs(1)))
    await asyncio.sleep(0)
    await service.close()
    watched.may_go.set()
    for one in (running, waiting):
        with pytest.raises(RequestError, check=SERVER_STOPPING.is_of):
            await one


async def test_pairs_are_counted_and_timed() -> None:
    """Beside those of a cross-encoder."""
    metrics = Metrics()
    service = VerifierService("lexical", LexicalVerifier, metrics)
    await service.judge(pairs(5))
    assert isinstance(metrics.registry, CollectorRegistry)
    assert metrics.registry.get_sample_value("arrowhead_encoder_texts_total", {"kind": "pair"}) == 5
    await service.close()


async def test_the_settings_name_the_model(tmp_path: Path) -> None:
    """By the last part of its path or id; what is no model is told when it is first asked."""
    service = verifier_service(Settings(verifier=VerifierSettings(model=str(tmp_path / "my-nli"))))
    assert service.name == "my-nli"
    with pytest.raises(RequestError, match="my-nli cannot be loaded", check=VERIFIER_UNAVAILABLE.is_of):
        await service.judge(pairs(1))
    assert verifier_service(Settings(verifier=VerifierSettings())).name == "arrowhead-verifier"
    await service.close()


async def test_a_hub_id_is_not_fetched_unless_that_is_allowed(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the remedy."""
    service = verifier_service(Settings(verifier=VerifierSettings(model="nobody/has-this")))
    with caplog.at_level(logging.WARNING), pytest.raises(RequestError, check=VERIFIER_UNAVAILABLE.is_of):
        await service.judge(pairs(1))
    assert "nobody/has-this (main) is not on this machine" in caplog.text
    assert "allow the download" in caplog.text
    await service.close()


@pytest.mark.parametrize("field", [{"bar": 0.5}])
def test_a_setting_of_a_named_model_needs_its_name(field: dict[str, object]) -> None:
    """The model that ships has its own."""
    with pytest.raises(ValueError, match=r"is of verifier\.model"):
        VerifierSettings.model_validate(field)
