"""Build the document summary of a record of any database."""

from __future__ import annotations

from typing import Any, Final

from retrieval.gateway.docsum import Item, items_of, v2_document
from retrieval.gateway.docsum_genes import gene_markup, snp_markup
from retrieval.gateway.docsum_layouts import LAYOUTS
from retrieval.gateway.documents import gene_document, omim_document, segment_document, snp_document
from retrieval.gateway.documents_literature import pubmed_document, pubmed_items
from retrieval.gateway.documents_variation import clinvar_document, medgen_document, medgen_items
from retrieval.gateway.literature import citation_of, element_of
from retrieval.gateway.pmc_articles import pmc_citation, pmc_document, pmc_items
from retrieval.gateway.records import (
    Article,
    Concept,
    FullText,
    Gene,
    OmimEntry,
    Record,
    SequenceSegment,
    Snp,
    Taxon,
    Variation,
    database_of,
)
from retrieval.gateway.store import GatewayStore
from retrieval.gateway.taxonomy_forms import Lineages, taxonomy_document, taxonomy_items

_V1_NAMES: Final = {"oid": "Oid", "alttitles": "AltTitles", "accessionversion": "AccessionVersion", "slen": "Length"}


class Summaries:
    """Build the document summaries of one call.

    Methods raise GatewayDataError if a stored article cannot be read.
    """

    def __init__(self, store: GatewayStore) -> None:
        self._lineages = Lineages(store)

    def document(self, record: Record) -> dict[str, Any]:
        """Return the JSON form."""
        match record:
            case Gene():
                return gene_document(record)
            case Snp():
                return snp_document(record)
            case OmimEntry():
                return omim_document(record)
            case SequenceSegment():
                return segment_document(record)
            case Article():
                return pubmed_document(citation_of(element_of(record)), record.date)
            case FullText():
                return pmc_document(pmc_citation(record), record)
            case Variation():
                return clinvar_document(record)
            case Taxon():
                return taxonomy_document(record, self._lineages.above(record))
            case Concept():
                return medgen_document(record)

    def items(self, record: Record) -> list[Item]:
        """Return the items of the older XML layout."""
        match record:
            case Article():
                return pubmed_items(citation_of(element_of(record)))
            case FullText():
                return pmc_items(pmc_citation(record))
            case Taxon():
                return taxonomy_items(self.document(record))
            case Concept():
                return medgen_items(record)
            case _:
                return items_of(self.document(record), _V1_NAMES)

    def markup(self, record: Record) -> str:
        """Return the markup of the database's own XML layout."""
        document = self.document(record)
        if isinstance(record, Gene):
            return gene_markup(document)
        if isinstance(record, Snp):
            return snp_markup(document)
        return v2_document(document, LAYOUTS[database_of(record)])
