"""Names found in texts by the dictionary."""

from __future__ import annotations

from itertools import pairwise

import pytest
from graph_names import NamesStore, node
from hypothesis import given
from hypothesis import strategies as st
from shipped_data import shipped_names

from retrieval.graph.linking.dictionary_lookup.dictionary import Dictionary, build_dictionary
from retrieval.graph.linking.dictionary_lookup.normalize import fold, hash_tokens, tokens_of, window_hashes
from retrieval.graph.types import Node

NODES = (
    node("Disease", "DOID:4", "disease"),
    node("Disease", "DOID:162", "cancer"),
    node("Disease", "DOID:225", "syndrome"),
    node("Disease", "DOID:1612", "breast cancer", "mammary tumor"),
    node("Disease", "DOID:9352", "type 2 diabetes mellitus"),
    node("Disease", "DOID:9744", "type 1 diabetes mellitus"),
    node("Disease", "DOID:8778", "Crohn's disease", "regional enteritis"),
    node("Disease", "DOID:0050427", "xeroderma pigmentosum"),
    node("Disease", "DOID:0110849", "xeroderma pigmentosum group G"),
    node("Disease", "DOID:0110850", "xeroderma pigmentosum group E"),
    node("Disease", "DOID:0060246", "MASA syndrome"),
    node("Disease", "DOID:3083", "chronic obstructive pulmonary disease"),
    node("Disease", "DOID:332", "amyotrophic lateral sclerosis"),
    node("Disease", "DOID:9952", "acute lymphoblastic leukemia"),
    node("Disease", "DOID:0050741", "T cell deficiency"),
    node("Disease", "DOID:0080600", "COVID-19"),
    node("Disease", "DOID:0111253", "neurofibromatosis 1"),
    node("Disease", "DOID:12798", "mucopolysaccharidosis VI"),
    node("Disease", "DOID:1", "hand, foot and mouth disease"),
    node("Disease", "DOID:2", "esophageal anemia tumor"),
    node("Gene", "847", "CAT"),
    node("Gene", "6418", "SET"),
    node("Gene", "7454", "WAS"),
    node("Gene", "675", "BRCA2", "FANCD1"),
    node("Gene", "1788", "DNMT3A"),
    node("Gene", "1789", "DNMT3"),
    node("Gene", "3106", "HLA-B"),
    node("Gene", "2064", "ERBB2", "HER2"),
    node("Gene", "4763", "NF1"),
    node("Gene", "3458", "IFNG", "IFN-gamma"),
    node("Gene", "5468", "twin"),
    node("Gene", "9999", "TWIN2", "lead"),
    node("Gene", "9215", "LARGE"),
    node("Gene", "1048", "B"),
    node("Compound", "DB00331", "Metformin"),
    node("Variant", "rs7903146", "rs7903146"),
    node("Anatomy", "UBERON:0000955", "brain"),
    node("Disease", "MONDO:0005148", "some disease of another source"),
)


@pytest.fixture(scope="module")
def dictionary() -> Dictionary:
    return build_dictionary(NamesStore(NODES), names=shipped_names())


