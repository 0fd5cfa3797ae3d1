"""Load the questions of the outcome evaluation, with what is expected of their answers, and their notes."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, get_args

import httpx

from scripts.evals.harness.client import CONNECT_S, Target, is_local
from scripts.evals.harness.errors import DatasetInvalid, EndpointGone, EndpointRefuses
from scripts.evals.harness.records import Message, Question
from server.methods.base import METHOD_NAMES, AnswerOutcome

FILE: Final = Path(__file__).resolve().parents[1] / "questions" / "answers.jsonl"
NOTES: Final = FILE.parent / "notes"
_FIRST_KINDS: Final = ("known", "unknown", "misspelt", "out_of_scope", "language")
KINDS: Final = (*_FIRST_KINDS, "follow_up", "emergency", "long", "injection", "empty")
REFUSED: Final = "refused"
NO_REPLY: Final = "no_reply"
OUTCOMES: Final = frozenset({*get_args(AnswerOutcome), REFUSED, NO_REPLY})
PASSAGE_METHODS: Final = frozenset({"medrag", "i-medrag"})
JOB_S: Final = 60


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
    made = dict(row)
    for name in ("accepted", "forbidden"):
        made[name] = tuple(re.compile(text, re.IGNORECASE) for text in row.get(name, ()))
    made |= {"methods": tuple(row["methods"]), "messages": tuple(row["messages"])}
    made |= {"expected": frozenset(row["expected"]), "absent": tuple(row.get("absent", ()))}
    wrong = {
        "unknown fields": set(made) - {one.name for one in fields(Item)},
        "kind": {row["kind"]} - set(KINDS),
        "methods": set(row["methods"]) - set(METHOD_NAMES),
        "expected": set(row["expected"]) - OUTCOMES,
    }
    for name, values in wrong.items():
        if values:
            raise ValueError(f"{name}: {', '.join(sorted(values))}")
    if not (row["methods"] and row["expected"] and row["messages"]):
        raise ValueError("methods, messages and expected may not be empty")
    if row["messages"][-1]["role"] != "user":
        raise ValueError("the last message is the user's")
    return Item(**made)


def documents_in(folder: Path) -> list[dict[str, str]]:
    """The notes of a folder: a line ``# Title``, then the text. Raises ValueError for another form."""
    documents = []
    for path in sorted(folder.glob("*.md")):
        head, _, text = path.read_text().partition("\n")
        if not (head.startswith("# ") and text.strip()):
            raise ValueError(f"{path}: a line '# Title' and a text are wanted")
        documents.append({"id": path.stem, "title": head[2:].strip(), "text": text.strip()})
    return documents


@contextmanager
def temporary_namespace(
    target: Target, documents: Sequence[Mapping[str, str]], transport: httpx.BaseTransport | None = None
) -> Iterator[str]:
    """The name of a new namespace with the documents; it is removed at the end, also after an interruption.

    Raises:
        EndpointGone, EndpointRefuses: it cannot be made; what was made is removed.
    """
    name, address = f"answers-eval-{secrets.token_hex(4)}", target.base_url.rstrip("/")
    headers = {"Authorization": f"Bearer {target.api_key}"} if target.api_key else {}
    with httpx.Client(
        base_url=address,
        headers=headers,
        timeout=httpx.Timeout(JOB_S + 30, connect=CONNECT_S),
        transport=transport,
        trust_env=not is_local(httpx.URL(address).host),
    ) as http:
        _sent(http, "/namespaces", {"name": name})
        try:
            job = _sent(http, f"/namespaces/{name}/documents?wait={JOB_S}", {"documents": list(documents)})
            if job.get("state") != "done":
                raise EndpointRefuses(f"the notes were not indexed within {JOB_S} s: job {job.get('state')}")
            yield name
        finally:
            # The results are not lost where it cannot be removed; a person can.
            if http.request("DELETE", f"/namespaces/{name}").status_code >= 300:
                print(f"the namespace {name} could not be removed: arrowhead namespace delete {name} --yes")


def _sent(http: httpx.Client, path: str, body: Any) -> dict[str, Any]:
    try:
        response = http.post(path, json=body)
    except httpx.RequestError as error:
        raise EndpointGone(f"{http.base_url}: {type(error).__name__}: {error}") from error
    if response.status_code >= 300:
        raise EndpointRefuses(f"POST {path}: HTTP {response.status_code}: {response.text[:300]}")
    told: dict[str, Any] = response.json()
    return told
