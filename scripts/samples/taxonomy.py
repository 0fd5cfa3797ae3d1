"""Write the taxonomy dump: taxdump.tar.gz, taxdmp.zip, or a directory."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scripts.samples.world import TAX_IDS, World, term

_NAMED: Final = {
    1: ("root", "no rank", 1),
    9606: ("Homo sapiens", "species", 5),
    10090: ("Mus musculus", "species", 6),
    10116: ("Rattus norvegicus", "species", 6),
}
_COMMON: Final = {9606: "human", 10090: "house mouse", 10116: "Norway rat"}


def write_taxdump(path: Path, world: World, taxa: int = 1000) -> int:
    """A tar.gz, a zip, or a directory, by the name's ending. Returns the number of taxa."""
    rng = world.rng("taxonomy")
    ids = sorted({1, *TAX_IDS, *(9_000_001 + at for at in range(taxa))})[: max(taxa, 20)]
    nodes = "".join(_node(tax_id) for tax_id in ids).encode()
    names = "".join(row for tax_id in ids for row in _names(tax_id, term(rng))).encode()
    files = {"division.dmp": b"5\t|\tPRI\t|\tPrimates\t|\t\t|\n", "names.dmp": names, "nodes.dmp": nodes,
             "readme.txt": b"An invented sample\n"}  # fmt: skip
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
    elif path.suffix == ".gz":
        with tarfile.open(path, "w:gz", compresslevel=3) as archive_:
            for name, data in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive_.addfile(member, io.BytesIO(data))
    else:
        path.mkdir()
        for name, data in files.items():
            (path / name).write_bytes(data)
    return len(ids)


def _node(tax_id: int) -> str:
    _, rank, division = _NAMED.get(tax_id, ("", "species" if tax_id % 3 else "genus", tax_id % 12))
    cells = (
        tax_id,
        1,
        rank,
        "XX" if rank == "species" else "",
        division,
        1,
        1 + (tax_id % 3 == 0) * 10,
        1,
        2,
        1,
        1,
        0,
        "",
    )
    return "\t|\t".join(map(str, cells)) + "\t|\n"


def _names(tax_id: int, word: str) -> Iterator[str]:
    scientific = _NAMED.get(tax_id, (f"{word.capitalize()} {word[:5]}ensis {tax_id}", "", 0))[0]
    rows = [(scientific, "", "scientific name")]
    if tax_id in _COMMON:
        rows.insert(0, (_COMMON[tax_id], "", "genbank common name"))
    if tax_id % 4 == 0:
        rows += [
            (f"{scientific} (Müller, 1776)", "", "authority"),
            (f"{word} beast", f"{word} beast <{tax_id}>", "synonym"),
        ]
    for name, unique, kind in rows:
        yield f"{tax_id}\t|\t{name}\t|\t{unique}\t|\t{kind}\t|\n"
