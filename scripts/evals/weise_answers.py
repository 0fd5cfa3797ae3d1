"""Score WeiseEule's extractive answers: whether quotes stand in what they cite, and whether a gold paper is cited."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from models.catalog import ModelCard
from models.engines.base import Engine, EngineOptions
from models.engines.scripted_engine import ScriptedEngine
from scripts.evals.harness.intervals import bootstrap_mean
from scripts.evals.review import metrics
from server.engine.lifecycle import EngineLifecycle
from server.evidence.keywords import KeywordService
from server.methods.base import AnswerRequest, Done, Evidence, Message, TextDelta
from server.methods.shared.sentences import quotation
from server.methods.weiseeule.library import WeiseRetriever
from server.methods.weiseeule.method import WeiseEule

_LINE: Final = re.compile(r"(?P<stated>(?:.*?: )?“(?P<quote>.+)”) \[(?P<number>\d+)\]")
_ANSWERED: Final = ("answered", "partial")


class Asked(Protocol):
    """Have a question and the PMIDs of the papers that answer it."""

    @property
    def text(self) -> str: ...

    @property
    def gold(self) -> frozenset[str]: ...


@dataclass
class Told:
    """Hold one answer; ``passages`` and ``papers`` are text and PMID of each number."""

    text: str = ""
    outcome: str = ""
    passages: dict[int, str] = field(default_factory=dict)
    papers: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scored:
    """Hold shares of the quotes of one answer; ``first_is_gold``: the first one is from a gold paper."""

    is_answered: bool
    quotes: int = 0
    verbatim: float = 0.0
    supported: float = 0.0
    from_gold: float = 0.0
    first_is_gold: bool = False


def score(told: Told, gold: frozenset[str]) -> Scored:
    """Score what a reader sees: each line with a quote and the number of its passage."""
    lines = [found for line in told.text.splitlines() if (found := _LINE.fullmatch(line.strip()))]
    if told.outcome not in _ANSWERED or not lines:
        return Scored(told.outcome in _ANSWERED)
    cited = [(found["quote"], found["stated"], int(found["number"])) for found in lines]
    verbatim = [" ".join(quote.split()) in quotation(told.passages.get(number, "")) for quote, _, number in cited]
    supported = [metrics.supports([told.passages.get(number, "")], stated) for _, stated, number in cited]
    is_gold = [told.papers.get(number) in gold for _, _, number in cited]
    total = len(cited)
    return Scored(True, total, sum(verbatim) / total, sum(supported) / total, sum(is_gold) / total, is_gold[0])


async def ask(service: KeywordService, question: str, retriever: WeiseRetriever) -> Told:
    """Answer a question as the embedded model's server does: by sentences of the passages, without a model."""
    card = ModelCard(name="none", source="scripted", prompt_form="base")
    method = WeiseEule(EngineLifecycle(card, lambda: _no_engine(card)), service, max_answer_tokens=400)
    options = {"synthesis": "extractive", "retriever": retriever, "extractor": "terms"}
    request = AnswerRequest(request_id="eval", messages=(Message("user", question),), options=options)
    told = Told()
    async for event in method.answer(request):
        match event:
            case TextDelta(text=text, is_ours=False):
                told.text += text
            case Evidence(references=references):
                told.passages = {one.number: f"{one.title}\n{one.text}" for one in references}
            case Done(outcome=outcome, details=details):
                told.outcome = outcome or ""
                cited = details.get("citations", ())
                told.papers = {one["number"]: one["document_id"].removeprefix("PMID:") for one in cited}
    return told


def _no_engine(card: ModelCard) -> Engine:
    return ScriptedEngine(card, EngineOptions(), [])


async def measure(service: KeywordService, questions: Sequence[Asked], retrievers: Sequence[WeiseRetriever]) -> None:
    for retriever in retrievers:
        scored = [score(await ask(service, one.text, retriever), one.gold) for one in questions]
        print(f"answers from passages by {retriever}:")
        for label, text in table_of(scored):
            print(f"| {label} | {text} |")


def table_of(scored: Sequence[Scored]) -> list[tuple[str, str]]:
    """Return the measures; intervals (95 %) are bootstrapped over questions, shares are of those that were answered."""
    answered = [one for one in scored if one.is_answered]
    return [
        ("answered", f"{len(answered)} of {len(scored)}"),
        ("quotes in an answer", f"{sum(one.quotes for one in answered) / max(1, len(answered)):.2f}"),
        ("quotes that stand in the passage that they cite", _share([one.verbatim for one in answered])),
        ("lines that their passage supports", _share([one.supported for one in answered])),
        ("quotes from a gold paper", _share([one.from_gold for one in answered])),
        ("first quote from a gold paper", _share([float(one.first_is_gold) for one in answered])),
    ]


def _share(values: Sequence[float]) -> str:
    interval = bootstrap_mean(values)
    return f"{sum(values) / max(1, len(values)):.3f} [{interval.low:.3f}, {interval.high:.3f}]"
