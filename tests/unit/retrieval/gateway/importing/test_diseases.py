"""MedGen's and OMIM's tables, and how the pieces of one record meet."""

from __future__ import annotations

from pathlib import Path

import pytest
from ncbi_files import entries, reasons, saved

from retrieval.formats.records import Concept, Link, OmimEntry
from retrieval.gateway.store.writer import concept_uid, merge_concepts, merge_omim
from scripts.samples import phenotypes
from scripts.samples.world import World, cui, disease, mim

MAPPINGS = "#CUI_or_CN_id|pref_name|source_id|source|\n"
DEFINITIONS = "#CUI|DEF|source|SUPPRESS|\n"
TITLES = "# Copyright\n# Prefix\tMIM Number\tPreferred Title; symbol\tAlternative Title(s); symbol(s)\tIncluded Title(s); symbols\n"  # noqa: E501


def test_names_come_back(tmp_path: Path) -> None:
    """One concept a row."""
    phenotypes.write_names(tmp_path / "NAMES.RRF.gz", World(genes=50))
    found = entries("medgen_names", tmp_path / "NAMES.RRF.gz")
    assert [(c.cui, c.name) for c in found if isinstance(c, Concept)] == [(cui(at), disease(at)) for at in range(50)]


def test_concepts_of_umls_and_of_ncbi_have_numbers_of_their_own() -> None:
    """C0000744 and CN000744 are two concepts."""
    assert concept_uid("C0000744") == 1_000_000_744
    assert concept_uid("CN000744") == 2_000_000_744


def test_the_rows_of_a_concept_make_one_record_with_its_identifiers(tmp_path: Path) -> None:
    """An OMIM row gives an entry and a link besides; "OMIM included" names a relative and gives none."""
    text = MAPPINGS + (
        "C0000744|Abetalipoproteinaemia|C0000744|MedGen|\nC0000744|Abetalipoproteinaemia|200100|OMIM|\n"
        "C0000744|Abetalipoproteinaemia|200101|OMIM included|\nC0000745|Other|PS1|OMIM Phenotypic Series|\n"
    )
    assert entries("medgen_mappings", saved(tmp_path / "file", text)) == [
        Concept(
            uid=1000000744,
            cui="C0000744",
            name="Abetalipoproteinaemia",
            source_ids=(("MedGen", "C0000744"), ("OMIM", "200100"), ("OMIM included", "200101")),
        ),
        OmimEntry(200100, "", "Abetalipoproteinaemia", "", ""),
        Link("omim", "200100", "medgen", "1000000744"),
        Concept(uid=1000000745, cui="C0000745", name="Other", source_ids=(("OMIM Phenotypic Series", "PS1"),)),
    ]


def test_a_malformed_row_costs_its_concept_nothing_else(tmp_path: Path) -> None:
    """The rows around it still make one record."""
    text = MAPPINGS + "C0000744|A|1|MSH|\nC0000744|A|\nC0000744|A|2|NCI|\n"
    path = saved(tmp_path / "file", text)
    assert reasons("medgen_mappings", path) == [(3, "3 columns, 5 expected")]


def test_a_definition_may_have_line_breaks_and_bars(tmp_path: Path) -> None:
    """MedGen's README announces both line feeds and carriage returns."""
    text = DEFINITIONS + "C0000744|One\ntwo|three\rfour.|NCI|N|\nC0000745|Next.|NCI|N|\n"
    found = entries("medgen_definitions", saved(tmp_path / "file", text))
    assert [(c.cui, c.definition) for c in found if isinstance(c, Concept)] == [
        ("C0000744", "One two|three four."),
        ("C0000745", "Next."),
    ]


def test_the_definition_of_the_preferred_source_counts(tmp_path: Path) -> None:
    """Suppressed ones do not; a concept with none but those has no record."""
    text = DEFINITIONS + (
        "C0000744|Of HPO.|HPO|N|\nC0000744|Of NCI.|NCI|N|\nC0000744|For readers.|GeneReviews|N|\n"
        "C0000745|Withdrawn.|NCI|Y|\nC0000746|Withdrawn.|NCI|Y|\nC0000746|Valid.|HPO|N|\n"
    )
    found = entries("medgen_definitions", saved(tmp_path / "file", text))
    assert [(c.cui, c.definition) for c in found if isinstance(c, Concept)] == [
        ("C0000744", "For readers."),
        ("C0000746", "Valid."),
    ]


def test_a_row_that_lost_its_end_spoils_only_itself(tmp_path: Path) -> None:
    """The next identifier begins a new row."""
    text = DEFINITIONS + "C0000744|Cut off here\nC0000745|Whole.|NCI|N|\n"
    path = saved(tmp_path / "file", text)
    assert [line for line, _ in reasons("medgen_definitions", path)] == [2]


