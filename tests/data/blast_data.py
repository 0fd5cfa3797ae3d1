"""Small BLAST databases and the shortest way to run a search over the URL API's pages."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from retrieval.gateway.blast.service import BlastService
from retrieval.gateway.http_reply import Reply

needs_blast = pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("blastn", "blastp", "makeblastdb", "blast_formatter")),
    reason="ncbi-blast+ is not installed",
)
CODONS = {
    "A": "GCT", "C": "TGT", "D": "GAT", "E": "GAA", "F": "TTT", "G": "GGT", "H": "CAT", "I": "ATT", "K": "AAA",
    "L": "CTG", "M": "ATG", "N": "AAC", "P": "CCG", "Q": "CAG", "R": "CGT", "S": "AGC", "T": "ACC", "V": "GTG",
    "W": "TGG", "Y": "TAT",
}  # fmt: skip
_RID = re.compile(r"RID = (\S+)\n\s+RTOE = (\d+)")


def random_letters(alphabet: str, length: int, seed: int) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=length))


def bases(length: int, seed: int) -> str:
    return random_letters("ACGT", length, seed)


def residues(length: int, seed: int) -> str:
    return random_letters("ACDEFGHIKLMNPQRSTVWY", length, seed)


def make_database(target: Path, entries: Mapping[str, str], *, molecule: str = "nucl", taxids: str = "") -> None:
    """The database ``target``, as makeblastdb makes it; ``taxids``: lines of an accession and its number."""
    target.parent.mkdir(parents=True, exist_ok=True)
    command = ["makeblastdb", "-in", "-", "-dbtype", molecule, "-parse_seqids", "-out", target.name]
    command += ["-title", f"Some {target.name}"]
    if taxids:
        (target.parent / "taxids").write_text(taxids)
        command += ["-taxid_map", "taxids"]
    fasta = "".join(f">{title}\n{letters}\n" for title, letters in entries.items())
    subprocess.run(command, input=fasta, cwd=target.parent, check=True, capture_output=True, text=True)


GENE, PROTEIN = bases(600, 1), residues(300, 2)


def coding(protein: str) -> str:
    return "".join(CODONS[letter] for letter in protein)


def make_site(folder: Path) -> None:
    """Databases "genes" (three, two of them human) and "proteins" (two) in ``folder/blast``."""
    genes = {
        "NM_000001.1 Homo sapiens gene one (ONE), mRNA": GENE,
        "NM_000002.1 Mus musculus gene two (Two), mRNA": bases(600, 3),
        "NM_000003.1 Homo sapiens coding gene (CDS), mRNA": f"ACGT{coding(PROTEIN[:150])}TAAGG",
    }
    proteins = {
        "sp|P00001|ONE_HUMAN Protein one OS=Homo sapiens OX=9606 GN=ONE": PROTEIN,
        "sp|P00002|TWO_MOUSE Protein two OS=Mus musculus OX=10090 GN=Two": residues(300, 4),
    }
    of_genes = "NM_000001.1 9606\nNM_000002.1 10090\nNM_000003.1 9606\n"
    make_database(folder / "blast" / "genes" / "genes", genes, taxids=of_genes)
    make_database(folder / "blast" / "proteins", proteins, molecule="prot", taxids="P00001 9606\nP00002 10090\n")


def running_in(folder: Path) -> list[int]:
    """Numbers of the processes that work in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
    return found


def script(folder: Path, name: str, body: str) -> None:
    """A stand-in for a program of blast+; it has no search path of its own."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


async def put(service: BlastService, query: str, **more: str) -> str:
    """The RID of an accepted search."""
    page = await service.answer({"CMD": "Put", "PROGRAM": "blastn", "DATABASE": "sample", "QUERY": query, **more})
    match = _RID.search(page.body)
    assert match is not None, page.body
    return match[1]


async def refusal(service: BlastService, query: str, **more: str) -> str:
    """Why a search is not accepted."""
    page = await service.answer({"CMD": "Put", "PROGRAM": "blastn", "DATABASE": "sample", "QUERY": query, **more})
    found = re.search(r'<p class="error">(.*?)</p>', page.body, re.DOTALL)
    assert found is not None and re.search(r"RID = *\n", page.body), page.body
    return found[1]


async def finished(service: BlastService, rid: str) -> str:
    """The final status page, asked for as a client does."""
    for _ in range(6000):
        page = (await service.answer({"CMD": "Get", "FORMAT_OBJECT": "SearchInfo", "RID": rid})).body
        if "Status=WAITING" not in page:
            return page
        await asyncio.sleep(0.02)
    raise AssertionError("the search did not end")


async def get(service: BlastService, rid: str, format_type: str, **more: str) -> Reply:
    return await service.answer({"CMD": "Get", "FORMAT_TYPE": format_type, "RID": rid, **more})
