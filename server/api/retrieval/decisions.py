"""Serve ``POST /v1/decisions``: typed questions with the probability of each answer, as OpenAI's Decisions has them.

The evidence is the input, texts and stored passages that the request names, and what a search of namespaces finds for
each question; every answer has the sentence that decides and where it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field, field_validator

from retrieval.corpus.search.ranking import RankedPassage
from server.api.answers.session import TIMEOUT_HEADER, deadline_of
from server.api.declarations import RETRIEVAL_ERRORS, TIMEOUT, Reads, Reply, errors
from server.api.http_io import cancel_on_disconnect, read_body
from server.api.retrieval.schemas import Body
from server.api.retrieval.verify import MAX_CHARS, MAX_QUERY, Piece, Query, check_size, check_verifier, texts_of
from server.evidence.verification import Decision, decide
from server.methods.shared.passages import PassageQuery
from server.methods.shared.reading.evidence import EvidenceText
from server.methods.shared.reading.gate import Gate
from server.wiring.services import Services

router = APIRouter(tags=["Retrieval"])
_MAX_QUESTIONS: Final = 64
_MAX_SOURCES: Final = 256
_MAX_PASSAGES: Final = 32
_Name = Annotated[str, Field(min_length=1, max_length=200)]
_Text = Annotated[str, Field(max_length=MAX_CHARS)]


class TextPart(Body):
    """Carry one text of a message."""

    type: Literal["input_text"]
    text: _Text


class DecisionMessage(Body):
    """Carry a message of the user; others are no evidence."""

    type: Literal["message"] = "message"
    role: Literal["user"]
    content: _Text | Annotated[list[TextPart], Field(min_length=1, max_length=_MAX_SOURCES)]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "\n\n".join(part.text for part in self.content)


class PredicateQuestion(Body):
    """Ask whether a statement holds."""

    type: Literal["predicate"]
    instructions: Query
    name: _Name | None = None


class ChoiceValue(Body):
    """Offer one answer; a boolean is judged by its ``description``, which it needs."""

    value: Annotated[str, Field(min_length=1, max_length=500)] | bool
    description: Annotated[str, Field(max_length=MAX_QUERY)] = ""


class ChoiceQuestion(Body):
    """Ask which of several answers holds."""

    type: Literal["choice"]
    instructions: Query
    choices: Annotated[list[ChoiceValue], Field(min_length=2, max_length=255)]
    name: _Name | None = None

    @field_validator("choices")
    @classmethod
    def _check(cls, choices: list[ChoiceValue]) -> list[ChoiceValue]:
        if len({(type(one.value), one.value) for one in choices}) < len(choices):
            raise ValueError("each value stands once")
        if any(isinstance(one.value, bool) and not one.description.strip() for one in choices):
            raise ValueError("a boolean needs a description of what it means; or ask a predicate")
        return choices


class Level(Body):
    """Name one level of a score."""

    label: Annotated[str, Field(min_length=1, max_length=500)]
    description: Annotated[str, Field(max_length=MAX_QUERY)] = ""


class ScoreQuestion(Body):
    """Ask for a level, of which the first one counts 0."""

    type: Literal["score"]
    instructions: Query
    levels: Annotated[list[Level], Field(min_length=2, max_length=10)]
    name: _Name | None = None


_Question = Annotated[PredicateQuestion | ChoiceQuestion | ScoreQuestion, Field(discriminator="type")]


class DecisionEvidence(Body):
    """Name the evidence beside the input; ``k`` passages of the namespaces are read for each question."""

    namespaces: Annotated[list[Annotated[str, Field(max_length=63)]], Field(max_length=64)] | Literal["all"] | None = (
        None
    )
    sources: Annotated[list[Piece], Field(max_length=_MAX_SOURCES)] = Field(default_factory=list)
    k: Annotated[int, Field(ge=1, le=_MAX_PASSAGES)] = 8


class DecisionsRequest(Body):
    """Ask questions about an input; each is judged by its ``instructions``, for which passages are searched too."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "input": "Aspirin lowered the risk of stroke by a fifth.",
                    "questions": [{"type": "predicate", "instructions": "Aspirin lowers the risk of stroke."}],
                }
            ]
        }
    )
    model: str = ""
    input: _Text | Annotated[list[DecisionMessage], Field(max_length=_MAX_SOURCES)]
    questions: Annotated[list[_Question], Field(min_length=1, max_length=_MAX_QUESTIONS)]
    arrowhead: DecisionEvidence = DecisionEvidence()


