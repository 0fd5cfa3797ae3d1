"""Read efetch's forms of sequences: FASTA, GenBank's text (by Biopython), GBSet, INSDSet and TSeqSet.

Pure. Of a sequence its first letters are kept, and its length.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from xml.etree.ElementTree import Element

from Bio import BiopythonWarning, SeqIO

from retrieval.errors import NCBI_MALFORMED, NcbiError
from retrieval.ncbi.replies.records import DocRecord, Record, TextRecord

HEAD: Final = 120  # letters of a sequence that are shown
_SHOWN_GENES: Final = 5
_END: Final = re.compile(r"^//\s*$", re.MULTILINE)


def fasta_records(body: str) -> Iterator[TextRecord]:
    for block in body.split(">")[1:]:
        title, _, letters = block.partition("\n")
        sequence = "".join(letters.split())
        yield TextRecord(title.strip(), sequence[:HEAD], len(sequence))


def sequences_from_genbank(body: str) -> tuple[list[Record], bool]:
    """Return the records of GenBank's flat file, and whether the last one is cut off.

    Raises:
        NCBI_MALFORMED: none of them is whole, or one cannot be read.
    """
    ends = [found.end() for found in _END.finditer(body)]
    if not ends:
        raise NcbiError("NCBI's GenBank text ends before its first record does", NCBI_MALFORMED)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BiopythonWarning)
            records = [_from_seq_record(one) for one in SeqIO.parse(io.StringIO(body[: ends[-1]]), "genbank")]
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise NcbiError("NCBI's GenBank text cannot be read", NCBI_MALFORMED) from error
    return records, bool(body[ends[-1] :].strip())


def _from_seq_record(record: Any) -> Record:
    source: Mapping[str, Sequence[str]] = next((one.qualifiers for one in record.features if one.type == "source"), {})
    genes = [name for one in record.features for name in one.qualifiers.get("gene", ())]
    letters = str(record.seq) if record.seq.defined else ""
    return _record(
        (record.id, record.description), (record.annotations.get("organism", ""), source, genes), (letters, len(record))
    )


def _record(named: tuple[str, str], about: tuple[str, Any, Sequence[str]], sequence: tuple[str, int]) -> DocRecord:
    """Return a record of (accession, definition), (organism, qualifiers of the source, genes), (letters, length)."""
    (accession, definition), (organism, source, genes), (letters, length) = named, about, sequence
    fields = {
        "organism": organism,
        "chromosome": ", ".join(source.get("chromosome", ())),
        "map": ", ".join(source.get("map", ())),
        "gene": ", ".join(list(dict.fromkeys(genes))[:_SHOWN_GENES]),
        "length": f"{length} letters",
        "sequence": letters[:HEAD].upper() + ("..." if length > HEAD else "") if letters else "",
    }
    shown = {name: text for name, text in fields.items() if text}
    return DocRecord(accession, definition.rstrip("."), shown)


def sequences_from_gbset(root: Element) -> list[Record]:
    """Return the records of a GBSet or an INSDSet, which differ in the prefix of their names."""
    return [_from_gbseq(one, "GB" if one.tag.startswith("GB") else "INSD") for one in root]


def _from_gbseq(record: Element, prefix: str) -> Record:
    def text(name: str) -> str:
        return (record.findtext(f"{prefix}Seq_{name}") or "").strip()

    features = [
        (one.findtext(f"{prefix}Feature_key") or "", _qualifiers(one, prefix))
        for one in record.iterfind(f"{prefix}Seq_feature-table/{prefix}Feature")
    ]
    source = next((qualifiers for key, qualifiers in features if key == "source"), {})
    genes = [name for _, qualifiers in features for name in qualifiers.get("gene", ())]
    accession = text("accession-version") or text("primary-accession") or text("locus")
    letters = text("sequence")
    length = int(text("length") or len(letters))
    return _record((accession, text("definition")), (text("organism"), source, genes), (letters, length))


def _qualifiers(feature: Element, prefix: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in feature.iterfind(f"{prefix}Feature_quals/{prefix}Qualifier"):
        name, value = (one.findtext(f"{prefix}Qualifier_{part}") or "" for part in ("name", "value"))
        found.setdefault(name, []).append(value)
    return found


def sequences_from_tseqset(root: Element) -> list[Record]:
    records: list[Record] = []
    for one in root.iterfind("TSeq"):
        letters = (one.findtext("TSeq_sequence") or "").strip()
        accession = one.findtext("TSeq_accver") or one.findtext("TSeq_sid") or one.findtext("TSeq_gi") or ""
        length = int(one.findtext("TSeq_length") or len(letters))
        title, organism = one.findtext("TSeq_defline") or "", one.findtext("TSeq_orgname") or ""
        records.append(_record((accession, title), (organism, {}, ()), (letters, length)))
    return records
