"""What Open WebUI is told, and how its side jobs are told from questions; without a server."""

from __future__ import annotations

import pytest

from models.decoding.types import LoopUsage
from server.api.answers.rendering import Choice, OpenWebUiRenderer, renderer_for, side_job, source
from server.methods.base import Done, OptionInvalid, Reference, Retrieved, Step, TextDelta

DONE = Done(answer="x", finish_reason="stop", stop_reason=None, usage=LoopUsage())
JOB = "### Task:\nFind a title.\n<chat_history>\nUSER: hello\n</chat_history>"


def test_a_source_carries_the_passage_that_was_read() -> None:
    """A click on the reference shows it."""
    told = source(Reference(1, "Note 7", "https://a.example/7", text="IL-5 is bound."))

    assert told["type"] == "source"
    assert told["data"]["document"] == ["IL-5 is bound."]
    assert told["data"]["metadata"] == [{"source": "https://a.example/7", "name": "Note 7"}]


def test_a_source_without_address_is_known_by_its_title() -> None:
    """A file of one's own has no page; no empty address is sent."""
    assert source(Reference(1, "notes.pdf", ""))["data"]["source"] == {"name": "notes.pdf", "id": "notes.pdf"}


def test_steps_end_with_a_line_that_is_done() -> None:
    """Without it the status would go on for ever; an answer without steps has none."""
    choice, shown = Choice(trace_id="t"), OpenWebUiRenderer()
    told = [event for e in (Step("looking"), Retrieved(("il-5",), ("a", "b")), DONE) for event in shown.of(e, choice)]

    assert [event["data"]["done"] for event in told] == [False, False, True]
    assert told[1]["data"]["description"] == "searched for il-5; sources: 2"
    assert OpenWebUiRenderer().of(TextDelta("x"), choice) + OpenWebUiRenderer().of(DONE, choice) == []


@pytest.mark.parametrize(
    ("headers", "message", "job"),
    [
        ({"x-openwebui-task": "tags_generation"}, "anything", "tags_generation"),
        ({"x-openwebui-task": ""}, "a question", None),
        ({"x-openwebui-task": "{{TASK}}"}, "a question", None),
        ({}, JOB, "by_prompt"),
        ({}, f"\n {JOB}", "by_prompt"),
        ({}, "### Task:\nName the gene.", None),
        ({}, f"Explain this prompt: {JOB}", None),
    ],
)
def test_a_side_job_is_known_by_header_or_prompt(headers: dict[str, str], message: str, job: str | None) -> None:
    """Heading and history together; one of them alone can be a question."""
    assert side_job(headers, message) == job


def test_the_option_is_taken_out() -> None:
    """Methods do not know it; what is neither true nor false is refused."""
    assert renderer_for({}, {"events": False, "max_calls": 2}) == (None, {"max_calls": 2})
    assert renderer_for({"x-openwebui-user-jwt": "e"}, {})[0] is not None
    with pytest.raises(OptionInvalid) as refused:
        renderer_for({}, {"events": "yes"})
    assert refused.value.param == "arrowhead.events"