class Decisions(Reply):
    """Give the answers in the order of the questions; ``arrowhead`` of each has verdict, quote and citation."""

    model: str
    answers: list[dict[str, Any]]
    usage: dict[str, Any] = Field(description="zeros: no text is generated")


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Hold a text to read with where it is from."""

    text: EvidenceText
    citation: Mapping[str, Any]


@router.post(
    "/v1/decisions",
    summary="Decide typed questions by evidence, with probabilities and quotes",
    openapi_extra=Reads(DecisionsRequest, (TIMEOUT,)),
    responses={200: {"model": Decisions}, **RETRIEVAL_ERRORS, **errors(504)},
)
async def decisions(request: Request) -> Response:
    services: Services = request.app.state.services
    body = await read_body(request, DecisionsRequest)
    check_verifier(body.model, services.verifier.name)
    deadline = deadline_of(services, request.headers.get(TIMEOUT_HEADER))
    async with cancel_on_disconnect(request.receive):
        given = await _given(services, request, body)
        found = await _found(services, request, body)
        gate = Gate(services.verifier)

        async def decided() -> list[Decision]:
            return [
                await decide(gate, question.instructions, _choices(question), [one.text for one in (*given, *own)])
                for question, own in zip(body.questions, found, strict=True)
            ]

        made = await services.judged(request.state.owner, decided, deadline)
    answers = [
        _answer(question, one, (*given, *own))
        for question, one, own in zip(body.questions, made or (), found, strict=True)
    ]
    return JSONResponse({"model": services.verifier.name, "answers": answers, "usage": _usage()})


async def _given(services: Services, request: Request, body: DecisionsRequest) -> list[_Evidence]:
    """Return the texts of the input and of the sources that are named.

    Raises:
        RequestError, NamespaceUnknown, RequestError: they are too long, or there is no such passage for the key.
    """
    inputs = [body.input] if isinstance(body.input, str) else [message.text for message in body.input]
    named = body.arrowhead.sources
    sources = await texts_of(services, request.state.principal, named, "arrowhead.sources")
    check_size([*inputs, *sources], "input")
    cited = [
        {"source": place} | ({} if isinstance(piece, str) else piece.model_dump(exclude_none=True))
        for place, piece in enumerate(named)
    ]
    pieces = [({"input": place}, text) for place, text in enumerate(inputs)] + list(zip(cited, sources, strict=True))
    return [_Evidence(EvidenceText("", text), citation) for citation, text in pieces if text.strip()]


async def _found(services: Services, request: Request, body: DecisionsRequest) -> list[list[_Evidence]]:
    """Return the passages found for each question, none where no namespaces are named.

    Raises:
        NamespaceUnknown: there is no such namespace for this key.
    """
    asked = body.arrowhead
    if asked.namespaces is None:
        return [[] for _ in body.questions]
    names = () if asked.namespaces == "all" else tuple(asked.namespaces)
    readable = await services.readable_by(request.state.principal)
    queries = [question.instructions for question in body.questions]
    async with services.admitted(request.state.owner):
        gathered = await services.passages.find(queries, PassageQuery(namespaces=names, k=asked.k), readable)
    return [[_passage(one) for one in hits if not one.document.is_retracted] for hits in gathered.lists]


def _passage(one: RankedPassage) -> _Evidence:
    citation = {
        "namespace": one.namespace,
        "passage": str(one.passage.passage_id),
        "document": one.passage.document_id,
        "title": one.document.title,
        "page": one.passage.page or None,
        "url": one.document.url,
    }
    return _Evidence(EvidenceText(one.passage.heading, one.passage.text), citation)


def _choices(question: PredicateQuestion | ChoiceQuestion | ScoreQuestion) -> list[str]:
    match question:
        case ChoiceQuestion(choices=choices):
            return [one.description.strip() or str(one.value) for one in choices]
        case ScoreQuestion(levels=levels):
            return [one.description.strip() or one.label for one in levels]
        case PredicateQuestion():
            return []


def _answer(
    question: PredicateQuestion | ChoiceQuestion | ScoreQuestion, made: Decision, evidence: Sequence[_Evidence]
) -> dict[str, Any]:
    shares = [round(one, 6) for one in made.probabilities]
    answer: dict[str, Any] = {"type": question.type, "name": question.name}
    match question:
        case PredicateQuestion():
            answer["probability"] = shares[0]
        case ChoiceQuestion(choices=choices):
            values = [one.value for one in choices]
            rows = [{"value": value, "probability": share} for value, share in zip(values, shares, strict=True)]
            answer |= {"choice": values[made.place], "probabilities": rows, "confidence": round(made.confidence, 6)}
        case ScoreQuestion(levels=levels):
            labels = [one.label for one in levels]
            rows = [
                {"value": value, "label": label, "probability": share}
                for value, (label, share) in enumerate(zip(labels, shares, strict=True))
            ]
            score = sum(place * share for place, share in enumerate(made.probabilities))
            answer |= {"score": round(score, 6), "probabilities": rows, "confidence": round(made.confidence, 6)}
    return answer | {"arrowhead": _grounds(made, evidence)}


def _grounds(made: Decision, evidence: Sequence[_Evidence]) -> dict[str, Any]:
    grounds: dict[str, Any] = {"verdict": made.verdict, "relevance": round(made.relevance, 6), "quote": None}
    if made.sentence is None:
        return grounds | {"citation": None}
    sentence = made.sentence.evidence.sentence
    citation = dict(evidence[made.sentence.evidence.source].citation)
    return grounds | {"quote": sentence.text, "citation": citation | {"start": sentence.start, "end": sentence.end}}


def _usage() -> dict[str, Any]:
    details = {"cached_tokens": 0, "cache_write_tokens": 0}
    usage: dict[str, Any] = {"input_tokens": 0, "input_tokens_details": details}
    return usage | {"output_tokens": 0, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 0}
