"""Clinfo over the real egress, client and encoders, a loopback PubMed of a few articles, and the scripted engine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lexical_verifier import lexical_gate
from ncbi_files import pubmed_record, pubmed_set
from ncbi_server import Answer, NcbiServer, Seen

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, Rule, ScriptedBehaviour, ScriptedEngine
from retrieval.graph.types import Linked, Mention, Node
from server.engine.lifecycle import EngineLifecycle
from server.evidence.literature import LiteratureService
from server.evidence.passages import PassageService
from server.methods.base import AnswerRequest, Event, Message, Sampling
from server.methods.clinfo.method import Clinfo, Library
from server.settings.egress import EgressSettings, NcbiSettings
from server.settings.retrieval import RetrievalSettings
from server.settings.schema import Settings
from server.types import EgressMode
from server.wiring.ncbi import build_ncbi
from server.wiring.retrieval import build_retrieval

Handler = Callable[[Seen], Answer]
QUESTION = "Does dexamethasone lower mortality in severe COVID-19?"
_RETRACTED = (
    '<CommentsCorrectionsList><CommentsCorrections RefType="RetractionIn"><RefSource>J. 2021</RefSource>'
    '<PMID Version="1">99</PMID></CommentsCorrections></CommentsCorrectionsList>'
)


def article(pmid: str, title: str, *parts: tuple[str, str], types: Sequence[str] = (), **more: str) -> str:
    """A PubmedArticle; ``parts`` are (label, text) of its abstract, ``notices`` its CommentsCorrectionsList."""
    texts = "".join(f'<AbstractText Label="{label}">{text}</AbstractText>' for label, text in parts)
    kinds = "".join(f"<PublicationType>{name}</PublicationType>" for name in types)
    inner = f"<Abstract>{texts}</Abstract>" if parts else ""
    inner += f"<PublicationTypeList>{kinds}</PublicationTypeList>" if kinds else ""
    record = pubmed_record(pmid, inner, title=title, data=more.get("data", ""))
    record = record.replace("<Year>2001</Year>", f"<Year>{more.get('year', '2020')}</Year>")
    return record.replace("</Article></Med", f"</Article>{more.get('notices', '')}</Med")


ARTICLES: dict[str, str] = {
    "101": article(
        "101",
        "Dexamethasone in severe COVID-19: a randomised trial.",
        ("METHODS", "In this trial, 6425 patients with COVID-19 were randomised to dexamethasone or usual care."),
        ("RESULTS", "Dexamethasone lowered mortality in severe COVID-19."),
        types=("Randomized Controlled Trial",),
    ),
    "102": article(
        "102",
        "Steroids in severe COVID-19: a meta-analysis.",
        ("RESULTS", "Seven trials showed lower mortality with dexamethasone in severe COVID-19."),
        types=("Meta-Analysis",),
    ),
    "104": article(
        "104",
        "Dexamethasone ends mortality in severe COVID-19.",
        ("RESULTS", "Dexamethasone lowers mortality in severe COVID-19 to zero."),
        types=("Retracted Publication",),
        notices=_RETRACTED,
    ),
    "106": article("106", "Dexamethasone, mortality and severe COVID-19.", types=("Letter",)),
    "107": article("107", "Reversal of heparin.", ("RESULTS", "Protamine reverses heparin within minutes.")),
}


def pubmed(articles: Mapping[str, str], links: Mapping[str, Sequence[str]] | None = None) -> Handler:
    """Find articles by any of a term's words, those with most words first."""

    def handle(seen: Seen) -> Answer:
        if seen.path.endswith("efetch.fcgi"):
            found = [articles[pmid] for pmid in seen.params["id"].split(",") if pmid in articles]
            return Answer(body=pubmed_set(*found).encode())
        if seen.path.endswith("elink.fcgi"):
            ids = [pmid for of in seen.params["id"].split(",") for pmid in (links or {}).get(of, ())]
            linked = {"dbto": "pubmed", "linkname": seen.params["linkname"], "links": ids}
            return _json({"linksets": [{"dbfrom": "pubmed", "ids": ["1"], "linksetdbs": [linked]}]})
        words = set(re.findall(r"[a-z0-9-]{4,}", re.sub(r"\[[^\]]*\]", " ", seen.params["term"]).lower()))
        matching = {pmid: sum(word in text.lower() for word in words) for pmid, text in articles.items()}
        ids = [pmid for pmid in sorted(matching, key=lambda pmid: (-matching[pmid], pmid)) if matching[pmid]]
        return _json({"esearchresult": {"count": str(len(ids)), "retmax": "100", "retstart": "0", "idlist": ids}})

    return handle


