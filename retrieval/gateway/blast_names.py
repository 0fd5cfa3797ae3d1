"""Resolve the database name of a search: an exact name first, else one of NCBI's usual names as an alias.

``nt``, ``core_nt`` and the other well-known names mean the site's default nucleotide database, or the built-in sample
if none is the default; ``nr``, ``swissprot`` and so on mean the default protein database. Results name the database
that was searched, so that a sample is not mistaken for the whole of GenBank. Pure functions, no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from retrieval.gateway.blast_databases import BlastDatabase, Discovery
from retrieval.gateway.blast_parameters import Program, shown
from retrieval.gateway.blast_sequences import Molecule

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
        standing_in = _default(found.databases.values(), molecule) or (sample if molecule == "nucl" else None)
        if standing_in is not None:
            return standing_in
    if exact is not None:
        holds = _WORDS[exact.molecule]
        raise ValueError(f"Error: database {exact.name} holds {holds}; {program.name} searches {_WORDS[molecule]}")
    raise ValueError(f"Error: database {shown(text)} was not found; available here: {_listed(found, sample)}")


def _default(databases: Iterable[BlastDatabase], molecule: Molecule) -> BlastDatabase | None:
    marked = sorted((d for d in databases if d.default and d.molecule == molecule), key=lambda d: d.name)
    return marked[0] if marked else None


def _listed(found: Discovery, sample: BlastDatabase | None) -> str:
    names = {database.name: database for database in (*([sample] if sample else []), *found.databases.values())}
    parts = [f"{name} ({_WORDS[database.molecule]})" for name, database in sorted(names.items())]
    return ", ".join(parts) or "none"
