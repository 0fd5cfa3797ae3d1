"""Convert a method's events to the typed items of a response and the events that build them. Pure.

Items are in the order in which they began. One message contains the whole shown answer, so that offsets of references
in the answer are their offsets in the message; events during its generation become items after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from models.types import TokenLogprob
from retrieval.corpus.search.ranking import RankedPassage
from server.api.answers.file_search import FileCitations
from server.api.answers.rendering import Decode, chat_logprobs
from server.methods.base import (
    CallMade,
    CallReplied,
    Done,
    Event,
    Evidence,
    Reference,
    Retrieved,
    Step,
    TextDelta,
    ToolCalled,
    ToolsListed,
)
from server.methods.shared.call_lines import call_query, collect
from server.methods.shared.tool_loop import tool_at

Item = dict[str, Any]
Wire = dict[str, Any]
Ending = Literal["completed", "incomplete"]
_FAILED = frozenset({"error", "refused"})


class ResponseItems:
    """Convert the events of one answer, fed in order, to the stream's events.

    ``items`` is ``response.output``, complete after ``end``. ``stem`` is the common part of the items' ids; ``decode``
    is None where no logprobs are requested.
    """

    def __init__(self, stem: str, decode: Decode | None = None) -> None:
        self.items: list[Item] = []
        self._stem = stem
        self._decode = decode
        self._thoughts: Item | None = None
        self._thought_open = False
        self._message: Item | None = None
        self._calls: dict[int, Item] = {}

    def feed(self, event: Event) -> list[Wire]:
        match event:
            case TextDelta(text=text, channel="answer", logprobs=logprobs):
                return self._write(text, logprobs or ())
            case TextDelta(text=text):
                return self._think(text)
            case Step(text=text):
                return [*self._end_thought(), *self._think(text), *self._end_thought()]
            case CallMade():
                return self._call(event)
            case CallReplied():
                return self._reply(event)
            case Retrieved(queries=queries, sources=sources):
                return [*self._search(queries), *self._found(self.items[-1], sources, "completed")]
            case Evidence(references=references):
                return [*self._open_message(), *self._cite(references)]
            case ToolCalled():
                return self._function(event)
            case _:
                return []

    def end(self, ending: Ending) -> list[Wire]:
        """Complete the open items; an answer without text still has a message, unless it calls functions."""
        has_called = any(item["type"] == "function_call" for item in self.items)
        wires = [*self._end_thoughts(), *(() if has_called else self._open_message())]
        for item in [item for item in self.items if item["status"] == "searching"]:
            wires += self._found(item, (), "incomplete")
        return wires + self._end_message(ending)

    def fail(self) -> None:
        """Mark the open items as incomplete after a failure."""
        for item in self.items:
            if item["status"] in ("in_progress", "searching"):
                item["status"] = "incomplete"

    def _add(self, kind: str, prefix: str, body: Item) -> tuple[Item, list[Wire]]:
        item = {"id": f"{prefix}_{self._stem}{len(self.items):02d}", "type": kind, "status": "in_progress"} | body
        self.items.append(item)
        return item, [{"type": "response.output_item.added", "output_index": len(self.items) - 1, "item": _copy(item)}]

    def _at(self, item: Item, kind: str, **more: Any) -> Wire:
        return {"type": f"response.{kind}", "item_id": item["id"], "output_index": self.items.index(item)} | more

    def _done(self, item: Item) -> Wire:
        place = self.items.index(item)
        return {"type": "response.output_item.done", "output_index": place, "item": _copy(item)}

    # Reasoning: one summary part for each step, and for each run of the model's reasoning.

    def _think(self, text: str) -> list[Wire]:
        if not text or (not self._thought_open and not text.strip()):
            return []
        wires: list[Wire] = []
        if self._thoughts is None:
            self._thoughts, wires = self._add("reasoning", "rs", {"summary": []})
        item = self._thoughts
        if not self._thought_open:
            self._thought_open = True
            item["summary"].append({"type": "summary_text", "text": ""})
            wires.append(self._at(item, "reasoning_summary_part.added", **_last_part(item)))
        item["summary"][-1]["text"] += text
        place = len(item["summary"]) - 1
        return [*wires, self._at(item, "reasoning_summary_text.delta", summary_index=place, delta=text)]

    def _end_thought(self) -> list[Wire]:
        if self._thoughts is None or not self._thought_open:
            return []
        self._thought_open = False
        part = _last_part(self._thoughts)
        fields = {"summary_index": part["summary_index"], "text": part["part"]["text"]}
        return [
            self._at(self._thoughts, "reasoning_summary_text.done", **fields),
            self._at(self._thoughts, "reasoning_summary_part.done", **part),
        ]

    def _end_thoughts(self) -> list[Wire]:
        wires, item = self._end_thought(), self._thoughts
        if item is None:
            return wires
        self._thoughts = None
        item["status"] = "completed"
        return [*wires, self._done(item)]

    # Calls and searches.

    def _call(self, event: CallMade) -> list[Wire]:
        wires = self._search((call_query(event.url),))
        self._calls[event.ordinal] = self.items[-1]
        return wires

    def _reply(self, event: CallReplied) -> list[Wire]:
        item = self._calls.pop(event.ordinal, None)
        if item is None:
            return []
        sources = [url for _, url in collect([event.record])]
        item["arrowhead"] = {"url": event.url, "status": event.status, "summary": event.summary}
        return self._found(item, sources, "failed" if event.status in _FAILED else "completed")

    def _function(self, call: ToolCalled) -> list[Wire]:
        wires = self._end_thoughts()
        item, added = self._add("function_call", "fc", {"call_id": call.id, "name": call.name, "arguments": ""})
        item |= {"arguments": call.arguments, "status": "completed"}
        return [*wires, *added, *self._arguments(item), self._done(item)]

    def _arguments(self, item: Item) -> list[Wire]:
        kind, text = f"{item['type']}_arguments", item["arguments"]
        return [self._at(item, f"{kind}.delta", delta=text), self._at(item, f"{kind}.done", arguments=text)]

    def _search(self, queries: Sequence[str]) -> list[Wire]:
        action = {"type": "search", "query": queries[0] if queries else "", "queries": list(queries), "sources": []}
        return self._searching("web_search_call", "ws", {"action": action})

    def _searching(self, kind: str, prefix: str, body: Item) -> list[Wire]:
        wires = self._end_thoughts()
        item, added = self._add(kind, prefix, body)
        item["status"] = "searching"
        return [*wires, *added, *(self._at(item, f"{kind}.{what}") for what in ("in_progress", "searching"))]

    def _found(self, item: Item, sources: Sequence[str], status: str) -> list[Wire]:
        item["status"] = status
        item["action"]["sources"] = [{"type": "url", "url": url} for url in sources]
        completed = [self._at(item, "web_search_call.completed")] if status == "completed" else []
        return [*completed, self._done(item)]

    # The message.

    def _open_message(self) -> list[Wire]:
        if self._message is not None:
            return []
        self._message, wires = self._add("message", "msg", {"role": "assistant", "content": []})
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        self._message["content"].append(part)
        added = self._at(self._message, "content_part.added", content_index=0, part=_copy(part))
        return [*wires, added]

    def _write(self, text: str, logprobs: Sequence[TokenLogprob]) -> list[Wire]:
        if not text and not (self._decode and logprobs):
            return []
        wires = [*self._end_thoughts(), *self._open_message()]
        assert self._message is not None
        part = self._message["content"][0]
        entries = chat_logprobs(logprobs, self._decode)["content"] if self._decode else []
        part["text"] += text
        part["logprobs"] += entries
        delta = self._at(self._message, "output_text.delta", content_index=0, delta=text, logprobs=entries)
        return [*wires, delta]

    def _cite(self, references: Sequence[Reference]) -> list[Wire]:
        return [wire for annotation in map(flat_citation, references) for wire in self._annotate(annotation)]

    def _annotate(self, annotation: dict[str, Any]) -> list[Wire]:
        wires = self._open_message()
        assert self._message is not None
        annotations = self._message["content"][0]["annotations"]
        if annotation in annotations:
            return wires
        where = {"content_index": 0, "annotation_index": len(annotations)}
        annotations.append(annotation)
        added = self._at(self._message, "output_text.annotation.added", **where, annotation=dict(annotation))
        return [*wires, added]

    def _end_message(self, ending: Ending) -> list[Wire]:
        item = self._message
        if item is None:
            return []
        part = item["content"][0]
        item["status"] = ending
        return [
            self._at(item, "output_text.done", content_index=0, text=part["text"], logprobs=list(part["logprobs"])),
            self._at(item, "content_part.done", content_index=0, part=_copy(part)),
            self._done(item),
        ]


class FileItems(ResponseItems):
    """Convert the events of an answer that searches files: its searches are items of ``file_search``.

    ``question`` is the query until a search says what it searched for. ``with_results``: the items have what was found.
    """

    def __init__(
        self, stem: str, citations: FileCitations, question: str, *, with_results: bool, decode: Decode | None = None
    ) -> None:
        super().__init__(stem, decode)
        self._citations = citations
        self._question = question
        self._with_results = with_results
        self._searched: Item | None = None
        self._has_searched = False

    def feed(self, event: Event) -> list[Wire]:
        self._citations.feed(event)
        match event:
            case Retrieved(queries=queries, passages=passages):
                return [*self._begin(queries), *self._end_search(passages)]
            case TextDelta(channel="answer"):
                wires = [] if self._has_searched else self._begin((self._question,))
                return [*wires, *self._end_search(()), *super().feed(event)]
            case Evidence():
                return self._open_message()  # what is cited is known at the end
            case Done():
                return [wire for one in self._citations.annotations() for wire in self._annotate(one)]
            case _:
                return super().feed(event)

    def _begin(self, queries: Sequence[str]) -> list[Wire]:
        self._has_searched = True
        wires = self._searching("file_search_call", "fs", {"queries": list(queries), "results": None})
        self._searched = self.items[-1]
        return wires

    def _end_search(self, passages: Sequence[RankedPassage]) -> list[Wire]:
        item, self._searched = self._searched, None
        if item is None:
            return []
        item["status"] = "completed"
        if self._with_results:
            item["results"] = [chunk.as_result() for chunk in self._citations.scope.chunks(passages)]
        return [self._at(item, "file_search_call.completed"), self._done(item)]


class ToolItems(ResponseItems):
    """Convert the events of an answer that uses the site's MCP servers: lists of their tools, and calls."""

    def feed(self, event: Event) -> list[Wire]:
        return self._list(event) if isinstance(event, ToolsListed) else super().feed(event)

    def _list(self, event: ToolsListed) -> list[Wire]:
        shown = {"server_label": event.server, "tools": list(event.tools), "error": event.fault or None}
        wires = self._end_thoughts()
        item, added = self._add("mcp_list_tools", "mcpl", shown)
        began = self._at(item, "mcp_list_tools.in_progress")
        return [*wires, *added, began, *self._ended(item, has_failed=bool(event.fault))]

    def _call(self, event: CallMade) -> list[Wire]:
        server, tool = tool_at(event.url)
        wires = self._end_thoughts()
        body = {"server_label": server, "name": tool, "arguments": "", "output": None, "error": None}
        item, added = self._add("mcp_call", "mcp", body)
        self._calls[event.ordinal], item["arguments"] = item, event.arguments
        return [*wires, *added, self._at(item, "mcp_call.in_progress"), *self._arguments(item)]

    def _reply(self, event: CallReplied) -> list[Wire]:
        item, text, has_failed = self._calls.pop(event.ordinal), event.record["text"], event.status in _FAILED
        if has_failed:
            item["error"] = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}
        else:
            item["output"] = text
        return self._ended(item, has_failed=has_failed)

    def _ended(self, item: Item, *, has_failed: bool) -> list[Wire]:
        item["status"] = "failed" if has_failed else "completed"
        return [self._at(item, f"{item['type']}.{item['status']}"), self._done(item)]


def flat_citation(reference: Reference) -> dict[str, Any]:
    return {
        "type": "url_citation",
        "url": reference.url,
        "title": reference.title,
        "start_index": reference.start,
        "end_index": reference.end,
    }


def _last_part(item: Item) -> dict[str, Any]:
    return {"summary_index": len(item["summary"]) - 1, "part": dict(item["summary"][-1])}


def _copy(value: Any) -> Any:
    """Return a deep copy, so that events already sent do not change with the item."""
    if isinstance(value, Mapping):
        return {name: _copy(inner) for name, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value
