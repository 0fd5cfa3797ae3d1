"""Parse and check a complete Put request: database, program, query and arguments.

Pure functions, no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from retrieval.gateway.blast_databases import BlastDatabase, Discovery
from retrieval.gateway.blast_names import choose_database
from retrieval.gateway.blast_organisms import TaxidOf, known_taxid, organism_limit
from retrieval.gateway.blast_parameters import (
    Program,
    for_short_queries,
    hit_list_size,
    is_on,
    read_program,
    search_arguments,
)
from retrieval.gateway.blast_sequences import QuerySequence, read_sequences


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
    if database.taxids is False:
        raise ValueError(f"Error: ENTREZ_QUERY: the sequences of database {database.name} do not name their organisms")
    return ("-negative_taxids" if limit.excluded else "-taxids", ",".join(map(str, limit.taxids)))
