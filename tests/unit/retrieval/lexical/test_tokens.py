"""Any spelling of a biomedical name is found by any other one."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.function_words import FUNCTION_WORDS
from retrieval.lexical.tokens import atoms_of, atoms_without_offsets, index_terms, query_groups, query_terms, tokenize

SPELLINGS = [
    ("IL-6", "IL6", "il6", "IL 6", "il‑6", "IL–6", "Il_6"),
    ("TNF-α", "TNFα", "TNF-alpha", "tnfalpha", "TNF alpha", "TNF α", "TNF-Α"),
    ("NF-κB", "NFκB", "NF-kappaB", "nfkappab", "NF-kappa B", "NF kappa B"),
    ("CO2", "CO₂", "co 2", "CO-2"),
    ("5-HT2A", "5HT2A", "5-HT-2A", "5-ht2a", "5-HT2A"),
    ("H2A.Z", "H2A-Z", "h2az"),
    ("vitamin A", "Vitamin-A", "vitamin a"),
    ("p.Val600Glu", "p.val600glu", "Val600Glu", "VAL600GLU"),
    ("HLA-DRB1*15:01", "HLA DRB1*15:01", "HLA-DRB1*15-01", "hla-drb1*15:01"),
    ("(−)-epicatechin", "(-)-epicatechin", "(–)-Epicatechin"),
    ("CD25−", "CD25-", "cd25−"),
    ("anti-inflammatory", "antiinflammatory", "Anti‐inflammatory"),
    ("SARS-CoV-2", "SARS CoV-2", "sars-cov-2", "SARS-CoV2"),
    ("Sjögren's", "Sjogren", "SJÖGREN", "Sjo\u0308gren"),
    ("genes", "gene", "Genes"),
    ("tumour", "tumor", "tumours", "Tumors"),
    ("anaemia", "anemia", "anaemias"),
    ("oesophagus", "esophagus"),
    ("analysis", "analyses"),
    ("metastasis", "metastases"),
    ("randomised", "randomized"),
    ("PD-L1", "PDL1", "PD L1"),
    ("HbA1c", "Hb A1c", "hba1c"),
    ("NF-κB", "NFkB", "NF-kB", "NF-kappaB"),
    ("TNF-α", "TNFA", "TNF alpha"),
    ("miR-21", "miRNA-21", "microRNA-21", "microRNA 21"),
    ("V600E", "p.Val600Glu", "Val600Glu"),
    ("H2A.Z", "H2AZ"),
    ("biopsies", "biopsy"),
    ("10⁶", "10^6", "10^(6)", "10(6)"),
    ("10⁻⁸", "10^-8", "10^−8", "10(-8)"),
    ("Ca2+", "Ca²⁺"),
    ("131I", "¹³¹I"),
]
LETTERS = st.text("bcdfghjklmnpqrtvwxyz", min_size=2, max_size=5).filter(lambda word: word not in FUNCTION_WORDS)
SEPARATORS = st.sampled_from(["", "-", " ", "‑", "−", "\u00a0"])


@pytest.mark.parametrize("spellings", SPELLINGS, ids=[group[0] for group in SPELLINGS])
def test_every_spelling_of_a_name_is_found_by_every_other(spellings: tuple[str, ...]) -> None:
    """The query's terms and the text's have one that tells the name, for all pairs."""
    for asked, written in itertools.permutations(spellings, 2):
        found = set(query_terms(asked)) & set(index_terms(f"We measured {written} (again)."))
        assert any(len(term) > 2 or term in ("h2", "2a") for term in found), (asked, written)


@pytest.mark.parametrize(
    ("asked", "written"),
    [("IL-6", "IL-16"), ("interleukin", "IL-6"), ("BRCA3", "5 of BRCA1/2"), ("CD4+", "CD8 T"), ("106", "10⁶ cells")],
)
def test_other_names_share_no_joined_term(asked: str, written: str) -> None:
    """A number alone makes no name alike."""
    joined = {term for term in query_terms(asked) if any(map(str.isdigit, term))}
    assert not joined & set(index_terms(written))


@pytest.mark.parametrize("text", ["10⁶ cells", "5×10^6/L", "10^(6)", "$10^{6}$", "10(6) cells", "10⁶."])
def test_a_power_has_one_term_in_all_its_spellings(text: str) -> None:
    """As typed, as printed, and as PubMed wrote it before it had markup."""
    assert "10.^6" in index_terms(text)
    assert not {"106", "10.6", "6"} & set(index_terms(text))


@pytest.mark.parametrize(
    "text", ["106 cells", "10.6", "10-6", "10⁻⁶", "10(-6)", "10₆", "J Med 2003;10(6):5", "10 (6)", "110(6)", "10⁶⁷"]
)
def test_no_other_number_is_that_power(text: str) -> None:
    """106 of an old record is a hundred and six."""
    assert "10.^6" not in index_terms(text)


def test_a_raised_or_lowered_number_joins_letters_but_no_number() -> None:
    """A citation behind a decimal number is none of its digits."""
    assert "r2" in index_terms("R²") and "r2" in index_terms("R^2")
    assert "3.12" not in index_terms("a dose of 3.¹²")
    assert "52" not in index_terms("log5₂")


@pytest.mark.parametrize(("text", "terms"), [("BRCA1/2", {"brca1", "brca2"}), ("CDK4/6-inhibitors", {"cdk4", "cdk6"})])
def test_a_second_number_after_a_slash_belongs_to_the_same_letters(text: str, terms: set[str]) -> None:
    """Both genes are found."""
    assert terms <= set(index_terms(text))


def test_a_name_does_not_reach_over_the_end_of_a_sentence() -> None:
    """IL. 6 mice are no IL6."""
    assert "il6" not in index_terms("a source of IL. 6 mice, 5 rats")
    assert "ci0" not in index_terms("(CI 0.85)")


def test_what_names_hold_is_not_searched_for_by_itself() -> None:
    """Single digits and letters stand in every other passage; the joined terms say the same better."""
    assert query_terms("What is the role of IL-6 and vitamin A?") == ["role", "il", "il6", "vitamin", "vitamina"]
    assert query_terms("what is the") == ["what", "is", "the"]
    assert "was" in query_terms("mutations of the WAS gene")
    assert "was" not in query_terms("which gene was it")


def test_positions_and_variants_stand_together() -> None:
    """A joined term has the place of its first part, with that part's offsets."""
    tokens = tokenize("serum TNF‑α rose")
    assert [(token.position, token.terms) for token in tokens] == [
        (0, ("serum",)),
        (1, ("tnf", "tnfalpha", "tnfa")),
        (2, ("alpha",)),
        (3, ("rose",)),
    ]
    assert "serum TNF‑α rose"[tokens[2].start : tokens[2].end] == "α"


