"""Build Taxonomy's document summary, and efetch's TaxaSet with the lineage derived from the parents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from retrieval.formats.records import Taxon
from retrieval.gateway.documents.docsum_xml import Item, date, number, text
from retrieval.gateway.http_reply import text_of
from retrieval.gateway.store.reader import GatewayStore

_ROOT: Final = 1
_MAX_DEPTH: Final = 200  # five times the deepest lineage; bounds a cycle of parents
# The name classes with their own elements, in the order of NCBI's taxon.dtd; at most one each of the first three.
_ONCE: Final = {
    "genbank common name": "GenbankCommonName", "genbank acronym": "GenbankAcronym", "blast name": "BlastName",
}  # fmt: skip
_OFTEN: Final = {
    "equivalent name": "EquivalentName", "synonym": "Synonym", "acronym": "Acronym", "misspelling": "Misspelling",
    "anamorph": "Anamorph", "includes": "Includes", "common name": "CommonName", "in-part": "Inpart",
    "misnomer": "Misnomer", "teleomorph": "Teleomorph", "genbank synonym": "GenbankSynonym",
    "genbank anamorph": "GenbankAnamorph",
}  # fmt: skip
# gc.prt of NCBI's taxonomy.
_GENETIC_CODES: Final = {
    0: "Unspecified", 1: "Standard", 2: "Vertebrate Mitochondrial", 3: "Yeast Mitochondrial",
    4: "Mold Mitochondrial; Protozoan Mitochondrial; Coelenterate Mitochondrial; Mycoplasma; Spiroplasma",
    5: "Invertebrate Mitochondrial", 6: "Ciliate Nuclear; Dasycladacean Nuclear; Hexamita Nuclear",
    9: "Echinoderm Mitochondrial; Flatworm Mitochondrial", 10: "Euplotid Nuclear",
    11: "Bacterial, Archaeal and Plant Plastid", 12: "Alternative Yeast Nuclear", 13: "Ascidian Mitochondrial",
    14: "Alternative Flatworm Mitochondrial", 15: "Blepharisma Macronuclear", 16: "Chlorophycean Mitochondrial",
    21: "Trematode Mitochondrial", 22: "Scenedesmus obliquus Mitochondrial", 23: "Thraustochytrium Mitochondrial",
    24: "Rhabdopleuridae Mitochondrial", 25: "Candidate Division SR1 and Gracilibacteria",
    26: "Pachysolen tannophilus Nuclear", 27: "Karyorelict Nuclear", 28: "Condylostoma Nuclear",
    29: "Mesodinium Nuclear", 30: "Peritrich Nuclear", 31: "Blastocrithidia Nuclear",
    33: "Cephalodiscidae Mitochondrial UAA-Tyr",
}  # fmt: skip


class Lineages:
    """Look up the ancestors of taxa, and cache what was read for the length of one call."""

    def __init__(self, store: GatewayStore) -> None:
        self._store = store
        self._known: dict[int, Taxon | None] = {}

    def ancestors(self, taxon: Taxon) -> list[Taxon]:
        """Return the ancestors, the highest first, without the root, up to a parent that is not in the store."""
        found: list[Taxon] = []
        seen = {taxon.tax_id, _ROOT}
        while (parent_id := (found[-1] if found else taxon).parent_id) not in seen and len(found) < _MAX_DEPTH:
            parent = self._taxon(parent_id)
            if parent is None:
                break
            seen.add(parent_id)
            found.append(parent)
        return found[::-1]

    def _taxon(self, tax_id: int) -> Taxon | None:
        if tax_id not in self._known:
            record = self._store.record("taxonomy", str(tax_id))
            self._known[tax_id] = record if isinstance(record, Taxon) else None
        return self._known[tax_id]


def taxonomy_document(taxon: Taxon, ancestors: list[Taxon]) -> dict[str, Any]:
    """Build the JSON mapping; ``ancestors`` as ``Lineages.ancestors`` returns it."""
    genus = next((found.scientific_name for found in ancestors if found.rank == "genus"), "")
    species = next((found for found in (taxon, *ancestors[::-1]) if found.rank == "species"), None)
    epithet = _rest(species.scientific_name, genus) if species else ""
    below = _rest(taxon.scientific_name, species.scientific_name) if species and species is not taxon else ""
    return {
        "uid": str(taxon.tax_id),
        "status": "active",
        "rank": taxon.rank,
        "division": _blast_name(taxon, ancestors) or taxon.division,
        "scientificname": taxon.scientific_name,
        "commonname": _named(taxon, "genbank common name") or _named(taxon, "common name"),
        "taxid": taxon.tax_id,
        "akataxid": "",
        "genus": taxon.scientific_name if taxon.rank == "genus" else genus,
        "species": epithet,
        "subsp": below,
        "modificationdate": "",
        "genbankdivision": taxon.division,
    }


def taxonomy_items(document: dict[str, Any]) -> list[Item]:
    return [
        text("Status", document["status"]),
        text("Rank", document["rank"]),
        text("Division", document["division"]),
        text("ScientificName", document["scientificname"]),
        text("CommonName", document["commonname"]),
        number("TaxId", document["taxid"]),
        number("AkaTaxId", 0),
        text("Genus", document["genus"]),
        text("Species", document["species"]),
        text("Subsp", document["subsp"]),
        date("ModificationDate", document["modificationdate"]),
    ]


def _rest(name: str, beginning: str) -> str:
    """Return what a name adds to that of the taxon above."""
    return name.removeprefix(beginning).strip() if beginning else ""


def _named(taxon: Taxon, kind: str) -> str:
    return next((name for name, of in taxon.names if of == kind), "")


def _blast_name(taxon: Taxon, ancestors: list[Taxon]) -> str:
    """Return the everyday name of the taxon's group, its own or the nearest above."""
    return next((name for found in (taxon, *ancestors[::-1]) if (name := _named(found, "blast name"))), "")


