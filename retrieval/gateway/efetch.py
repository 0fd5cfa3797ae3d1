"""Implement efetch: complete records, in the forms of their database."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from retrieval.gateway.documents import gene_text
from retrieval.gateway.efetch_forms import WHOLE, form_of
from retrieval.gateway.esummary import esummary
from retrieval.gateway.records import Database, SequenceSegment
from retrieval.gateway.replies import (
    PLAIN,
    XML,
    Reply,
    efetch_error,
    page_of,
    prolog,
    text_of,
    uid_list,
    whole_number,
)
from retrieval.gateway.store import GatewayStore
from retrieval.gateway.stretches import Stretches
from retrieval.gateway.summaries import Summaries

_LINE: Final = 70  # letters of a FASTA line at NCBI
_MAX_IDS: Final = 10_000
_MAX_CHARS: Final = 64 * 2**20
_NO_IDS: Final = "ID list is empty! Possibly it has no correct IDs."
_OLDER: Final[frozenset[Database]] = frozenset({"gene", "snp", "omim", "nuccore"})
# Databases whose docsum has a text form, for any retmode but xml.
_SUMMARY_TEXTS: Final[frozenset[Database]] = _OLDER | {"pubmed"}
_SUMMARIES_ONLY: Final[frozenset[Database]] = frozenset({"clinvar", "medgen"})
_PREFIXES: Final[Mapping[Database, str]] = {"pmc": "pmc", "snp": "rs", "taxonomy": "txid"}
# The DTD of esearch declares a list of IDs, too; efetch has none of its own.
_ID_LIST: Final = "-//NLM//DTD esearch 20060628//EN|https://eutils.ncbi.nlm.nih.gov/eutils/dtd/20060628/esearch.dtd"


def efetch(store: GatewayStore, db: Database, params: Mapping[str, str]) -> Reply:
    """Return the records of a call.

    ``rettype`` and ``retmode`` are those of table 1 of https://www.ncbi.nlm.nih.gov/books/NBK25499/.
    """
    uids = uid_list(params)
    if not uids:
        return Reply(200, PLAIN, "Supplied+id+parameter+is+empty.\n")
    if len(uids) > _MAX_IDS:
        return efetch_error(f"Too many UIDs in request. Maximum number of UIDs is {_MAX_IDS}.")
    uids = page_of(uids, params)
    rettype, retmode = (params.get(name, "").strip().lower() for name in ("rettype", "retmode"))
    try:
        if rettype == "uilist":
            return _uid_list(store, db, uids, retmode)
        if rettype == "docsum" and (retmode in ("", "xml") or db not in _SUMMARY_TEXTS):
            return esummary(store, db, {"id": ",".join(uids)})
        return _older(store, db, uids, params) if db in _OLDER else _newer(store, db, uids, (rettype, retmode))
    except _TooLargeError:
        return efetch_error(f"The reply would be larger than {_MAX_CHARS} characters. Ask for fewer UIDs.")


class _TooLargeError(Exception):
    pass


def _joined(pieces: Iterable[str]) -> str:
    kept, size = list[str](), 0
    for piece in pieces:
        size += len(piece)
        if size > _MAX_CHARS:
            raise _TooLargeError
        kept.append(piece)
    return "".join(kept)


def _numbers(db: Database, uids: list[str]) -> list[str]:
    """Return the IDs that can be UIDs, as NCBI reads them: leading zeros and a database's prefix are ignored."""
    bare = (uid.lower().removeprefix(_PREFIXES.get(db, "")) for uid in uids)
    return list(dict.fromkeys(str(int(uid)) for uid in bare if uid.isascii() and uid.isdigit() and len(uid) <= 12))


def _newer(store: GatewayStore, db: Database, uids: list[str], wanted: tuple[str, str]) -> Reply:
    numbers = [number for number in _numbers(db, uids) if number != "0"]
    if not numbers:
        return efetch_error(_NO_IDS)
    if db in _SUMMARIES_ONLY and wanted[0] in WHOLE:
        return esummary(store, db, {"id": ",".join(numbers)})
    form = form_of(db, *wanted)
    if form is None:
        return efetch_error(f"Report '{wanted[0][:40]}' not found in '{db}' presentation")
    found = (record for number in numbers if (record := store.record(db, number)) is not None)
    return Reply(200, form.content_type, f"{form.head}{_joined(form.pieces(store, found))}{form.tail}")


def _uid_list(store: GatewayStore, db: Database, uids: list[str], retmode: str) -> Reply:
    """Return those of the UIDs that are in the store."""
    if db == "nuccore":
        stretches = Stretches(store)
        known = [segment.uid for uid in uids for segment in stretches.named(uid)]
    else:
        numbers = _numbers(db, uids)
        there = store.standings(db, map(int, numbers))
        known = [number for number in numbers if int(number) in there]
    if retmode == "xml":
        ids = "".join(f"\t<Id>{text_of(uid)}</Id>\n" for uid in known)
        return Reply(200, XML, f"{prolog('IdList', _ID_LIST)}<IdList>\n{ids}</IdList>\n")
    return Reply(200, PLAIN, "".join(f"{uid}\n" for uid in known))


def _older(store: GatewayStore, db: Database, uids: list[str], params: Mapping[str, str]) -> Reply:
    """Return the reply of a database that has one form for every rettype."""
    if db == "gene":
        return Reply(200, PLAIN, _joined(_genes(store, uids)) + "\n")
    if db == "snp":
        return _snps(store, uids)
    if db == "omim":
        return Reply(200, PLAIN, _joined(_entries(store, uids)) + "\n")
    return _fasta(store, uids, params)


def _genes(store: GatewayStore, uids: list[str]) -> Iterator[str]:
    for number, uid in enumerate(uids, 1):
        gene = store.gene(str(int(uid))) if uid.isascii() and uid.isdigit() else None
        yield gene_text(gene, number) if gene else f"\n{number}. Error occurred: cannot get document summary {uid}\n"


def _snps(store: GatewayStore, uids: list[str]) -> Reply:
    forms = Summaries(store)
    known = (snp for uid in _numbers("snp", uids) if (snp := store.snp(uid)) is not None)
    body = _joined(forms.markup(snp) + "\n" for snp in known)
    if not body:
        return Reply(400, PLAIN, "cannot get document summary\n")
    return Reply(200, XML, body)


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
    stretches = Stretches(store)
    segments = (segment for uid in uids for segment in stretches.named(uid))
    parts = (part for segment in segments if (part := _clipped(segment, first, last)) is not None)
    body = _joined(map(_fasta_entry, parts))
    return Reply(200, PLAIN, body) if body else Reply(400, PLAIN, "Error: Failed to retrieve sequence\n")


def _clipped(segment: SequenceSegment, first: int, last: int) -> SequenceSegment | None:
    """Return the part of a segment between two 1-based positions of its record; None if they do not overlap."""
    low, high = max(segment.start, first), min(segment.stop, last)
    if low > high:
        return None
    letters = segment.sequence[low - segment.start : high - segment.start + 1]
    return dataclasses.replace(segment, start=low, stop=high, sequence=letters)


def _fasta_entry(part: SequenceSegment) -> str:
    lines = (part.sequence[at : at + _LINE] for at in range(0, len(part.sequence), _LINE))
    return f">{part.uid} {part.title}\n" + "\n".join(lines) + "\n\n"
