"""Name the records of a reply as people know them, for the sources below an answer. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from retrieval.ncbi.replies.condense import gene_rank, line_of
from retrieval.ncbi.replies.records import DocRecord, GeneRecord, OmimRecord, ParsedReply, Record, RecordList, SnpRecord
from retrieval.types import Focus

# More than these are never listed as sources.
_MAX_RECORDS: Final = 100
_MAX_TEXT: Final = 2000
_MAX_TITLE: Final = 160


def titled(parsed: ParsedReply, focus: Focus) -> list[dict[str, Any]]:
    """Return a JSON-able object for each record of a reply, genes of the requested organism and name first.

    ``id``, ``title``, ``text`` with all that is known of the record, ``replaced_by``: the id of the record that
    replaces it, "" for none.
    """
    if not isinstance(parsed, RecordList):
        return []
    records = list(parsed.records)
    genes = [record for record in records if isinstance(record, GeneRecord)]
    if len(genes) == len(records):
        records = [*sorted(genes, key=lambda gene: gene_rank(gene, focus))]
    return [one for record in records[:_MAX_RECORDS] if (one := _titled(record, focus)) is not None]


def _titled(record: Record, focus: Focus) -> dict[str, Any] | None:
    title_of = _TITLES.get(type(record))
    if title_of is None:
        return None
    text = f"{line_of(record, focus)} {getattr(record, 'summary', '')}"
    return {
        "id": getattr(record, "uid", ""),
        "title": " ".join(title_of(record).split())[:_MAX_TITLE],
        "text": text[:_MAX_TEXT],
        "replaced_by": getattr(record, "replaced_by", ""),
    }


def _gene(gene: GeneRecord) -> str:
    return ", ".join(filter(None, (gene.symbol, gene.name, gene.organism)))


def _snp(snp: SnpRecord) -> str:
    place = snp.position if ":" in snp.position else f"{snp.chromosome} {snp.position}".strip()
    place = f"chr{place}" if place else ""
    return ", ".join(filter(None, (", ".join(name for name, _ in snp.genes[:3]), place)))


def _omim(entry: OmimRecord) -> str:
    title = entry.title if entry.title != entry.title.upper() else entry.title.capitalize()
    return f"{entry.symbol}, {title}" if entry.is_gene and entry.symbol else title


def _doc(doc: DocRecord) -> str:
    return doc.title


_TITLES: Final[dict[type, Callable[[Any], str]]] = {
    GeneRecord: _gene,
    SnpRecord: _snp,
    OmimRecord: _omim,
    DocRecord: _doc,
}
