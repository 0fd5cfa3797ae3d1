"""Load the questions of the outcome evaluation, with what is expected of their answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.records import Message, Question
from server.methods.base import METHOD_NAMES, AnswerOutcome

FILE: Final = Path(__file__).resolve().parents[1] / "questions" / "answers.jsonl"
NOTES: Final = FILE.parent / "notes"
KINDS: Final = (
    "known",
    "unknown",
    "misspelt",
    "out_of_scope",
    "language",
    "follow_up",
    "emergency",
    "long",
    "injection",
    "empty",
)
REFUSED: Final = "refused"
NO_REPLY: Final = "no_reply"
OUTCOMES: Final = frozenset({*get_args(AnswerOutcome), REFUSED, NO_REPLY})
PASSAGE_METHODS: Final = frozenset({"medrag", "i-medrag"})
_FIELDS: Final = frozenset(
    {
        "id",
        "kind",
        "methods",
        "messages",
        "expected",
        "accepted",
        "forbidden",
        "fact",
        "absent",
        "options",
        "closed",
        "note",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question. ``expected``: outcomes that are right. ``accepted``, ``forbidden``: patterns, without regard to
    case, of which an answer has one, and none.

    ``fact``: the sample data's row that the answer stands in. ``absent``: names that the sample data do not have.
    ``closed``: the answer is a word such as "true", which does not stand in the row.
    """

    id: str
    kind: str
    methods: tuple[str, ...]
    messages: tuple[Message, ...]
    expected: frozenset[str]
    accepted: tuple[re.Pattern[str], ...] = ()
    forbidden: tuple[re.Pattern[str], ...] = ()
    fact: Mapping[str, Any] | None = None
    absent: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    closed: bool = False
    note: str = ""

    @property
    def text(self) -> str:
        """The whole chat, as the digest of the questions reads it."""
        return "\n".join(f"{message['role']}: {message['content']}" for message in self.messages)

    def question(self, namespace: str, is_passage_method: bool) -> Question:
        options = {**self.options, **({"namespaces": [namespace]} if is_passage_method else {})}
        return Question(
            id=self.id, group=self.kind, text=self.text, key=None, messages=self.messages, arrowhead=options
        )


def load(path: Path = FILE) -> list[Item]:
    """Raises DatasetInvalid, which names the line."""
    items: dict[str, Item] = {}
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError) as error:
        raise DatasetInvalid(f"{path}: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            item = item_of(json.loads(line))
        except (KeyError, TypeError, ValueError, AttributeError, re.error) as error:
            raise DatasetInvalid(f"{path}, line {number}: {error}") from error
        if item.id in items:
            raise DatasetInvalid(f"{path}, line {number}: {item.id} is there twice")
        items[item.id] = item
    return list(items.values())


def item_of(row: Mapping[str, Any]) -> Item:
    """Raises ValueError and the errors of a row of the wrong shape."""
    item = Item(
        id=row["id"],
        kind=row["kind"],
        methods=tuple(row["methods"]),
        messages=tuple({"role": message["role"], "content": message["content"]} for message in row["messages"]),
        expected=frozenset(row["expected"]),
        accepted=_patterns(row.get("accepted", ())),
        forbidden=_patterns(row.get("forbidden", ())),
        fact=row.get("fact"),
        absent=tuple(row.get("absent", ())),
        options=row.get("options", {}),
        closed=row.get("closed", False),
        note=row.get("note", ""),
    )
    _check(item, set(row) - _FIELDS)
    return item


def _patterns(texts: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(text, re.IGNORECASE) for text in texts)


def _check(item: Item, unknown_fields: set[str]) -> None:
    wrong = {
        "unknown fields": unknown_fields,
        "kind": {item.kind} - set(KINDS),
        "methods": set(item.methods) - set(METHOD_NAMES),
        "expected": item.expected - OUTCOMES,
    }
    for name, values in wrong.items():
        if values:
            raise ValueError(f"{name}: {', '.join(sorted(values))}")
    if not (item.methods and item.expected and item.messages):
        raise ValueError("methods, messages and expected may not be empty")
    if item.messages[-1]["role"] != "user":
        raise ValueError("the last message is the user's")