def _json(body: Mapping[str, Any]) -> Answer:
    text = json.dumps({"header": {"type": "esearch", "version": "0.3"}, **body})
    return Answer(body=text.encode(), headers={"Content-Type": "application/json"})


class Names:
    """Link the words that it is made with, each to one node with synonyms."""

    def __init__(self, **synonyms: Sequence[str]) -> None:
        self._synonyms = synonyms

    async def link(self, question: str) -> Linked:
        mentions = []
        for name, others in self._synonyms.items():
            start = question.find(name)
            node = Node(node_id=f"X::{name}", kind="X", name=name, identifier=name, synonyms=tuple(others))
            mentions += [Mention(node=node, start=start, end=start + len(name), method="exact")] if start >= 0 else []
        return Linked(mentions=tuple(mentions))


class ClinfoBench:
    """``handler`` is PubMed; ``script`` what the model writes, () for a model that cannot write reviews.

    ``facts`` are of the model's card; by default it can write anything where there is a script.
    """

    def __init__(
        self,
        folder: Path,
        handler: Handler | None = None,
        script: Sequence[Rule] | Callable[[str], str] = (),
        names: Names | None = None,
        behaviour: ScriptedBehaviour | None = None,
        facts: Mapping[str, Any] | None = None,
        engine: type[ScriptedEngine] = ScriptedEngine,
        mode: EgressMode = "off",
    ) -> None:
        self._mode = mode
        self._engine = engine
        self._behaviour = behaviour
        self._facts = facts if facts is not None else {"trained_for": None if script else ("genegpt",)}
        self._folder = folder
        self._script = script
        self._names = names or Names()
        self.server = NcbiServer(handler or pubmed(ARTICLES))

    async def __aenter__(self) -> ClinfoBench:
        await self.server.__aenter__()
        card = ModelCard(name="scripted", source="scripted", prompt_form="base", **self._facts)
        options = EngineOptions(max_model_len=60_000, block_size=16)
        script, tokenizer = self._script or [], ByteTokenizer(())
        self.engine = self._engine(card, options, script, tokenizer=tokenizer, behaviour=self._behaviour)
        lifecycle = EngineLifecycle(card, lambda: self.engine)
        await lifecycle.load()
        settings = Settings(
            ncbi=NcbiSettings(eutils_url=f"{self.server.url}/entrez/eutils", email="a@example.org"),
            egress=EgressSettings(mode=self._mode),
        )
        retrieval = RetrievalSettings(encoders=("hashing",))
        self.ncbi = build_ncbi(settings)
        self.retrieval = build_retrieval(retrieval, self._folder)
        self.passages = PassageService(self.retrieval, retrieval)
        literature = LiteratureService(self.ncbi.egress, self.passages, self.retrieval.encoders)
        self.method = Clinfo(lifecycle, Library(literature, self.passages, self._names, lexical_gate()), 1000)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.retrieval.close()
        for closer in reversed(self.ncbi.closers):
            await closer()
        await self.engine.close()
        await self.server.__aexit__(None, None, None)

    def made(self, question: str = QUESTION, **options: Any) -> AnswerRequest:
        sampling = options.pop("sampling", Sampling())
        return AnswerRequest(request_id="r", messages=(Message("user", question),), options=options, sampling=sampling)

    async def ask(self, question: str = QUESTION, **options: Any) -> list[Event]:
        ask = self.made(question, **options)
        self.method.check(ask)
        return [event async for event in self.method.answer(ask)]

    @property
    def prompts(self) -> list[str]:
        return [request.prompt for request in self.engine.requests]
