"""Messages are read off the event loop; what is not available is logged once and never an error."""

from __future__ import annotations

import logging
import threading

import pytest

from models.encoders.base import Encoder
from models.encoders.hashing import HashingEncoder
from models.encoders.message_head import MAX_CHARS, MessageHead, MessageReading
from models.errors import ModelNotFound
from server.evidence.messages import MessageKinds, message_kinds
from server.settings.retrieval import RetrievalSettings


class Reads(MessageHead):
    """Note the thread in which a message is read, and its length; fail where it is empty."""

    seen: list[tuple[str, int]] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.seen.clear()

    def read(self, message: str, vector: object) -> MessageReading:
        if not message:
            raise RuntimeError("no words")
        self.seen.append((threading.current_thread().name, len(message)))
        return MessageReading("own", "en", 0.9, True)


async def test_a_message_is_read_in_another_thread_and_cut() -> None:
    """A long message costs no more than one of the bound."""
    kinds = MessageKinds(HashingEncoder, Reads)
    reading = await kinds.read("help " * 1000)
    assert reading is not None
    assert reading.is_emergency
    ((thread, length),) = Reads.seen
    assert thread != threading.main_thread().name
    assert length == MAX_CHARS
    await kinds.close()


async def test_an_encoder_that_cannot_be_loaded_is_tried_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Then there is no reading."""
    tries = []

    def load() -> Encoder:
        tries.append(1)
        raise ModelNotFound("no weights")

    kinds = MessageKinds(load, Reads)
    with caplog.at_level(logging.WARNING):
        assert await kinds.read("help") is None
        assert await kinds.read("help") is None
    assert len(tries) == 1
    assert [record.message for record in caplog.records] == [
        "emergencies are not noted before answers: ModelNotFound: no weights"
    ]
    await kinds.close()


async def test_a_reading_that_fails_is_none_and_the_next_is_tried() -> None:
    """Libraries raise errors of their own."""
    kinds = MessageKinds(HashingEncoder, Reads)
    assert await kinds.read("") is None
    assert await kinds.read("help") is not None
    await kinds.close()


async def test_settings_without_weights_load_none() -> None:
    """Where only the hashing encoder is named."""
    kinds = message_kinds(RetrievalSettings(encoders=("hashing",)))
    assert await kinds.read("I can't breathe") is None
    await kinds.close()


@pytest.mark.weights
async def test_the_head_that_ships_reads_with_the_encoder_that_ships() -> None:
    """An emergency, a professional question and a greeting, each as what it is."""
    kinds = message_kinds(RetrievalSettings())
    await kinds.warm_up(None)
    urgent = await kinds.read("help, my wife collapsed and she is not breathing")
    asked = await kinds.read("What is the first-line treatment of anaphylaxis in children?")
    greeting = await kinds.read("hello there")
    assert urgent is not None
    assert asked is not None
    assert greeting is not None
    assert (urgent.is_emergency, asked.is_emergency, greeting.is_emergency) == (True, False, False)
    assert greeting.is_greeting
    assert not asked.is_greeting
    await kinds.close()


@pytest.mark.weights
async def test_what_a_question_asks_of_a_graph_is_read_with_the_same_encoder() -> None:
    kinds = message_kinds(RetrievalSettings())
    await kinds.warm_up(None)
    asked = await kinds.asked("What can be prescribed for Disease?")
    assert asked is not None
    assert asked.name == "treats"
    await kinds.close()