def taxon_markup(taxon: Taxon, ancestors: list[Taxon]) -> str:
    lines = [
        *_identity(taxon, 1),
        *_other_names(taxon),
        f"    <ParentTaxId>{taxon.parent_id}</ParentTaxId>",
        f"    <Rank>{text_of(taxon.rank)}</Rank>",
        f"    <Division>{text_of(taxon.division)}</Division>",
        "    <GeneticCode>",
        f"        <GCId>{taxon.genetic_code}</GCId>",
        f"        <GCName>{text_of(_GENETIC_CODES.get(taxon.genetic_code, ''))}</GCName>",
        "    </GeneticCode>",
        f"    <Lineage>{text_of('; '.join(found.scientific_name for found in ancestors))}</Lineage>",
        *_lineage_lines(ancestors),
    ]
    return "<Taxon>\n" + "\n".join(lines) + "\n</Taxon>\n"


def _identity(taxon: Taxon, depth: int) -> Iterator[str]:
    indent = "    " * depth
    yield f"{indent}<TaxId>{taxon.tax_id}</TaxId>"
    yield f"{indent}<ScientificName>{text_of(taxon.scientific_name)}</ScientificName>"


def _lineage_lines(ancestors: list[Taxon]) -> Iterator[str]:
    if ancestors:
        yield "    <LineageEx>"
        for found in ancestors:
            yield "        <Taxon>"
            yield from _identity(found, 3)
            yield f"            <Rank>{text_of(found.rank)}</Rank>"
            yield "        </Taxon>"
        yield "    </LineageEx>"


def _other_names(taxon: Taxon) -> Iterator[str]:
    if not taxon.names:
        return
    yield "    <OtherNames>"
    more = [(name, kind) for name, kind in taxon.names if kind not in _OFTEN]
    for kind, tag in _ONCE.items():
        if name := _named(taxon, kind):
            more.remove((name, kind))
            yield f"        <{tag}>{text_of(name)}</{tag}>"
    for kind, tag in _OFTEN.items():
        yield from (f"        <{tag}>{text_of(name)}</{tag}>" for name, of in taxon.names if of == kind)
    for name, kind in more:
        yield "        <Name>"
        yield f"            <ClassCDE>{text_of(kind)}</ClassCDE>"
        yield f"            <DispName>{text_of(name)}</DispName>"
        yield "        </Name>"
    yield "    </OtherNames>"