def names(dictionary: Dictionary, text: str) -> list[str]:
    return [mention.node.name for mention in dictionary.find(text)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Is BREAST CANCER hereditary?", "breast cancer"),
        ("ｂｒｅａｓｔ　ｃａｎｃｅｒ", "breast cancer"),
        ("breast-cancer genes", "breast cancer"),
        ("two breast cancers", "breast cancer"),
        ("Diabetes mellitus, type 2", "type 2 diabetes mellitus"),
        ("diabetes mellitus type II", "type 2 diabetes mellitus"),
        ("type II diabetes mellitus", "type 2 diabetes mellitus"),
        ("T2DM", "type 2 diabetes mellitus"),
        ("Crohn disease", "Crohn's disease"),
        ("CROHN’S DISEASE", "Crohn's disease"),
        ("Crohns disease", "Crohn's disease"),
        ("Xeroderma pigmentosum, group G is not associated with Gene ERCC5", "xeroderma pigmentosum group G"),
        ("xeroderma pigmentosum, group Q", "xeroderma pigmentosum"),
        ("MASA SYNDROME (DISORDER) IS NOT ASSOCIATED", "MASA syndrome"),
        ("covid19", "COVID-19"),
        ("covid 19", "COVID-19"),
        ("neurofibromatosis type 1", "neurofibromatosis 1"),
        ("Mucopolysaccharidosis type 6", "mucopolysaccharidosis VI"),
        ("hand foot and mouth disease", "hand, foot and mouth disease"),
        ("oesophageal anaemia tumour", "esophageal anemia tumor"),
        ("interferon: IFN-γ", "IFNG"),
        ("Lou Gehrig's disease", "amyotrophic lateral sclerosis"),
        ("mammary tumours", "breast cancer"),
    ],
)
def test_spellings_of_one_name_meet(dictionary: Dictionary, text: str, name: str) -> None:
    """Case, width, hyphens, commas, numerals, possessives, plurals, parentheses, British spelling, everyday names."""
    assert names(dictionary, text) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "How do I cook pasta?",
        "He was set to lead his cat.",
        "HE WAS SET TO LEAD HIS CAT",
        "all of the above",
        "Which gene was found?",
        "keratinocyte carcinoma and lung cancer",
        "DNMT3B and HLA-B27",
        "T-cell count",
        "a large B cell, vitamin B and b-cells",
        "which drugs, genes and symptoms?",
        "",
        "?!",
    ],
)
def test_words_that_are_no_names_link_to_nothing(dictionary: Dictionary, text: str) -> None:
    """Symbols that are words need their capitals, and a name does not end within a word."""
    assert names(dictionary, text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Is CAT or SET higher?", ["CAT", "SET"]),
        ("brca2 and DNMT3A", ["BRCA2", "DNMT3A"]),
        ("HER2 inhibitors", ["ERBB2"]),
        ("FANCD1", ["BRCA2"]),
        ("ALL in children", ["acute lymphoblastic leukemia"]),
        ("Gene NF1", ["NF1"]),
        ("COPD and ALS", ["chronic obstructive pulmonary disease", "amyotrophic lateral sclerosis"]),
    ],
)
def test_symbols_are_found_by_case(dictionary: Dictionary, text: str, expected: list[str]) -> None:
    """SET with its capitals is the gene."""
    assert names(dictionary, text) == expected


def test_small_words_of_another_language_are_no_symbols() -> None:
    """A name beside its words stands all the same."""
    found = build_dictionary(NamesStore([node("Gene", "1", "GIBT1", "GIBT"), node("Disease", "D", "malaria")]))
    assert names(found, "Welche Medikamente gibt es gegen Malaria?") == ["malaria"]
    assert names(found, "What does gibt do in malaria?") == ["GIBT1", "malaria"]


def test_a_complex_needs_not_be_called_one() -> None:
    found = build_dictionary(NamesStore([node("Complex", "C1", "mTORC1 complex"), node("Complex", "C2", "C1 complex")]))
    assert names(found, "What are the parts of mTORC1?") == ["mTORC1 complex"]
    assert names(found, "Is C1 raised?") == []


def test_an_abbreviation_of_a_disease_is_no_gene_of_that_symbol() -> None:
    """With no gene NF1 in the graph "Gene NF1" is not the disease neurofibromatosis."""
    found = build_dictionary(NamesStore([node("Disease", "DOID:1", "neurofibromatosis 1")]), names=shipped_names())

    assert names(found, "Gene NF1") == []
    assert names(found, "NF1 in children") == ["neurofibromatosis 1"]


def test_abbreviations_need_their_target_in_the_graph() -> None:
    """Nothing is linked to a node that is not there."""
    assert (
        names(build_dictionary(NamesStore([node("Disease", "DOID:1", "gout")]), names=shipped_names()), "T2DM or COPD")
        == []
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("what is doid:1612?", "breast cancer"),
        ("DOID_1612", "breast cancer"),
        ("MONDO:5148", "some disease of another source"),
        ("Entrez Gene 675", "BRCA2"),
        ("NCBIGene:675", "BRCA2"),
        ("RS7903146 carriers", "rs7903146"),
        ("db00331", "Metformin"),
    ],
)
def test_identifiers_link(dictionary: Dictionary, text: str, name: str) -> None:
    """With their prefix, whatever its case."""
    assert names(dictionary, text) == [name]


def test_bare_numbers_are_no_identifiers(dictionary: Dictionary) -> None:
    """675 alone is a number."""
    assert names(dictionary, "in 675 patients and 9352 controls") == []


