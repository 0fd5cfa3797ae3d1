"""Write MedGen's and OMIM's tables: names, identifiers and definitions of concepts; titles and locations of entries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scripts.samples.packing import write_text
from scripts.samples.world import World, cui, disease, mim, term

_SOURCES: Final = ("MSH", "NCI", "MONDO", "Orphanet", "HPO", "SNOMEDCT_US", "GTR")
_PREFIXES: Final = ("Asterisk", "Number Sign", "Percent", "Plus", "NULL", "Caret")
_COPYRIGHT: Final = "# An invented sample in the form of OMIM's file\n# Generated: 2026-01-02\n"


def concepts(world: World) -> int:
    return min(world.genes, 90_000)


def write_names(path: Path, world: World) -> int:
    rows = (f"{cui(at)}|{disease(at)}|{_SOURCES[at % 7]}|{'NY'[at % 97 == 0]}|\n" for at in range(concepts(world)))
    return write_text(path, _with_header("#CUI|name|source|SUPPRESS|\n", rows)) - 1


def write_mappings(path: Path, world: World) -> int:
    """Rows of one concept stand together; some are of OMIM, some of its included titles."""
    return write_text(path, _with_header("#CUI_or_CN_id|pref_name|source_id|source|\n", _mappings(world))) - 1


def write_definitions(path: Path, world: World) -> int:
    """Some definitions have line breaks of either sort, some concepts several, from several sources."""
    return write_text(path, _with_header("#CUI|DEF|source|SUPPRESS|\n", _definitions(world))) - 1


def write_mim_titles(path: Path, world: World) -> int:
    return write_text(path, _titles(world))


def write_gene_map(path: Path, world: World) -> int:
    return write_text(path, _gene_map(world))


def _with_header(header: str, rows: Iterator[str]) -> Iterator[str]:
    yield header
    yield from rows


def _mappings(world: World) -> Iterator[str]:
    for at in range(concepts(world)):
        start = f"{cui(at)}|{disease(at)}"
        yield f"{start}|{cui(at)}|MedGen|\n"
        if at % 3:
            yield f"{start}|{mim(at)}|OMIM|\n"
        if at % 10 == 1:
            yield f"{start}|{mim(at + 1)}|OMIM included|\n"
            yield f"{start}|PS{mim(at)}|OMIM Phenotypic Series|\n"
        if at % 2:
            yield f"{start}|MONDO:9{at:06}|MONDO|\n{start}|Orphanet_9{at:05}|Orphanet|\n"


def _definitions(world: World) -> Iterator[str]:
    rng = world.rng("definitions")
    for at in range(0, concepts(world), 2):
        text = f"A disorder with {term(rng)} and {term(rng)}, first seen in {1950 + at % 70}."
        if at % 20 == 0:
            yield f"{cui(at)}|An older text: {text}|MSH|N|\n"
        if at % 30 == 0:
            text = text.replace(" and ", "\n and ")
        if at % 50 == 0:
            text = text.replace(", first", ",\rfirst")
        yield f"{cui(at)}|{text}|NCI|N|\n"
        if at % 40 == 0:
            yield f"{cui(at)}|Withdrawn.|HPO|Y|\n"


def _titles(world: World) -> Iterator[str]:
    yield _COPYRIGHT
    yield "# Prefix\tMIM Number\tPreferred Title; symbol\tAlternative Title(s); symbol(s)\tIncluded Title(s); symbols\n"
    for at in range(concepts(world)):
        prefix = _PREFIXES[at % len(_PREFIXES)]
        title = f"{disease(at).upper()}; {world.symbol(at)}" if prefix != "Caret" else f"MOVED TO {mim(at + 1)}"
        other = f"{term(world.rng(str(at))).upper()} SYNDROME;; {world.symbol(at)}L" if at % 4 == 0 else ""
        included = f"{disease(at).upper()}, MILD, INCLUDED" if at % 9 == 0 else ""
        yield f"{prefix}\t{mim(at)}\t{title}\t{other}\t{included}\n"
    yield "# The end\n"


def _gene_map(world: World) -> Iterator[str]:
    yield _COPYRIGHT
    yield (
        "# Chromosome\tGenomic Position Start\tGenomic Position End\tCyto Location\tComputed Cyto Location\t"
        "MIM Number\tGene/Locus And Other Related Symbols\tGene Name\tApproved Gene Symbol\tEntrez Gene ID\t"
        "Ensembl Gene ID\tComments\tPhenotypes\tMouse Gene Symbol/ID\n"
    )
    for at in range(0, concepts(world), 6):
        chromosome, start = at % 22 + 1, 10_000 + at * 50
        band = f"{chromosome}{'pq'[at % 2]}{at % 30 + 1}"
        phenotypes = (
            f"{disease(at)}, {mim(at + 1)} (3), Autosomal dominant; {{{disease(at + 6)}}} (1)" if at % 12 else ""
        )
        yield (
            f"chr{chromosome}\t{start}\t{start + 4000}\t{band if at % 18 else ''}\t{band}\t{mim(at)}\t"
            f"{world.symbol(at)}, {world.symbol(at)}L\t{disease(at)}\t{world.symbol(at)}\t{world.gene_id(at)}\t"
            f"ENSG{90_000_000_000 + at}\t\t{phenotypes}\t\n"
        )
