"""Parse and check a complete Put request: database, program, query and arguments.

Pure functions, no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from retrieval.gateway.blast.databases.catalog import BlastDatabase, Discovery
from retrieval.gateway.blast.parameters import (
    Molecule,
    Program,
    QuerySequence,
    for_short_queries,
    hit_list_size,
    is_on,
    read_program,
    read_sequences,
    search_arguments,
    shown,
)

USUAL_NAMES: Final[dict[Molecule, frozenset[str]]] = {
    "nucl": frozenset(
        {
            "nt", "core_nt", "nr", "nt_euk", "nt_prok", "nt_viruses", "nt_others", "refseq_rna", "refseq_select_rna",
            "refseq_genomes", "refseq_representative_genomes", "refseq_reference_genomes", "human_genome", "wgs",
            "est", "gss", "htgs", "pat", "pdbnt", "tsa_nt", "16s_ribosomal_rna", "18s_fungal_sequences",
        }
    ),
    "prot": frozenset(
        {
            "nr", "nr_clustered", "refseq_protein", "refseq_select_prot", "swissprot", "landmark", "pdb", "pdbaa",
            "pataa", "env_nr", "tsa_nr",
        }
    ),
}  # fmt: skip
_WORDS: Final = {"nucl": "nucleotides", "prot": "proteins"}
_FALLBACK: Final[dict[Molecule, str]] = {"nucl": "nt", "prot": "nr"}


def choose_database(text: str, program: Program, found: Discovery, sample: BlastDatabase | None) -> BlastDatabase:
    """Return the database to search.

    Raises:
        ValueError: no searchable database of the program's molecule has this name; the message, for the user, says
            why, or lists the available ones.
    """
    molecule = program.database_molecule
    name = text.strip().lower() or _FALLBACK[molecule]
    exact = found.databases.get(name) or (sample if sample is not None and sample.name == name else None)
    if exact is not None and exact.molecule == molecule:
        return exact
    if problem := found.problems.get(name):
        raise ValueError(f"Error: {problem.message}")
    if name in USUAL_NAMES[molecule]:
        substitute = _only(found.databases.values(), molecule) or (sample if molecule == "nucl" else None)
        if substitute is not None:
            return substitute
    if exact is not None:
        contents = _WORDS[exact.molecule]
        raise ValueError(f"Error: database {exact.name} holds {contents}; {program.name} searches {_WORDS[molecule]}")
    raise ValueError(f"Error: database {shown(text)} was not found; available here: {_listed(found, sample)}")


def _only(databases: Iterable[BlastDatabase], molecule: Molecule) -> BlastDatabase | None:
    of_molecule = [database for database in databases if database.molecule == molecule]
    return of_molecule[0] if len(of_molecule) == 1 else None


def _listed(found: Discovery, sample: BlastDatabase | None) -> str:
    names = {database.name: database for database in (*([sample] if sample else []), *found.databases.values())}
    parts = [f"{name} ({_WORDS[database.molecule]})" for name, database in sorted(names.items())]
    return ", ".join(parts) or "none"


_FIELD: Final = r"\[\s*(?:organism|orgn|porgn|primary organism)(?::[^\]]*)?\s*\]"
_TERM: Final = re.compile(rf'\s*"?\s*(txid\d{{1,9}}|[A-Za-z][^"\[\]]*?)\s*"?\s*{_FIELD}\s*', re.IGNORECASE)
# The ID identifies the organism; the text before it must be a name only, without operators.
_PORGN: Final = re.compile(
    r"""(?:"[^"\[\]]*" ?|(?:(?!\b(?:AND|NOT)\b)[^"\[\]])*)\[ ?porgn:__txid(\d{1,9}) ?\]""", re.IGNORECASE
)
_EVERYTHING: Final = re.compile(r"\s*\(?\s*all\s*\[\s*filter\s*\]\s*\)?\s*(?=NOT\b)", re.IGNORECASE)
_MOST: Final = 50
# IDs of NCBI Taxonomy.
_TAXIDS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "homo sapiens": 9606, "human": 9606, "mus musculus": 10090, "mouse": 10090, "house mouse": 10090,
        "rattus norvegicus": 10116, "rat": 10116, "norway rat": 10116, "danio rerio": 7955, "zebrafish": 7955,
        "caenorhabditis elegans": 6239, "saccharomyces cerevisiae": 4932, "gallus gallus": 9031, "chicken": 9031,
        "drosophila melanogaster": 7227, "fruit fly": 7227, "bos taurus": 9913, "cattle": 9913, "sus scrofa": 9823,
        "pig": 9823, "canis lupus": 9612, "canis lupus familiaris": 9615, "dog": 9615, "pan troglodytes": 9598,
        "chimpanzee": 9598, "macaca mulatta": 9544, "rhesus monkey": 9544, "xenopus laevis": 8355,
        "xenopus tropicalis": 8364, "arabidopsis thaliana": 3702, "schizosaccharomyces pombe": 4896,
        "oryctolagus cuniculus": 9986, "rabbit": 9986, "ovis aries": 9940, "sheep": 9940, "equus caballus": 9796,
        "horse": 9796, "felis catus": 9685, "cat": 9685, "escherichia coli": 562, "e. coli": 562,
    }
)  # fmt: skip
TaxidOf = Callable[[str], int | None]


@dataclass(frozen=True, slots=True)
class OrganismLimit:
    """Restrict a search to these organisms, or with ``excluded`` to all others; no ``taxids``: no restriction."""

    taxids: tuple[int, ...] = ()
    excluded: bool = False


def known_taxid(name: str) -> int | None:
    """Return the taxonomy ID of a frequently searched organism, by its scientific or everyday name."""
    return _TAXIDS.get(" ".join(name.lower().split()))


def organism_limit(text: str, taxid_of: TaxidOf = known_taxid) -> OrganismLimit:
    """Parse ENTREZ_QUERY into a restriction.

    Raises:
        ValueError: ``text`` restricts by anything but organisms, or names an unknown one or too many; the message is
            for the user.
    """
    query = " ".join(text.split())  # the patterns below are slow in long runs of blanks
    if query.lower() in ("", "(none)", "none", "all[filter]", "all [filter]"):
        return OrganismLimit()
    rest = _EVERYTHING.sub("", query)
    negation = re.match(r"NOT\b", rest, re.IGNORECASE)
    # After NOT only parenthesized groups are split: Entrez applies operators left to right, "NOT a OR b" includes b.
    groups = re.split(r"\bNOT\b", rest, flags=re.IGNORECASE)[1:] if negation else [f"({_without_brackets(rest)})"]
    terms = [term for group in groups for term in _alternatives(group.strip())]
    if len(terms) > _MOST:
        raise ValueError(f"Error: ENTREZ_QUERY names {len(terms)} organisms, {_MOST} are allowed")
    return OrganismLimit(tuple(dict.fromkeys(_taxid(term, taxid_of) for term in terms)), negation is not None)


def _alternatives(group: str) -> list[str]:
    inner = _without_brackets(group)
    return [inner] if inner == group else re.split(r"\bOR\b", inner, flags=re.IGNORECASE)


def _without_brackets(text: str) -> str:
    inner = text[1:-1]
    return inner if text.startswith("(") and text.endswith(")") and "(" not in inner and ")" not in inner else text


def _taxid(part: str, taxid_of: TaxidOf) -> int:
    bare = _without_brackets(part.strip()).strip()
    if named := _PORGN.fullmatch(bare):
        return int(named[1])
    term = _TERM.fullmatch(bare)
    if term is None:
        raise ValueError(
            "Error: ENTREZ_QUERY can only name organisms here: txid9606[ORGN] or Homo sapiens[ORGN], "
            "joined by OR, or after NOT"
        )
    if term[1].lower().startswith("txid") and term[1][4:].isdigit():
        return int(term[1][4:])
    if (found := taxid_of(term[1])) is None:
        raise ValueError(
            "Error: ENTREZ_QUERY names an organism that is not known here; give its number: txid9606[ORGN]"
        )
    return found


@dataclass(frozen=True, slots=True)
class BlastQuery:
    """Hold a checked search request.

    ``arguments``: those of blast+, without program, database, threads and output form.
    """

    queries: tuple[QuerySequence, ...]
    database: BlastDatabase
    program: Program
    max_hits: int
    arguments: tuple[str, ...]

    @property
    def fasta(self) -> bytes:
        return "".join(f">{query.title}\n{query.letters}\n" for query in self.queries).encode()

    @property
    def private(self) -> tuple[str, ...]:
        """Return the texts that no message may repeat."""
        return tuple(text for query in self.queries for text in (query.letters, query.title) if text)


def read_put(
    params: Mapping[str, str], found: Discovery, sample: BlastDatabase | None, taxid_of: TaxidOf = known_taxid
) -> BlastQuery:
    """Parse the parameters of a Put request.

    Raises:
        ValueError: the search cannot be run; the message is for the user.
    """
    program = read_program(params)
    database = choose_database(params.get("DATABASE", ""), program, found, sample)
    case = is_on(params, "LCASE_MASK")
    queries = read_sequences(params.get("QUERY", ""), program.query_molecule, keep_case=case)
    program = for_short_queries(program, params, queries)
    arguments = search_arguments(program, params)
    if "-query_loc" in arguments:
        first = int(arguments[arguments.index("-query_loc") + 1].partition("-")[0])
        if any(first > len(query.letters) for query in queries):
            raise ValueError("Error: QUERY_FROM is behind the end of the query")
    arguments += _organisms(params.get("ENTREZ_QUERY", ""), database, taxid_of)
    return BlastQuery(queries, database, program, hit_list_size(params), arguments)


def _organisms(text: str, database: BlastDatabase, taxid_of: TaxidOf) -> tuple[str, ...]:
    limit = organism_limit(text, taxid_of)
    if not limit.taxids:
        return ()
    if not database.taxids:
        raise ValueError(f"Error: ENTREZ_QUERY: the sequences of database {database.name} do not name their organisms")
    return ("-negative_taxids" if limit.excluded else "-taxids", ",".join(map(str, limit.taxids)))
