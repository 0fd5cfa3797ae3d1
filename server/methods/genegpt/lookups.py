"""Hold the look-ups of an answer and what it amounts to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from models.decoding.types import CallFinished, CallStatus
from server.methods.base import AnswerOutcome
from server.methods.shared.call_lines import summary
from server.methods.shared.empty_states import MORE_RECORDS

_TAG: Final = re.compile(r"\[[^\]]*\]|\b(?:AND|OR|NOT)\b")


@dataclass(frozen=True, slots=True)
class Lookup:
    """Hold one call: what it asked for, in which database, and how it went.

    ``is_of_reply``: what it asked for stands in an earlier reply of the same answer. ``is_local``: the gateway on this
    machine answered.
    """

    endpoint: str
    db: str
    term: str
    status: CallStatus
    num_records: int
    result: str
    # Words of the search that NCBI dropped, so that its records are not of them.
    has_ignored: bool = False
    is_of_reply: bool = False
    is_local: bool = False

    @classmethod
    def of(cls, step: CallFinished, read: str = "") -> Lookup:
        """Return the look-up of a call; ``read`` is the text of the replies before it."""
        record = step.reply.record
        params = dict(parse_qsl(step.call.text.partition("?")[2]))
        term = _TAG.sub(" ", params.get("term") or params.get("id") or "").replace('"', " ").strip()
        return cls(
            endpoint=str(record.get("endpoint") or ""),
            db=str(record.get("db") or params.get("db") or ""),
            term=term,
            status=step.reply.status,
            # Records that NCBI could not give count as records of the reply.
            num_records=int(record.get("num_records") or 0) if step.reply.status in ("ok", "duplicate") else 0,
            result=summary(step.reply),
            has_ignored=bool(record.get("ignored_words")),
            is_of_reply=_stands_in(term, read),
            is_local=(record.get("egress") or {}).get("went_to") == "gateway",
        )

    @property
    def has_failed(self) -> bool:
        return self.status in ("error", "refused")


@dataclass(frozen=True, slots=True)
class Verdict:
    """State an outcome and its reason, "" for ``answered``; without ``is_shown`` the reason replaces the answer."""

    outcome: AnswerOutcome
    reason: str = ""
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class Transcript:
    """Hold what an answer was made from; ``read`` is the text of all replies.

    Of the question, ``asking`` are the words that name nothing; ``is_in_scope``: the others name what NCBI holds.
    """

    question: str
    lookups: Sequence[Lookup]
    read: str
    asking: frozenset[str] = frozenset()
    is_in_scope: bool = True


def _stands_in(term: str, read: str) -> bool:
    whole = re.compile(rf"(?<![\w-]){re.escape(' '.join(term.split()))}(?![\w-])", re.IGNORECASE)
    return bool(term) and whole.search(" ".join(read.split())) is not None


def looked_up(lookups: Sequence[Lookup]) -> str:
    """Return a sentence on what was looked up, "" for nothing."""
    searches = [f"{one.db or one.endpoint} for “{one.term[:60]}” ({one.result})" for one in lookups if one.term]
    if not searches:
        return ""
    is_poor = all(one.is_local and not one.num_records for one in lookups)
    return f"Searched: {'; '.join(dict.fromkeys(searches))}.{f' {MORE_RECORDS}' if is_poor else ''}"
