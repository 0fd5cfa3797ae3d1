"""Implement ``arrowhead verify``: hold each sentence of a text, such as another system's answer, against evidence.

Works without a running server. Exit status: 0 every sentence is supported, 1 one is not, 2 the command is wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from server.cli.options import ConfigFile
from server.printable import for_json

if TYPE_CHECKING:
    from retrieval.corpus.search.ranking import RankedPassage
    from server.evidence.passages import Retrieval
    from server.evidence.verification import Verification
    from server.evidence.verifier import VerifierService
    from server.settings.schema import Settings

_STDIN: Final = "-"
_EVIDENCE: Final = "evidence"
# Short enough for an encoder to read the whole of it.
_PASSAGE_CHARS: Final = 1000
_MAX_K: Final = 100
_WIDTH: Final = 120


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """Hold a claim, the passages that it was held against, and what they say; None where nothing was found."""

    claim: str
    passages: Sequence[RankedPassage]
    found: Verification | None

    @property
    def is_supported(self) -> bool:
        return self.found is not None and self.found.verdict == "supported"

    @property
    def deciding(self) -> RankedPassage | None:
        return None if self.found is None else self.passages[self.found.index]


# Longer than forty lines by its options: typer reads them from this signature.
def verify(
    file: Annotated[
        Path | None, typer.Argument(help="text whose sentences are checked; - reads standard input", show_default=False)
    ] = None,
    claim: Annotated[str, typer.Option(metavar="TEXT", help="check this in place of a file", show_default=False)] = "",
    evidence: Annotated[
        list[Path] | None, typer.Option("--evidence", "-e", metavar="FILE", help="PDF, Word, HTML, text, XML …")
    ] = None,
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", metavar="NAME", help="passages that are stored here")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, max=_MAX_K, help="passages that each sentence is held against")] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="one object, with all probabilities")] = False,
    config: ConfigFile = None,
) -> int:
    if (file is None) == (not claim.strip()):
        raise typer.BadParameter("either a file or --claim is needed", param_hint="FILE")
    if bool(evidence) == bool(namespace):
        raise typer.BadParameter("either --evidence or --namespace is needed", param_hint="--evidence")
    for path in evidence or ():
        if not path.is_file():
            raise typer.BadParameter(f"there is no file {path}", param_hint="--evidence")
    claims = [claim] if file is None else claims_of(_read(file))
    import asyncio

    from server.evidence.verifier import verifier_service
    from server.settings.loading import load_settings

    settings = load_settings(None, config)
    with _namespaces(settings, evidence or (), namespace or (), config) as (retrieval, names):
        passages = find_passages(retrieval, names, claims, k)
        service = verifier_service(settings)
        checked = asyncio.run(check(service, claims, passages))
    if as_json:
        print(for_json(json.dumps(_as_object(service.name, checked), ensure_ascii=False)))
    else:
        show(checked)
    return 0 if all(one.is_supported for one in checked) else 1


def claims_of(text: str) -> list[str]:
    """Return the sentences of a text, of two words or more, without their marks of citations.

    Raises:
        BadParameter: it has none.
    """
    from server.methods.shared.sentences import renumbered, split_sentences

    claims = [renumbered(one.line, {}).strip() for one in split_sentences(text, least_words=2, longest=None)]
    if not claims:
        raise typer.BadParameter("there is no sentence in it", param_hint="FILE")
    return claims


def find_passages(retrieval: Retrieval, names: list[str], claims: Sequence[str], k: int) -> list[list[RankedPassage]]:
    """Return the passages of namespaces that are nearest to each claim."""
    from retrieval.corpus.search.searcher import SearchOptions
    from server.cli.search import retriever_of

    options = SearchOptions(k=k, retriever=retriever_of(retrieval, "", names))
    return retrieval.searcher.search_many(claims, names, options)


async def check(
    service: VerifierService, claims: Sequence[str], passages: Sequence[Sequence[RankedPassage]]
) -> list[CheckedClaim]:
    """Return what the passages of each claim say of it.

    Raises:
        VERIFIER_UNAVAILABLE: the model cannot be loaded, failed or took too long.
    """
    from server.evidence.verification import verify as verify_pieces

    try:
        return [
            CheckedClaim(
                claim,
                found,
                await verify_pieces(service, claim, [one.passage.text for one in found]) if found else None,
            )
            for claim, found in zip(claims, passages, strict=True)
        ]
    finally:
        await service.close()


def show(checked: Sequence[CheckedClaim]) -> None:
    """Print a table: verdict, its probability, sentence, what decides, and where that stands."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("verdict", "p", "sentence", "evidence", "place", box=None, pad_edge=False, padding=(0, 2, 1, 0))
    for one in checked:
        table.add_row(*(Text(cell) for cell in _cells(one)))
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    console.print(table)


