"""Support what Open WebUI sends and reads beside OpenAI's fields.

Pure except ``answering``. Open WebUI executes a top-level ``event`` in any chunk of a chat. This server sends only two
kinds: ``status``, a line above the answer, and ``source``, a reference with the passage that was read. The client is
recognized by its headers (``X-OpenWebUI-…``), which it sends where ENABLE_FORWARD_USER_INFO_HEADERS is set or the
connection names them.

It also uses the model of a chat for side jobs: a title, tags, follow-up questions, search queries, completions of typed
text. Side jobs are not questions for a method: the plain model answers them, without calls and without retrieval.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from server.grants import Grant
from server.methods.base import CallMade, CallReplied, Done, Event, Evidence, OptionInvalid, Reference, Retrieved, Step
from server.methods.call_lines import call_query
from server.openai_api.rendering import Choice
from server.services import Served, Services

_HEADERS: Final = "x-openwebui-"
_TASK: Final = "x-openwebui-task"
# Versions without this placeholder send it literally: {{TASK}}.
_TASK_NAME: Final = re.compile(r"[a-z][a-z_]{0,63}")
_PROMPT_HEAD: Final = "### Task:"
_PROMPT_PART: Final = "<chat_history>"
BY_PROMPT: Final = "by_prompt"


def side_job(headers: Mapping[str, str], last_message: str) -> str | None:
    """Return the side job's name from the header, None for a question.

    The name is ``by_prompt`` where only the prompt reveals the job.
    """
    named = headers.get(_TASK, "").strip()
    if _TASK_NAME.fullmatch(named):
        return named
    return BY_PROMPT if last_message.lstrip().startswith(_PROMPT_HEAD) and _PROMPT_PART in last_message else None


def answering(services: Services, model: str, job: str | None, grant: Grant) -> Served:
    """Return the requested model, or its base for a side job, which the key must also be allowed to use.

    Raises:
        ModelUnknown: the key has no such model.
    """
    found = services.find(model, grant)
    return found if job is None else services.find(services.slot.card.name, grant)


class Shown:
    """Render the events of one answer for Open WebUI; the last status marks the end of the steps."""

    def __init__(self) -> None:
        self._calls = 0
        self._told = False

    def of(self, event: Event, choice: Choice) -> list[dict[str, Any]]:
        match event:
            case Step(text=text):
                return [self._status(text)]
            case CallMade(url=url):
                self._calls += 1
                return [self._status(call_query(url))]
            case CallReplied(url=url, summary=summary):
                return [self._status(f"{call_query(url)} → {summary}")]
            case Retrieved(queries=queries, sources=sources):
                return [self._status(f"searched for {', '.join(queries)}; sources: {len(sources)}")]
            case Evidence(references=references):
                return [source(reference) for reference in references]
            case Done() if self._told:
                calls = f"{self._calls} call{'' if self._calls == 1 else 's'}; " if self._calls else ""
                return [_status(f"{calls}{choice.left}", done=True)]
            case _:
                return []

    def _status(self, text: str) -> dict[str, Any]:
        self._told = True
        return _status(text, done=False)


def shown_to(headers: Mapping[str, str], options: Mapping[str, Any]) -> tuple[Shown | None, dict[str, Any]]:
    """Return the renderer of Open WebUI's events, None for none, and the remaining options for the method.

    ``arrowhead.events`` decides where the client sets it, else the client's headers.

    Raises:
        OptionInvalid: ``arrowhead.events`` is not a boolean.
    """
    left = dict(options)
    wanted = left.pop("events", None)
    if wanted is not None and not isinstance(wanted, bool):
        raise OptionInvalid("arrowhead.events: must be true or false", param="arrowhead.events")
    if wanted is None:
        wanted = any(name.lower().startswith(_HEADERS) for name in headers)
    return (Shown() if wanted else None), left


def source(reference: Reference) -> dict[str, Any]:
    """Return a source event; Open WebUI merges sources with the same id and numbers them in order of arrival."""
    place = reference.url or reference.title
    named = {"name": reference.title, "id": place} | ({"url": reference.url} if reference.url else {})
    metadata = {"source": place, "name": reference.title}
    return {
        "type": "source",
        "data": {"source": named, "document": [reference.text or reference.title], "metadata": [metadata]},
    }


def _status(text: str, *, done: bool) -> dict[str, Any]:
    return {"type": "status", "data": {"description": text, "done": done, "hidden": False}}