def test_generic_nodes_count_only_where_nothing_else_is_named(dictionary: Dictionary) -> None:
    """ "Cancer" beside breast cancer says nothing more."""
    assert names(dictionary, "Is breast cancer a cancer?") == ["breast cancer"]
    assert names(dictionary, "Which genes are associated with cancer?") == ["cancer"]
    assert names(dictionary, "Which genes are associated with Vornholt's disease?") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("type 1 and type 2 diabetes", ["type 1", "type 2 diabetes"]),
        ("breast/ovarian cancer", ["breast", "ovarian cancer"]),
        ("Breast or ovarian cancer", ["Breast", "ovarian cancer"]),
        ("smoking and ovarian cancer", ["ovarian cancer"]),
        ("brain and ovarian cancer", ["brain", "ovarian cancer"]),
        ("and ovarian cancer", ["ovarian cancer"]),
    ],
)
def test_names_that_share_their_last_word_are_both_found(text: str, expected: list[str]) -> None:
    """Where the words before "and" make a name with the end of the next."""
    cancers = [node("Disease", "8", "ovarian cancer"), node("Disease", "9", "brain tumor")]
    found = build_dictionary(NamesStore([*NODES, *cancers]), names=shipped_names()).find(text)

    assert [text[mention.start : mention.end] for mention in found] == expected


def test_mentions_say_where_and_how(dictionary: Dictionary) -> None:
    """Offsets are of the text as given, with possessives and accents before them."""
    text = "Naïve: “Crohn's disease” → mammary tumors"
    first, second = dictionary.find(text)

    assert text[first.start : first.end] == "Crohn's disease"
    assert text[second.start : second.end] == "mammary tumors"
    assert (first.method, second.method) == ("exact", "synonym")
    assert first.score == first.margin == 1.0


def test_kinds_restrict_and_a_kind_in_the_text_decides() -> None:
    """One name of two kinds: the word before it says which, else diseases go first and the margin is none."""
    found = build_dictionary(NamesStore([node("Gene", "1", "frataxin"), node("Disease", "2", "frataxin")]))
    (either,) = found.find("about frataxin")
    (gene,) = found.find("about Gene frataxin")
    (only,) = found.find("about frataxin", frozenset({"Gene"}))

    assert (either.node.kind, either.margin) == ("Disease", 0.0)
    assert (gene.node.kind, gene.margin) == ("Gene", 1.0)
    assert (only.node.kind, only.margin) == ("Gene", 1.0)


@pytest.mark.parametrize(
    ("text", "kind", "identifier"),
    [
        ("What is NCBI Gene 6622?", "gene/protein", "NCBI:6622"),
        ("What is DB01235?", "drug", "DrugBank:DB01235"),
        ("What is HP:0001337?", "effect/phenotype", "HPO:1337"),
        ("What is MONDO:0005180?", "disease", "MONDO:5180"),
        ("What is R-HSA-109582?", "pathway", "REACTOME:R-HSA-109582"),
    ],
)
def test_identifiers_are_found_as_primekg_writes_them(text: str, kind: str, identifier: str) -> None:
    """With their source before them, and without leading zeros."""
    found = build_dictionary(NamesStore([node(kind, identifier, "some name")])).find(text)
    assert [mention.node.identifier for mention in found] == [identifier]


HODGKIN = node("Disease", "DOID:8567", "Hodgkin's lymphoma")
LUNG = node("Disease", "DOID:1324", "lung carcinoma")


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("non-Hodgkin lymphoma", [HODGKIN]),
        ("pseudo-Turner syndrome", [node("Disease", "1", "Turner syndrome")]),
        ("pre-eclampsia", [node("Disease", "1", "eclampsia")]),
        ("lupus-like syndrome", [node("Disease", "1", "lupus")]),
        ("diabetes insipidus", [node("Disease", "1", "diabetes mellitus")]),
    ],
)
def test_a_name_that_another_denies_is_no_broader_one(name: str, others: list[Node]) -> None:
    """Nor is what an everyday name stands for: plain "diabetes" is mellitus, diabetes insipidus is not."""
    found = build_dictionary(NamesStore([*others, node("Disease", "0", name)]))
    (mention,) = found.find(f"What treats {name}?")
    assert mention.node.name == name
    assert found.broader(f"What treats {name}?", mention) is None


def test_behind_a_denied_name_a_shorter_one_is_broader() -> None:
    """Non-small cell lung carcinoma is no small cell lung carcinoma, but a lung carcinoma."""
    small = node("Disease", "1", "small cell lung carcinoma")
    found = build_dictionary(NamesStore([LUNG, small, node("Disease", "0", "non-small cell lung carcinoma")]))
    text = "non-small cell lung carcinoma"
    broader = found.broader(text, found.find(text)[0])
    assert broader is not None and broader.node.name == "lung carcinoma"


@pytest.mark.parametrize(
    "text",
    ["What treats non-Hodgkin lymphoma?", "What treats non Hodgkin's lymphoma?", "Is pseudo-Hodgkin's lymphoma real?"],
)
def test_a_denied_name_is_not_found(text: str) -> None:
    """Where the graph lacks the one, the other's facts are worse than none."""
    assert build_dictionary(NamesStore([HODGKIN])).find(text) == ()


