"""Name organisms for gene files if no taxonomy has been imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from retrieval.gateway.records import Organism, Taxon

# Other common names of some of them.
_CALLED: Final[Mapping[int, tuple[str, ...]]] = {
    4932: ("yeast", "baker's yeast"),
    559292: ("yeast", "baker's yeast"),
    6239: ("worm", "nematode"),
    7227: ("fly",),
    9913: ("cow", "bovine"),
    10090: ("mouse",),
    10116: ("rat",),
}
# (scientific name, common name as NCBI Gene prints it) of the organisms whose genes are queried most.
_USUAL: Final[Mapping[int, tuple[str, str]]] = {
    3702: ("Arabidopsis thaliana", "thale cress"),
    4896: ("Schizosaccharomyces pombe", "fission yeast"),
    4932: ("Saccharomyces cerevisiae", "brewer's yeast"),
    6239: ("Caenorhabditis elegans", ""),
    7227: ("Drosophila melanogaster", "fruit fly"),
    7955: ("Danio rerio", "zebrafish"),
    8355: ("Xenopus laevis", "African clawed frog"),
    8364: ("Xenopus tropicalis", "tropical clawed frog"),
    9031: ("Gallus gallus", "chicken"),
    9544: ("Macaca mulatta", "Rhesus monkey"),
    9598: ("Pan troglodytes", "chimpanzee"),
    9606: ("Homo sapiens", "human"),
    9615: ("Canis lupus familiaris", "dog"),
    9685: ("Felis catus", "domestic cat"),
    9823: ("Sus scrofa", "pig"),
    9913: ("Bos taurus", "cattle"),
    9986: ("Oryctolagus cuniculus", "rabbit"),
    10090: ("Mus musculus", "house mouse"),
    10116: ("Rattus norvegicus", "Norway rat"),
    284812: ("Schizosaccharomyces pombe 972h-", ""),
    511145: ("Escherichia coli str. K-12 substr. MG1655", ""),
    559292: ("Saccharomyces cerevisiae S288C", ""),
}
_COMMON: Final = ("genbank common name", "common name")


def organism(tax_id: int, known: Mapping[int, Organism]) -> Organism:
    """Return the organism from ``known``, else from the built-in ones, else with the scientific name "taxid N"."""
    if tax_id in known:
        return known[tax_id]
    scientific, common = _USUAL.get(tax_id, (f"taxid {tax_id}", ""))
    return Organism(tax_id, scientific, common, _CALLED.get(tax_id, ()))


def organism_of(taxon: Taxon) -> Organism:
    """Return the taxon as gene records name it.

    Synonyms, acronyms and further common names become ``other_names``.
    """
    names: dict[str, list[str]] = {}
    for name, kind in taxon.names:
        names.setdefault(kind, []).append(name)
    common = next((names[kind][0] for kind in _COMMON if kind in names), "")
    searched = ("common name", "synonym", "equivalent name", "acronym", "genbank acronym", "genbank common name")
    others = dict.fromkeys(name for kind in searched for name in names.get(kind, ()) if name != common)
    return Organism(taxon.tax_id, taxon.scientific_name, common, tuple(others))