def test_the_pieces_of_a_concept_meet_in_any_order() -> None:
    """Names, identifiers and definitions are in different files."""
    name = Concept(uid=1, cui="C1", name="Proper name")
    ids = Concept(uid=1, cui="C1", name="Proper name", source_ids=(("OMIM", "1"),))
    definition = Concept(uid=1, cui="C1", name="", definition="A disorder.")
    whole = Concept(uid=1, cui="C1", name="Proper name", definition="A disorder.", source_ids=(("OMIM", "1"),))
    assert merge_concepts(merge_concepts(name, ids), definition) == whole
    assert merge_concepts(merge_concepts(definition, ids), name) == whole
    assert merge_concepts(whole, whole) == whole


def test_a_renamed_concept_is_found_under_its_old_name() -> None:
    """The newer file's name is shown."""
    merged = merge_concepts(Concept(uid=1, cui="C1", name="Old"), Concept(uid=1, cui="C1", name="New"))
    assert (merged.name, merged.synonyms) == ("New", ("Old",))


def test_pieces_of_two_records_do_not_merge() -> None:
    """That would be a mistake of the caller."""
    with pytest.raises(ValueError, match="not one"):
        merge_concepts(Concept(uid=1, cui="C1", name=""), Concept(uid=2, cui="C2", name=""))
    with pytest.raises(ValueError, match="not one"):
        merge_omim(OmimEntry(1, "", "", "", ""), OmimEntry(2, "", "", "", ""))


def test_omim_titles_come_back_with_the_signs_of_their_prefixes(tmp_path: Path) -> None:
    """Alternative and included titles are one list; comment lines stand at the end too."""
    text = TITLES + (
        "Number Sign\t100100\tPRUNE BELLY SYNDROME; PBS\tEAGLE SYNDROME;; EGBRS\tMILD FORM, INCLUDED\n"
        "Caret\t100500\tMOVED TO 200150\nNULL\t100050\tSYNDROME\t\t\n# The end\n"
    )
    assert entries("mim_titles", saved(tmp_path / "mimTitles.txt", text)) == [
        OmimEntry(100100, "#", "PRUNE BELLY SYNDROME; PBS", "EAGLE SYNDROME; EGBRS; MILD FORM, INCLUDED", ""),
        OmimEntry(100500, "^", "MOVED TO 200150", "", ""),
        OmimEntry(100050, "", "SYNDROME", "", ""),
    ]


def test_an_unknown_prefix_is_told(tmp_path: Path) -> None:
    """A new sign of OMIM is not silently dropped."""
    path = saved(tmp_path / "mimTitles.txt", TITLES + "Ampersand\t100100\tTITLE\t\t\nPlus\tx\tTITLE\t\t\n")
    assert reasons("mim_titles", path) == [
        (3, "Prefix: one of OMIM's words was expected, not 'Ampersand'"),
        (4, "MIM Number: a number was expected, not 'x'"),
    ]


def test_a_place_is_given_to_the_gene_and_to_its_numbered_phenotypes(tmp_path: Path) -> None:
    """The computed place stands in where OMIM gives none."""
    world = World(genes=40)
    phenotypes.write_gene_map(tmp_path / "genemap2.txt", world)
    found = {e.mim_number: e for e in entries("genemap2", tmp_path / "genemap2.txt") if isinstance(e, OmimEntry)}
    assert found[mim(0)] == OmimEntry(mim(0), "", "", "", "1p1")
    assert found[mim(6)].locus == found[mim(7)].locus == "7p7"
    assert mim(12) in found
    assert mim(13) not in found


def test_the_pieces_of_an_omim_entry_meet_in_any_order() -> None:
    """OMIM's own title, in capitals, is kept from MedGen's name."""
    own = OmimEntry(1, "#", "PRUNE BELLY SYNDROME; PBS", "EAGLE SYNDROME", "")
    name = OmimEntry(1, "", "Prune belly syndrome", "", "")
    place = OmimEntry(1, "", "", "", "1q43")
    whole = OmimEntry(1, "#", "PRUNE BELLY SYNDROME; PBS", "EAGLE SYNDROME", "1q43")
    assert merge_omim(merge_omim(own, name), place) == whole
    assert merge_omim(merge_omim(place, name), own) == whole
    assert merge_omim(name, OmimEntry(1, "", "Better name", "", "")).title == "Better name"


def test_the_title_of_a_genes_record_stands_between_omims_and_medgens() -> None:
    """In any order; it says of itself whose it is."""
    own = OmimEntry(1, "*", "FIBRILLIN 1; FBN1", "", "15q21.1")
    of_gene = OmimEntry(1, "*", "fibrillin 1; FBN1", "", "15q21", is_of_gene=True)
    name = OmimEntry(1, "", "Marfan syndrome", "", "")
    for parts in ((own, of_gene), (of_gene, own)):
        assert merge_omim(*parts) == own
    for parts in ((name, of_gene), (of_gene, name)):
        assert merge_omim(*parts) == of_gene
