"""Define the forms in which efetch sends articles, full texts and taxa."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from retrieval.gateway.abstract_text import abstract_text, summary_text
from retrieval.gateway.literature import citation_of, element_of
from retrieval.gateway.medline import medline_text
from retrieval.gateway.pmc_articles import article_markup, pmc_citation
from retrieval.gateway.records import Article, Database, FullText, Record, Taxon
from retrieval.gateway.replies import PLAIN, XML, prolog
from retrieval.gateway.store import GatewayStore
from retrieval.gateway.taxonomy_forms import Lineages, taxon_markup

WHOLE: Final = frozenset(("", "null", "xml", "full", "native"))
_NAMES: Final[Mapping[Database, tuple[str, ...]]] = {
    "pubmed": ("abstract", "medline", "docsum"),
    "pmc": ("medline",),
}
_PUBMED_SET: Final = (
    "PubmedArticleSet",
    "-//NLM//DTD PubMedArticle, 1st January 2025//EN|https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd",
)
_PMC_SET: Final = (
    "pmc-articleset",
    "-//NLM//DTD ARTICLE SET 2.0//EN|https://dtd.nlm.nih.gov/ncbi/pmc/articleset/nlm-articleset-2.0.dtd",
)
_TAXA_SET: Final = (
    "TaxaSet",
    "-//NLM//DTD Taxon, 14th January 2002//EN|https://www.ncbi.nlm.nih.gov/entrez/query/DTD/taxon.dtd",
)
_SETS: Final[Mapping[Database, tuple[str, str]]] = {"pubmed": _PUBMED_SET, "pmc": _PMC_SET, "taxonomy": _TAXA_SET}


@dataclass(frozen=True, slots=True)
class Form:
    """Render records of one database in one form; ``name``: "xml", or that of a text form."""

    db: Database
    name: str

    @property
    def content_type(self) -> str:
        return XML if self.name == "xml" else PLAIN

    @property
    def head(self) -> str:
        if self.name != "xml":
            return ""
        root, doctype = _SETS[self.db]
        return f"{prolog(root, doctype)}<{root}>\n"

    @property
    def tail(self) -> str:
        return f"</{_SETS[self.db][0]}>\n" if self.name == "xml" else ""

    def pieces(self, store: GatewayStore, records: Iterable[Record]) -> Iterator[str]:
        """Yield one text for each record.

        Raises:
            GatewayDataError: a stored article cannot be read.
        """
        lineages = Lineages(store)
        for number, record in enumerate(records, 1):
            match record:
                case Article():
                    yield self._article(record, number)
                case FullText():
                    citation = pmc_citation(record)
                    yield f"{article_markup(record)}\n" if self.name == "xml" else medline_text(citation)
                case Taxon():
                    yield taxon_markup(record, lineages.above(record))
                case _:
                    raise TypeError(f"efetch has no form of its own for {type(record).__name__}")

    def _article(self, article: Article, number: int) -> str:
        if self.name == "xml":
            return f"{article.xml}\n"
        element = element_of(article)
        citation = citation_of(element)
        if self.name == "medline":
            return medline_text(citation, element)
        if self.name == "docsum":
            return summary_text(citation, number)
        return f"{abstract_text(citation, number)}\n\n"


def form_of(db: Database, rettype: str, retmode: str) -> Form | None:
    """Return the form of a ``rettype``, None if the database has none.

    ``retmode`` xml means the complete record, whatever the ``rettype``.
    """
    texts = _NAMES.get(db, ())
    if db not in _SETS or (rettype not in WHOLE and rettype not in texts):
        return None
    if rettype in WHOLE:
        return Form(db, "abstract" if db == "pubmed" and retmode == "text" else "xml")
    return Form(db, "xml" if retmode == "xml" else rettype)
