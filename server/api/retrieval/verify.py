"""Serve ``POST /v1/verify``: whether evidence supports a claim, or says yes or no to a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag

from models.verifiers.base import Judgement
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.errors import NamespaceUnknown
from server.api.answers.session import TIMEOUT_HEADER, deadline_of
from server.api.declarations import RETRIEVAL_ERRORS, TIMEOUT, Reads, Reply, errors
from server.api.http_io import cancel_on_disconnect, read_body
from server.api.retrieval.schemas import MAX_INPUTS, Body, words
from server.auth.authentication import Principal
from server.errors import MODEL_UNKNOWN, PASSAGE_UNKNOWN, RequestError
from server.evidence.verification import Verdict, Verification
from server.wiring.services import Services

router = APIRouter(tags=["Retrieval"])
MAX_QUERY: Final = 4000
# Of all pieces together.
MAX_CHARS: Final = 200_000
Query = Annotated[str, Field(max_length=MAX_QUERY), AfterValidator(words)]
_Text = Annotated[str, Field(max_length=MAX_CHARS), AfterValidator(words)]
_PASSAGE: Final = r"^[1-9][0-9]{0,18}$"
_MAX_ID: Final = 2**63 - 1


class StoredPassage(Body):
    """Name a stored passage by its id, as searches give it; ``namespace`` None: it is looked for in all of them."""

    passage: Annotated[str, Field(pattern=_PASSAGE)]
    namespace: Annotated[str, Field(max_length=63)] | None = None


# The brackets keep the branch out of a wrong field's name.
Piece = Annotated[
    Annotated[_Text, Tag("[text]")] | Annotated[StoredPassage, Tag("[passage]")],
    Discriminator(lambda piece: "[passage]" if isinstance(piece, dict | StoredPassage) else "[text]"),
]


class VerifyRequest(Body):
    """Ask what pieces of evidence say of a claim, or of a question of yes or no."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"claim": "PSMB10 is a gene.", "evidence": ["PSMB10, also LMP10, is a gene."]}]}
    )
    model: str = ""
    question: Query | None = None
    claim: Query | None = None
    evidence: Annotated[list[Piece], Field(min_length=1)]

    @property
    def query(self) -> str:
        return self.question or self.claim or ""


class Probabilities(Reply):
    """Give what the evidence is to the claim; of a question, supports is yes."""

    supports: float
    contradicts: float
    neither: float


class DecidingSentence(Reply):
    """Quote the sentence that decides, or up to three in a row; offsets are those of the piece's characters."""

    text: str
    start: int
    end: int


class PieceResult(Reply):
    """Say what one piece of evidence is to the question or claim."""

    index: int
    probabilities: Probabilities
    relevance: float
    sentence: DecidingSentence


class Overall(Reply):
    """Give the verdict of the piece that is surest; ``index`` is its place."""

    verdict: Verdict
    probabilities: Probabilities
    index: int


class VerificationReply(Reply):
    """Give a result for each piece of evidence, in order, and the verdict of all."""

    object: Literal["verification"]
    model: str
    results: list[PieceResult]
    overall: Overall


@router.post(
    "/v1/verify",
    summary="Tell whether evidence supports a claim",
    openapi_extra=Reads(VerifyRequest, (TIMEOUT,)),
    responses={200: {"model": VerificationReply}, **RETRIEVAL_ERRORS, **errors(504)},
)
async def verify(request: Request) -> Response:
    services: Services = request.app.state.services
    body = await read_body(request, VerifyRequest)
    _check(body, MAX_INPUTS, services.verifier.name)
    deadline = deadline_of(services, request.headers.get(TIMEOUT_HEADER))
    async with cancel_on_disconnect(request.receive):
        pieces = await texts_of(services, request.state.principal, body.evidence)
        check_size(pieces)
        found = await services.verify(request.state.owner, body.query, pieces, deadline)
    return JSONResponse(_reply(services.verifier.name, found))


def _check(body: VerifyRequest, limit: int, verifier: str) -> None:
    """Check what the schema alone does not; ``limit`` is of pieces.

    Raises:
        RequestError, RequestError: a value is not valid; ``param`` names the field.
    """
    if (body.question is None) == (body.claim is None):
        raise RequestError("claim: send either a claim or a question", param="claim")
    if len(body.evidence) > limit:
        raise RequestError(f"evidence: {len(body.evidence)} pieces, at most {limit} are taken", param="evidence")
    check_verifier(body.model, verifier)


def check_verifier(model: str, verifier: str) -> None:
    if model not in ("", verifier):
        raise RequestError(f"there is no verifier {model[:100]!r}; there is {verifier}", MODEL_UNKNOWN, param="model")


def check_size(pieces: Sequence[str], param: str = "evidence") -> None:
    if (size := sum(map(len, pieces))) > MAX_CHARS:
        message = f"{param}: {size} characters, at most {MAX_CHARS} are taken at once: send fewer or shorter pieces"
        raise RequestError(message, param=param)


async def texts_of(
    services: Services, principal: Principal, evidence: Sequence[str | StoredPassage], param: str = "evidence"
) -> list[str]:
    """Return the texts of all pieces; passages are those of the namespaces that the key may read.

    Raises:
        NamespaceUnknown, RequestError: there is no such passage for this key; ``param`` names the piece.
    """
    texts = [piece for piece in evidence if isinstance(piece, str)]
    if len(texts) == len(evidence):
        return texts
    stored = services.retrieval.namespaces

    def work() -> list[str]:
        names = services.passages.known(services.access.readable(principal))
        return [
            piece if isinstance(piece, str) else _passage_text(stored, names, piece, f"{param}[{place}]")
            for place, piece in enumerate(evidence)
        ]

    return await services.retrieval.run(work)


def _passage_text(stored: Namespaces, names: Sequence[str], piece: StoredPassage, param: str) -> str:
    if piece.namespace is not None and piece.namespace not in names:
        field = f"{param}.namespace"
        raise NamespaceUnknown(f"{field}: there is no namespace {piece.namespace!r}", param=field)
    number = int(piece.passage)
    for name in (names if piece.namespace is None else [piece.namespace]) if number <= _MAX_ID else ():
        with stored.using(name) as namespace:
            if found := namespace.store.get([number]):
                return found[0][0].text
    raise RequestError(
        f"{param}.passage: there is no passage {piece.passage} here", PASSAGE_UNKNOWN, param=f"{param}.passage"
    )


def _reply(model: str, found: Verification) -> dict[str, Any]:
    results = [
        {
            "index": index,
            "probabilities": _probabilities(one.judgement),
            "relevance": one.judgement.relevance,
            "sentence": {"text": one.sentence.text, "start": one.sentence.start, "end": one.sentence.end},
        }
        for index, one in enumerate(found.results)
    ]
    deciding = _probabilities(found.deciding.judgement)
    overall = {"verdict": found.verdict, "probabilities": deciding, "index": found.index}
    return {"object": "verification", "model": model, "results": results, "overall": overall}


def _probabilities(judgement: Judgement) -> dict[str, float]:
    return {"supports": judgement.supports, "contradicts": judgement.contradicts, "neither": judgement.neither}
