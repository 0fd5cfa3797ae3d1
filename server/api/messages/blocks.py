"""Convert a method's events to the content blocks of a message and the events that build them. Pure.

One text block contains the whole shown answer, with its citations at its end; calls and searches that end while it is
written become blocks behind it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from server.methods.base import CallMade, CallReplied, Event, Evidence, Reference, Retrieved, Step, TextDelta
from server.methods.shared.call_lines import call_query, collect

Block = dict[str, Any]
Wire = dict[str, Any]
_FAILED = frozenset({"error", "refused"})


class MessageBlocks:
    """Convert the events of one answer, fed in order, to the stream's events.

    ``content`` is the message's, complete after ``end``. ``stem`` is the common part of the blocks' ids.
    """

    def __init__(self, stem: str, *, shows_thinking: bool) -> None:
        self.content: list[Block] = []
        self._stem = stem
        self._shows_thinking = shows_thinking
        self._open: Block | None = None
        self._calls: dict[int, str] = {}
        self._cited: list[dict[str, Any]] = []
        self._tools: list[Block] = []
        self._last_id = ""

    def feed(self, event: Event) -> list[Wire]:
        match event:
            case TextDelta(text=text, channel="answer"):
                return self._write("text", text)
            case TextDelta(text=text) if self._shows_thinking:
                return self._write("thinking", text)
            case Step(text=text) if self._shows_thinking:
                return self._write("thinking", f"{text}\n")
            case CallMade(url=url, ordinal=ordinal):
                return self._search(ordinal, (call_query(url),))
            case CallReplied():
                found = collect([event.record])
                return self._found(self._calls.pop(event.ordinal, ""), found, has_failed=event.status in _FAILED)
            case Retrieved(queries=queries, sources=sources):
                asked = self._search(None, queries)
                return [*asked, *self._found(self._last_id, [(url, url) for url in sources])]
            case Evidence(references=references):
                return self._cite(references)
            case _:
                return []

    def end(self) -> list[Wire]:
        """Complete the open block; an answer without text still has a text block, and a call that never ended fails."""
        wires = [] if any(block["type"] == "text" for block in self.content) else self._start(_text_block())
        wires += self._stop()
        for tool in self._tools:
            wires += self._whole(tool)
        self._tools = []
        for identifier in self._calls.values():
            wires += self._whole(_result(identifier, (), has_failed=True))
        return wires

    @property
    def num_searches(self) -> int:
        return sum(block["type"] == "server_tool_use" for block in self.content)

    @property
    def _writes_answer(self) -> bool:
        return self._open is not None and self._open["type"] == "text"

    def _at(self, kind: str, **more: Any) -> Wire:
        return {"type": kind, "index": len(self.content) - 1} | more

    def _start(self, block: Block) -> list[Wire]:
        stopped = self._stop()
        self.content.append(block)
        self._open = block
        return [*stopped, self._at("content_block_start", content_block=dict(block))]

    def _stop(self) -> list[Wire]:
        if self._open is None:
            return []
        self._open = None
        return [self._at("content_block_stop")]

    def _write(self, kind: str, text: str) -> list[Wire]:
        """Write a piece into the block of its kind; thoughts while the answer is written are left out."""
        if not text or (kind == "thinking" and self._writes_answer):
            return []
        wires: list[Wire] = []
        if self._open is None or self._open["type"] != kind:
            wires = self._start(_text_block() if kind == "text" else {"type": kind, "thinking": "", "signature": ""})
        assert self._open is not None
        self._open[kind] += text
        return [*wires, self._at("content_block_delta", delta={"type": f"{kind}_delta", kind: text})]

    def _cite(self, references: Iterable[Reference]) -> list[Wire]:
        wires = [] if self._writes_answer else self._start(_text_block())
        for citation in map(citation_of, references):
            if citation not in self._cited:
                self._cited.append(citation)
                delta = {"type": "citations_delta", "citation": citation}
                wires.append(self._at("content_block_delta", delta=delta))
        if self._open is not None and self._cited:
            self._open["citations"] = self._cited
        return wires

    # Calls and searches.

    def _search(self, ordinal: int | None, queries: Sequence[str]) -> list[Wire]:
        identifier = f"srvtoolu_{self._stem}{len(self.content) + len(self._tools):02d}"
        self._last_id = identifier
        if ordinal is not None:
            self._calls[ordinal] = identifier
        asked = {"query": queries[0] if queries else ""} | ({"queries": list(queries)} if len(queries) > 1 else {})
        return self._tool({"type": "server_tool_use", "id": identifier, "name": "web_search", "input": asked})

    def _found(self, identifier: str, found: Iterable[tuple[str, str]], *, has_failed: bool = False) -> list[Wire]:
        return self._tool(_result(identifier, found, has_failed=has_failed)) if identifier else []

    def _tool(self, block: Block) -> list[Wire]:
        if not self._writes_answer:
            return self._whole(block)
        self._tools.append(block)
        return []

    def _whole(self, block: Block) -> list[Wire]:
        if block["type"] != "server_tool_use":
            return [*self._start(block), *self._stop()]
        started = self._start(block)
        started[-1]["content_block"]["input"] = {}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"], ensure_ascii=False)}
        return [*started, self._at("content_block_delta", delta=delta), *self._stop()]


def citation_of(reference: Reference) -> dict[str, Any]:
    return {
        "type": "web_search_result_location",
        "url": reference.url,
        "title": reference.title,
        "cited_text": reference.text or "",
        "encrypted_index": "",
    }


def _text_block() -> Block:
    return {"type": "text", "text": "", "citations": None}


def _result(identifier: str, found: Iterable[tuple[str, str]], *, has_failed: bool) -> Block:
    hits: Any = [
        {"type": "web_search_result", "title": title, "url": url, "encrypted_content": "", "page_age": None}
        for title, url in found
    ]
    if has_failed:
        hits = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    return {"type": "web_search_tool_result", "tool_use_id": identifier, "content": hits}
