"""Convert questions and replies to and from one JSON line each, and read JSON Lines. Pure but for reading files."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scripts.evals.harness.errors import DatasetInvalid, RunFileInvalid

Row = dict[str, Any]
Message = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """``id`` is unique in its dataset. ``group``: the row of the result's table that it counts in. ``text``: as the
    dataset has it; ``messages``: as it is sent. ``options``: its choices by letter. ``key``: the right answer, JSON.
    ``arrowhead``: method options of this question alone, over those of the run. ``meta``: what its scorer needs
    besides.
    """

    id: str
    group: str
    text: str
    key: Any
    messages: tuple[Message, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    arrowhead: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """``text``: the content. ``reasoning``: thoughts and steps. ``arrowhead``: the field of that name of our server's
    message. ``trace``: its whole trace. ``seconds``: from the first attempt to the end. ``error`` None: it is a reply;
    else {"kind", "message", "status", "code"}.
    """

    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    reply_id: str | None = None
    arrowhead: Mapping[str, Any] | None = None
    annotations: tuple[Mapping[str, Any], ...] = ()
    usage: Mapping[str, Any] | None = None
    trace: Any = None
    seconds: float = 0.0
    attempts: int = 1
    error: Mapping[str, Any] | None = None

    @property
    def marked_answer(self) -> str | None:
        """The bare answer, where the server marks one."""
        marked = (self.arrowhead or {}).get("answer")
        return None if marked is None else str(marked)


@dataclass(frozen=True, slots=True)
class Record:
    question: Question
    reply: Reply

    @property
    def failed(self) -> bool:
        return self.reply.error is not None

    def line(self) -> str:
        """Without a line break."""
        return json.dumps({"question": asdict(self.question), "reply": asdict(self.reply)}, ensure_ascii=False)


def record_of(row: Mapping[str, Any]) -> Record:
    """Raises RunFileInvalid for a row without the fields of a record."""
    try:
        question, reply = row["question"], row["reply"]
        return Record(
            Question(**question | {"messages": tuple(question["messages"])}),
            Reply(**reply | {"annotations": tuple(reply["annotations"])}),
        )
    except (KeyError, TypeError) as error:
        raise RunFileInvalid(f"no record: {error!r}") from error


def digest_of(questions: Iterable[Question]) -> str:
    """Of what is asked and its key, whatever the file's format and order. How it is put is not part of it."""
    rows = sorted(
        json.dumps([q.id, q.group, q.text, q.key, dict(q.options)], ensure_ascii=False, sort_keys=True)
        for q in questions
    )
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def rows_of(path: Path) -> Iterator[Row]:
    """The lines of a JSON Lines file, also of a gzipped one. Raises DatasetInvalid."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for line in file:
                if line.strip():
                    yield json.loads(line)
    except (OSError, ValueError, EOFError) as error:
        raise DatasetInvalid(f"{path}: {error}") from error
