"""Open the gateway's store, or build it from the sample of facts that the package carries."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from retrieval.formats.records import Corpus, Gene, OmimEntry, Organism, SequenceSegment, Snp
from retrieval.gateway.errors import GatewayDataError
from retrieval.gateway.store.articles import sample_article
from retrieval.gateway.store.reader import SITE, GatewayStore, build_store

log = logging.getLogger(__name__)

SAMPLE_DIR: Final = Path(__file__).parent / "sample"
_FILES: Final = ("organisms.tsv", "genes.tsv", "snps.tsv", "omim.tsv", "sequences.tsv", "articles.tsv")


def load_corpus(directory: Path = SAMPLE_DIR) -> Corpus:
    """Read the records of one directory of TSV files.

    Raises:
        GatewayDataError: a file is missing or malformed; the message names it.
    """
    organisms = {o.tax_id: o for o in map(_organism, _rows(directory / "organisms.tsv"))}
    try:
        return Corpus(
            fingerprint=corpus_fingerprint(directory),
            organisms=tuple(organisms.values()),
            genes=tuple(_gene(row, organisms) for row in _rows(directory / "genes.tsv")),
            snps=tuple(map(_snp, _rows(directory / "snps.tsv"))),
            omim=tuple(map(_omim, _rows(directory / "omim.tsv"))),
            segments=tuple(map(_segment, _rows(directory / "sequences.tsv"))),
            articles=tuple(map(sample_article, _rows(directory / "articles.tsv"))),
        )
    except (KeyError, ValueError) as error:
        raise GatewayDataError(f"{directory}: a record is malformed: {error!r}") from error


def corpus_fingerprint(directory: Path = SAMPLE_DIR) -> str:
    """Return the SHA-256 over the names and bytes of the files, in hexadecimal."""
    digest = hashlib.sha256()
    for name in _FILES:
        digest.update(name.encode() + b"\0" + _read(directory / name).encode() + b"\0")
    return digest.hexdigest()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise GatewayDataError(f"{path}: cannot be read: {error.strerror}") from error


def _rows(path: Path) -> Iterator[Mapping[str, str]]:
    header, *lines = _read(path).rstrip("\n").split("\n")
    columns = header.split("\t")
    for number, line in enumerate(lines, 2):
        cells = line.split("\t")
        if len(cells) != len(columns):
            raise GatewayDataError(f"{path}:{number}: {len(cells)} cells, {len(columns)} expected")
        yield dict(zip(columns, cells, strict=True))


def _many(cell: str) -> tuple[str, ...]:
    return tuple(part for part in cell.split("|") if part)


def _pairs(cell: str) -> tuple[tuple[str, str], ...]:
    return tuple((left, right) for left, _, right in (part.partition(":") for part in _many(cell)))


def _whole(cell: str) -> int | None:
    return int(cell) if cell else None


def _organism(row: Mapping[str, str]) -> Organism:
    return Organism(int(row["tax_id"]), row["scientific_name"], row["common_name"], _many(row["other_names"]))


def _gene(row: Mapping[str, str], organisms: Mapping[int, Organism]) -> Gene:
    return Gene(
        gene_id=int(row["gene_id"]),
        symbol=row["symbol"],
        name=row["name"],
        organism=organisms[int(row["tax_id"])],
        official_symbol=row["official_symbol"],
        gene_type=row["gene_type"],
        chromosome=row["chromosome"],
        map_location=row["map_location"],
        aliases=_many(row["aliases"]),
        designations=_many(row["designations"]),
        mim=_many(row["mim"]),
        ensembl=row["ensembl"],
        accession=row["accession"],
        start=_whole(row["start"]),
        stop=_whole(row["stop"]),
        exons=_whole(row["exons"]) or 0,
        weight=_whole(row["weight"]) or 0,
        status=_whole(row["status"]) or 0,
        current_id=_whole(row["current_id"]) or 0,
        nomenclature=row["nomenclature"],
        summary=row["summary"],
        keywords=_many(row["keywords"]),
    )


def _snp(row: Mapping[str, str]) -> Snp:
    texts = {name: row[name] for name in _SNP_TEXTS}
    return Snp(snp_id=int(row["snp_id"]), genes=_pairs(row["genes"]), mafs=_pairs(row["mafs"]), **texts)


_SNP_TEXTS: Final = (
    "accession",
    "chromosome",
    "position",
    "position_grch37",
    "spdi",
    "function_class",
    "snp_class",
    "allele",
    "docsum",
    "clinical",
    "handles",
    "validated",
    "ss",
    "orig_build",
    "upd_build",
    "created",
    "updated",
)


def _omim(row: Mapping[str, str]) -> OmimEntry:
    return OmimEntry(int(row["mim_number"]), row["prefix"], row["title"], row["alternative_titles"], row["locus"])


def _segment(row: Mapping[str, str]) -> SequenceSegment:
    segment = SequenceSegment(
        row["accession"],
        int(row["start"]),
        int(row["stop"]),
        int(row["record_length"]),
        int(row["tax_id"]),
        row["title"],
        row["sequence"],
    )
    if segment.stop - segment.start + 1 != len(segment.sequence):
        raise ValueError(f"{segment.uid}: the coordinates span another length than the sequence")
    return segment


STORE_NAME: Final = "gateway.sqlite"
SITE_MARK: Final = "filled-by-imports"  # beside the store: a site's own data, never rebuilt from the sample


def open_store(data_dir: Path, sample_dir: Path = SAMPLE_DIR) -> GatewayStore:
    """Open the store in ``data_dir``; build it from the sample if it is missing, damaged or of another sample.

    Raises:
        GatewayDataError: a store that a site filled cannot be read (it is never overwritten), or a new one cannot be
            written.
    """
    path = data_dir / STORE_NAME
    try:
        store = GatewayStore(path)
    except GatewayDataError:
        if (data_dir / SITE_MARK).exists():
            raise
        return _built(path, sample_dir)
    if store.kind == SITE or store.fingerprint == corpus_fingerprint(sample_dir):
        return store
    store.close()
    return _built(path, sample_dir)


def _built(path: Path, sample_dir: Path) -> GatewayStore:
    try:
        build_store(load_corpus(sample_dir), path)
    except OSError as error:
        raise GatewayDataError(f"{path}: cannot be written: {error.strerror}") from error
    log.info("gateway store built at %s", path)
    return GatewayStore(path)