def _cells(one: CheckedClaim) -> tuple[str, str, str, str, str]:
    if one.found is None or one.deciding is None:
        return ("not told", "", one.claim, "", "nothing was found")
    judgement, verdict = one.found.deciding.judgement, one.found.verdict
    shares = {"supported": judgement.supports, "contradicted": judgement.contradicts, "not_told": judgement.neither}
    quote = one.found.deciding.sentence.line
    nearest = quote if verdict != "not_told" else f"nearest: {quote}"
    return (verdict.replace("_", " "), f"{shares[verdict]:.2f}", one.claim, nearest, _place(one.deciding))


def _place(ranked: RankedPassage) -> str:
    passage, document = ranked.passage, ranked.document
    page = f"page {passage.page}" if passage.page else ""
    return ", ".join(filter(None, (document.title or document.document_id, passage.section, page)))


def _as_object(model: str, checked: Sequence[CheckedClaim]) -> dict[str, Any]:
    return {"model": model, "supported": all(one.is_supported for one in checked), "claims": [*map(_as_row, checked)]}


def _as_row(one: CheckedClaim) -> dict[str, Any]:
    if one.found is None or one.deciding is None:
        return {"claim": one.claim, "verdict": "not_told", "evidence": None}
    judgement, sentence, ranked = one.found.deciding.judgement, one.found.deciding.sentence, one.deciding
    return {
        "claim": one.claim,
        "verdict": one.found.verdict,
        "probabilities": {
            "supports": judgement.supports,
            "contradicts": judgement.contradicts,
            "neither": judgement.neither,
        },
        "relevance": judgement.relevance,
        "evidence": {
            "text": sentence.text,
            "namespace": ranked.namespace,
            "passage": str(ranked.passage.passage_id),
            "document": ranked.document.document_id,
            "title": ranked.document.title,
            "section": ranked.passage.section,
            "page": ranked.passage.page or None,
        },
    }


def _read(file: Path) -> str:
    try:
        if str(file) == _STDIN:
            return sys.stdin.buffer.read().decode()
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{file}: cannot be read: {error.strerror}", param_hint="FILE") from error
    except UnicodeDecodeError as error:
        message = f"{file}: no text in UTF-8; what is checked is text, and --evidence takes other files"
        raise typer.BadParameter(message, param_hint="FILE") from error


@contextmanager
def _namespaces(
    settings: Settings, files: Sequence[Path], names: Sequence[str], config: Path | None
) -> Iterator[tuple[Retrieval, list[str]]]:
    """Open the namespaces of these names or, of files, one that is removed afterwards."""
    import asyncio
    from tempfile import TemporaryDirectory

    from server.cli.namespaces import opened
    from server.wiring.retrieval import build_retrieval

    if names:
        with opened(config) as (_, retrieval):
            yield retrieval, list(names)
        return
    with TemporaryDirectory(prefix="arrowhead-verify-") as folder:
        retrieval = build_retrieval(settings.retrieval, Path(folder))
        try:
            add_evidence(settings, retrieval, files)
            yield retrieval, [_EVIDENCE]
        finally:
            asyncio.run(retrieval.close())


def add_evidence(settings: Settings, retrieval: Retrieval, files: Sequence[Path]) -> None:
    """Read files into a namespace of their own.

    Raises:
        DocumentUnreadable: a file could not be read whole.
    """
    from retrieval.corpus.chunking import Chunking
    from retrieval.corpus.ingest.add import try_file
    from retrieval.corpus.items import ReadOptions
    from retrieval.corpus.namespaces.settings import NamespaceSettings

    chosen = NamespaceSettings(encoder=settings.retrieval.encoder, tokens=False, chunking=Chunking(size=_PASSAGE_CHARS))
    retrieval.namespaces.create(_EVIDENCE, chosen)
    for path in files:
        result = try_file(retrieval.namespaces, _EVIDENCE, path, ReadOptions())
        if result.refused is not None:
            raise result.refused