def test_only_the_very_word_before_denies() -> None:
    """In "Hodgkin and non-Hodgkin lymphoma" the first is meant, and so it is after a full stop."""
    dictionary = build_dictionary(NamesStore([HODGKIN, node("Disease", "0", "non-Hodgkin lymphoma")]))
    found = dictionary.find("Is Hodgkin lymphoma a non-Hodgkin lymphoma?")
    assert [mention.node.name for mention in found] == ["Hodgkin's lymphoma", "non-Hodgkin lymphoma"]


def test_the_broader_name_within_a_mention_is_found(dictionary: Dictionary) -> None:
    """Of group G the disease itself; of the disease nothing."""
    text = "about xeroderma pigmentosum, group G"
    (mention,) = dictionary.find(text)
    broader = dictionary.broader(text, mention)

    assert broader is not None and broader.node.name == "xeroderma pigmentosum"
    assert text[broader.start : broader.end] == "xeroderma pigmentosum"
    assert dictionary.broader(text, broader) is None


def test_every_name_finds_its_own_node(dictionary: Dictionary) -> None:
    """Whole, in any case, short and generic ones as well."""
    for case in (str, str.lower, str.upper):
        for one in NODES:
            mention = dictionary.look_up(case(one.name))
            assert mention is not None and mention.node == one


def test_similar_names_keep_apart() -> None:
    """Where folding makes two names one, the one written as in the text is taken."""
    found = build_dictionary(
        NamesStore([node("Disease", "1", "ataxia type 2"), node("Disease", "2", "ataxia type II")])
    )

    assert [mention.node.identifier for mention in found.find("ataxia type II, ataxia type 2")] == ["2", "1"]


def test_names_of_too_many_words_are_left_out() -> None:
    """A systematic chemical name is no word of a question."""
    found = build_dictionary(NamesStore([node("Compound", "1", "a-" * 60), node("Compound", "2", "aspirin")]))

    assert len(found.table.keys) == 1
    assert names(found, "aspirin") == ["aspirin"]


def test_a_name_costs_few_bytes() -> None:
    """Twenty thousand names stay under sixty bytes each."""
    store = NamesStore(node("Gene", str(number), f"protein number {number}") for number in range(20_000))
    table = build_dictionary(store).table

    assert table.keys.nbytes + table.rows.nbytes + table.offsets.nbytes + len(table.node_ids) < 60 * 20_000


def test_an_empty_graph_links_nothing() -> None:
    """No names, no error."""
    found = build_dictionary(NamesStore([]))

    assert found.find("breast cancer DOID:1612") == ()
    assert found.look_up("breast cancer") is None


@given(st.text(max_size=200))
def test_no_text_breaks_tokens(text: str) -> None:
    """Places are within the text and in order."""
    tokens = tokens_of(text)

    assert all(0 <= token.start < token.end <= len(text) and token.text for token in tokens)
    assert [token.start for token in tokens] == sorted(token.start for token in tokens)


@given(st.lists(st.text(alphabet="ab1", min_size=1, max_size=3), max_size=6))
def test_window_hashes_are_those_of_the_windows(tokens: list[str]) -> None:
    """The rolling hash is the plain one."""
    for length, hashes in window_hashes(tokens, 4):
        assert hashes.tolist() == [hash_tokens(tokens[at : at + length]) for at in range(len(tokens) - length + 1)]


_PIECES = st.sampled_from([one.name for one in NODES] + ["'s", "(", ",", " ", "-", "é", "½", "İ", "ß", "DOID:", "7"])


@given(st.lists(st.one_of(_PIECES, st.text(max_size=8)), max_size=12).map("".join))
def test_no_text_breaks_the_dictionary(text: str) -> None:
    """Whatever is asked: valid places, in order, without overlaps."""
    found = _DICTIONARY.find(text)

    assert all(0 <= mention.start < mention.end <= len(text) for mention in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert all(_DICTIONARY.broader(text, mention) is not mention for mention in found)


_DICTIONARY = build_dictionary(NamesStore(NODES))


@given(st.text(alphabet=st.characters(max_codepoint=127)) | st.text(alphabet="aBs'`-_ ix5typehua", max_size=30))
def test_ascii_is_read_as_every_other_text(text: str) -> None:
    """A space beyond ASCII behind it takes the pattern for all scripts."""
    assert tokens_of(text) == tokens_of(text + "\u2003")
    assert fold(text) == [token.text for token in tokens_of(text)]
