"""A method over the scripted engine and real namespaces with a few short documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from models.card import ModelCard, PromptForm
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, Rule, ScriptedBehaviour, ScriptedEngine
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.passages import Document
from retrieval.types import Synonyms
from server.engine.lifecycle import EngineLifecycle
from server.evidence.passages import PassageService, Retrieval
from server.methods.base import AnswerRequest, Done, Event, Evidence, Message, Sampling, Step, TextDelta
from server.settings.retrieval import RetrievalSettings
from server.wiring.retrieval import build_retrieval

Script = Sequence[Rule] | Callable[[str], str]
DRUGS = (
    ("Warfarin", "Warfarin inhibits vitamin K epoxide reductase (VKORC1).", "https://example.org/warfarin"),
    ("Heparin", "Heparin activates antithrombin. Protamine reverses heparin.", "https://example.org/heparin"),
    ("Aspirin", "Aspirin acetylates cyclooxygenase of platelets irreversibly.", "https://example.org/aspirin"),
    ("Clopidogrel", "Clopidogrel blocks the P2Y12 receptor of platelets.", ""),
)


def fill(retrieval: Retrieval, name: str, documents: Sequence[tuple[str, str, str]], **settings: Any) -> None:
    retrieval.namespaces.create(name, NamespaceSettings(**({"encoder": "hashing"} | settings)))
    readings = [
        ParsedDocument(
            Document(document_id=f"doc:{title}", title=title, url=url), text, (Span(0, len(text)),), whole=True
        )
        for title, text, url in documents
    ]
    add_items(retrieval.namespaces, name, readings)


class PassageBench:
    """``make(slot, service)`` builds the method. ``drugs`` is the one namespace unless ``documents`` says otherwise.

    ``facts`` are further fields of the model's card.
    """

    def __init__(
        self,
        make: Callable[[EngineLifecycle, PassageService], Any],
        folder: Path,
        script: Script,
        *,
        documents: Sequence[tuple[str, str, str]] = DRUGS,
        max_model_len: int = 20_000,
        behaviour: ScriptedBehaviour | None = None,
        cross_encoder: str | None = None,
        prompt_form: PromptForm = "base",
        facts: Mapping[str, Any] | None = None,
        names: Synonyms | None = None,
    ) -> None:
        self._make = make
        self._folder = folder
        self._script = script
        self._documents = documents
        self._max_model_len = max_model_len
        self._behaviour = behaviour
        self._facts = {"prompt_form": prompt_form, **(facts or {})}
        self._settings = RetrievalSettings(encoders=("hashing",), cross_encoder=cross_encoder)
        self._names = names

    async def __aenter__(self) -> PassageBench:
        card = ModelCard(name="scripted", source="scripted", **self._facts)
        options = EngineOptions(max_model_len=self._max_model_len, block_size=16)
        tokenizer = ByteTokenizer(())
        self.engine = ScriptedEngine(card, options, self._script, tokenizer=tokenizer, behaviour=self._behaviour)
        slot = EngineLifecycle(card, lambda: self.engine)
        await slot.load()
        self.retrieval = replace(build_retrieval(self._settings, self._folder), names=self._names)
        if self._documents and not self.retrieval.namespaces.names():
            fill(self.retrieval, "drugs", self._documents)
        self.service = PassageService(self.retrieval, self._settings)
        self.method = self._make(slot, self.service)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.retrieval.close()
        await self.engine.close()

    def made(self, question: str, **options: Any) -> AnswerRequest:
        sampling = options.pop("sampling", Sampling())
        namespaces = options.pop("allowed", None)
        message = Message("user", question)
        return AnswerRequest(
            request_id="r", messages=(message,), options=options, sampling=sampling, namespaces=namespaces
        )

    async def ask(self, question: str, **options: Any) -> list[Event]:
        ask = self.made(question, **options)
        self.method.check(ask)
        return [event async for event in self.method.answer(ask)]

    @property
    def prompts(self) -> list[str]:
        return [request.prompt for request in self.engine.requests]


def done(events: Sequence[Event]) -> Done:
    assert isinstance(events[-1], Done)
    return events[-1]


def shown(events: Sequence[Event], channel: str = "answer") -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.channel == channel)


def steps(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Step)]


def references(events: Sequence[Event]) -> list[Any]:
    return [one for event in events if isinstance(event, Evidence) for one in event.references]


def marked(events: Sequence[Event], citation: Mapping[str, Any]) -> bool:
    """Whether the page marks a citation's quote in the text of its reference, as its ``sentencesOf`` looks for it."""
    (reference,) = (one for one in references(events) if one.number == citation["number"])
    pattern = r"\s+".join(map(re.escape, str(citation["quote"]).split()))
    return bool(pattern) and re.search(pattern, reference.text) is not None
