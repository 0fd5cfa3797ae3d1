"""efetch: gene as numbered text, snp as rootless XML, nucleotide stretches as FASTA, omim as its summary text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from retrieval.gateway.documents import gene_text
from retrieval.gateway.esummary import document_of, snp_markup
from retrieval.gateway.records import Database, SequenceSegment
from retrieval.gateway.replies import PLAIN, XML, Reply, uid_list, whole_number
from retrieval.gateway.store import GatewayStore

_LINE: Final = 70  # letters of a FASTA line at NCBI
_MAX_IDS: Final = 1_000
_RETMAX: Final = 10_000


def efetch(store: GatewayStore, db: Database, params: Mapping[str, str]) -> Reply:
    uids = uid_list(params)[:_MAX_IDS]
    if not uids:
        return Reply(200, PLAIN, "Supplied+id+parameter+is+empty.\n")
    start = whole_number(params, "retstart", 0, _RETMAX)
    uids = uids[start : start + whole_number(params, "retmax", _RETMAX, _RETMAX)]
    if db == "gene":
        return Reply(200, PLAIN, "".join(_genes(store, uids)) + "\n")
    if db == "snp":
        return _snps(store, uids)
    if db == "omim":
        return Reply(200, PLAIN, "".join(_entries(store, uids)) + "\n")
    return _fasta(store, uids, params)


def _genes(store: GatewayStore, uids: list[str]) -> Iterator[str]:
    for number, uid in enumerate(uids, 1):
        gene = store.gene(str(int(uid))) if uid.isascii() and uid.isdigit() else None
        yield gene_text(gene, number) if gene else f"\n{number}. Error occurred: cannot get document summary {uid}\n"


def _snps(store: GatewayStore, uids: list[str]) -> Reply:
    bare = (uid[2:] if uid.lower().startswith("rs") else uid for uid in uids)
    known = (document_of(store, "snp", str(int(uid))) for uid in bare if uid.isascii() and uid.isdigit())
    body = "\n".join(snp_markup(document) for document in known if document)
    if not body:
        return Reply(400, PLAIN, "cannot get document summary\n")
    return Reply(200, XML, body + "\n")


def _entries(store: GatewayStore, uids: list[str]) -> Iterator[str]:
    for number, uid in enumerate(uids, 1):
        entry = store.omim(uid)
        if entry is None:
            yield f"\n{number}. Error occurred: cannot get document summary {uid}\n"
            continue
        alternative = f"\n{entry.alternative_titles}" if entry.alternative_titles else ""
        locus = f"\nLocus: {entry.locus}" if entry.locus else ""
        yield f"\n{number}. {entry.prefix}{entry.mim_number} {entry.title}{alternative}{locus}\nID: {uid}\n"


def _fasta(store: GatewayStore, uids: list[str], params: Mapping[str, str]) -> Reply:
    first = whole_number(params, "seq_start", 0, 10**11)
    last = whole_number(params, "seq_stop", 10**11, 10**11)
    segments = [segment for uid in uids for segment in store.segments(uid.split(":")[0]) if _named(segment, uid)]
    pieces = [piece for segment in segments if (piece := _clipped(segment, first, last))]
    if not pieces:
        return Reply(400, PLAIN, "Error: Failed to retrieve sequence\n")
    return Reply(200, PLAIN, "\n".join(pieces) + "\n")


def _named(segment: SequenceSegment, uid: str) -> bool:
    return uid in (segment.uid, segment.accession, segment.accession.split(".")[0])


def _clipped(segment: SequenceSegment, first: int, last: int) -> str:
    """The part of a stretch between two 1-based positions of its record, as FASTA; "" where they do not meet."""
    low, high = max(segment.start, first), min(segment.stop, last)
    if low > high:
        return ""
    letters = segment.sequence[low - segment.start : high - segment.start + 1]
    lines = (letters[at : at + _LINE] for at in range(0, len(letters), _LINE))
    return f">{segment.accession}:{low}-{high} {segment.title}\n" + "\n".join(lines) + "\n"