def test_a_question_for_a_protein_asks_for_its_gene_too() -> None:
    """Names that share no letters; a passage keeps its own."""
    assert ["p53", "tp53"] in query_groups("p53 mutations")
    assert ["tp53", "p53"] in query_groups("TP53 mutations")
    assert "tp53" not in {*index_terms("p53 mutations"), *query_terms("p53 mutations")}


def test_the_spellings_of_a_name_are_one_group() -> None:
    """A passage is credited with one of them."""
    assert query_groups("serum TNF-α") == [["serum"], ["tnf"], ["tnfalpha", "tnfa"], ["alpha"]]
    assert query_groups("what is the") == [["what"], ["is"], ["the"]]


@pytest.mark.parametrize(
    ("one", "other"),
    [("dose", "dosis"), ("aerobic", "erobic"), ("IL-1β", "IL-1α"), ("V600E", "Val600Lys"), ("miR-21", "miR-210"),
     ("case", "casis"), ("PD-L1", "PD-L2"), ("base", "basis"), ("protease", "proteasis")],
)  # fmt: skip
def test_other_words_stay_apart(one: str, other: str) -> None:
    """The terms that name each are not in the other."""
    first, second = set(query_terms(one)), set(query_terms(other))
    assert max(first, key=len) not in second
    assert max(second, key=len) not in first


@given(st.text(max_size=200))
def test_any_text_is_cut_into_atoms_with_offsets_inside_it(text: str) -> None:
    """Never an error; offsets ascend inside the text; terms hold no blanks; the fast bag is the same bag."""
    tokens = tokenize(text)
    assert all(0 <= token.start < token.end <= len(text) for token in tokens)
    assert [token.start for token in tokens] == sorted(token.start for token in tokens)
    terms = [term for token in tokens for term in token.terms]
    assert sorted(index_terms(text)) == sorted(terms)
    assert not any(char.isspace() for term in terms for char in term)
    assert all(atom.term for atom in atoms_of(text))
    assert [atom[:3] for atom in atoms_without_offsets(text)] == [atom[:3] for atom in atoms_of(text)]
    assert bool(query_terms(text)) == bool(terms)


@given(
    LETTERS, st.integers(0, 9999), st.sampled_from(["", "r", "α", "alpha", "B"]), SEPARATORS, SEPARATORS, st.booleans()
)
def test_any_spelling_of_letters_and_a_number_is_found(
    letters: str, number: int, end: str, asked: str, written: str, upper: bool
) -> None:
    """Hyphen, blank or nothing between them, small or capital: the joined term is in both."""
    query = f"{letters}{asked}{number}{end}"
    text = f"The {letters.upper() if upper else letters}{written}{number}{end}, too."
    assert f"{atoms_of(letters)[0].term}{number}" in set(query_terms(query)) & set(index_terms(text))
