"""Keywords count where a careful reader would count them, through changes and filters."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.index.base import RowFilter
from retrieval.lexical.keyword_frequency.phrases import Form, KeywordCounts, keyword_forms, phrase_tokens, phrases_of
from retrieval.lexical.keyword_frequency.spellings import Spelling, mentions_in
from retrieval.lexical.tantivy_index import TantivyIndex, open_tantivy
from retrieval.lexical.tokens import HARD, atoms_of
from retrieval.passages import Passage, type_bits

# Few words that join to others, so that they overlap, repeat and are glued.
TEXTS = st.lists(st.lists(st.sampled_from(("a", "aa", "ab", "b", "1", "12", "-", " ", ". ", "+", "α")), max_size=30))
KEYWORDS = st.lists(st.sampled_from(("a", "aa", "b", "1", "-", " ", "+")), min_size=1, max_size=7)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[TantivyIndex]:
    made = open_tantivy(tmp_path / "index")
    yield made
    made.close()


def passage(number: int, text: str, date: int = 0, types: tuple[str, ...] = ()) -> Passage:
    return Passage(passage_id=number, document_id="d", title="no title counts: il6", text=text, date=date, types=types)


def fill(index: TantivyIndex, *texts: str) -> None:
    index.add(passage(number, text) for number, text in enumerate(texts, 1))
    index.commit()


def counts(index: TantivyIndex, *keywords: str, where: RowFilter | None = None) -> dict[int, list[int]]:
    table = KeywordCounts(index, where).table(keywords, [keyword_forms(keyword) for keyword in keywords])
    return dict(zip(table.ids.tolist(), table.counts.tolist(), strict=True))


@pytest.mark.parametrize(
    ("keyword", "text", "count"),
    [
        ("il10", "IL-10, il10, IL 10 and interleukin 10; IL-1, IL-100, MIL-10", 3),
        ("IL-10", "Il10 IL10R IL-10-R", 2),
        ("AROM+", "AROM+ mice; AROM mice; the AROM+", 2),
        ("AROM", "AROM+ mice; AROMs; Karom, AROMx", 2),
        ("CD25−", "CD4+CD25- cells are CD25−, not CD25+ or CD25", 2),
        ("CD4", "CD4+CD25- and CD40 and CD4", 2),
        ("TNF-α", "TNFα, TNF-alpha, tnf alpha, TNFalpha, TNF-αs, TNF", 4),
        ("p53", "p53 TP53 p-53 p53-null", 3),
        ("BRCA2", "BRCA1/2 and BRCA2 carriers", 2),
        ("HLA-DRB1*15:01", "HLA-DRB1*15:01, HLA-DRB1*15:02, DRB1*15:01", 1),
        (
            "heterochromatin protein 1",
            "Heterochromatin protein 1; heterochromatin. Protein 1; heterochromatin-protein-1",
            2,
        ),
        ("Su(var)205", "Su(var)205 and su(var)2-05", 1),
        ("anti-inflammatory", "antiinflammatory, anti-inflammatory, anti inflammatory, inflammatory", 3),
        ("antiinflammatory", "antiinflammatory, anti-inflammatory", 2),
        ("SARS-CoV-2", "SARS-CoV-2 SARSCoV2 SARS CoV-2 SARS-CoV", 3),
        ("gene", "Genes, a gene's; genetic", 2),
        ("a a", "a a a", 2),
        ("(−)-epicatechin", "(-)-epicatechin, (+)-epicatechin, epicatechin", 1),
        ("?!", "?! text", 0),
        ("", "text", 0),
    ],
)
def test_every_spelling_of_a_keyword_counts_and_no_longer_name(
    index: TantivyIndex, keyword: str, text: str, count: int
) -> None:
    """A keyword inside a longer name, or over the end of a sentence, is not counted."""
    fill(index, "filler", text)
    assert counts(index, keyword).get(2, [0]) == [count]


def test_each_keyword_has_its_column(index: TantivyIndex) -> None:
    """Passages without any keyword are not in the table; an empty list of keywords gives an empty one."""
    fill(index, "meiosis NuA4 meiosis", "none", "NuA4")
    assert counts(index, "NuA4", "meiosis", "absent") == {1: [1, 2, 0], 3: [1, 0, 0]}
    assert counts(index) == {}


def test_changes_are_counted_after_commit_alone(index: TantivyIndex) -> None:
    """A passage added again has its new text, a deleted one none."""
    fill(index, "asthma", "asthma asthma")
    index.add([passage(1, "eczema"), passage(3, "asthma " * 3)])
    index.delete([2])
    assert counts(index, "asthma") == {1: [1], 2: [2]}
    index.commit()
    assert counts(index, "asthma", "eczema") == {1: [0, 1], 3: [3, 0]}


def test_counts_are_exact_up_to_hundreds_in_texts_of_any_length(index: TantivyIndex) -> None:
    """They come from scores, which must not depend on how long a text is, and of one word or several."""
    numbers = (1, 2, 3, 17, 99, 100, 299, 300, 499, 500)
    fill(index, *("lung cancer x " * number + "y " * 7 * number for number in numbers), *("z " * n for n in range(40)))
    assert counts(index, "cancer", "lung cancer") == {at: [n, n] for at, n in enumerate(numbers, 1)}


@given(TEXTS, KEYWORDS, KEYWORDS)
def test_any_keyword_counts_where_it_is_mentioned(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[str]], keyword: list[str], other: list[str]
) -> None:
    """In any text and with another spelling: what both begin with counts once."""
    written = ["".join(text) for text in texts]
    index = open_tantivy(tmp_path_factory.mktemp("counts") / "index")
    fill(index, *written)
    ways = [Spelling("".join(one), "spelling", keyword_forms("".join(one))) for one in (keyword, other)]
    forms = [form for way in ways for form in way.forms]
    table = KeywordCounts(index).table(["both"], [forms])
    expected = {at: len(mentions_in(text, [ways], len(text))) for at, text in enumerate(written, 1)}
    index.close()
    found = dict(zip(table.ids.tolist(), table.counts[:, 0].tolist(), strict=True))
    assert found == {at: number for at, number in expected.items() if number}


def test_a_long_keyword_has_few_phrases() -> None:
    """Though each of its words could be linked to the next, only what stands in a text is followed."""
    words = [f"word{letter * 3}" for letter in "abcdefghijklmnop"]
    tokens = {(token,) for word in words for token in (word, f"{word}-")}
    asked: list[Sequence[str]] = []

    def occurs(phrase: Form) -> bool:
        asked.append(phrase)
        return phrase in tokens if len(phrase) == 1 else phrase == tuple(words[: len(phrase)])

    assert len(phrases_of([tuple(words)], occurs)) == 2
    assert len(asked) < 2000


def test_a_text_is_one_token_for_each_atom() -> None:
    assert phrase_tokens("IL6, anti-inflammatory CD4+CD25. End") == [
        "il=", "6<", ".", "anti-", "inflammatory", "cd=", "4<", "+", "cd=", "25<", ".", "end"
    ]  # fmt: skip


@given(st.lists(st.text(max_size=60), max_size=6), st.text(max_size=20))
def test_any_text_and_keyword_can_be_counted(
    tmp_path_factory: pytest.TempPathFactory, texts: Sequence[str], keyword: str
) -> None:
    """Never an error; a passage that is the keyword between two words has it at least once."""
    index = open_tantivy(tmp_path_factory.mktemp("keywords") / "index")
    fill(index, *texts, f"before ; {keyword} ; after")
    atoms = atoms_of(keyword)
    whole = bool(atoms) and all(atom.gap != HARD for atom in atoms[1:])
    assert not whole or counts(index, keyword)[len(texts) + 1][0] >= 1
    index.close()


FILTERS = [
    RowFilter(namespaces=frozenset({2})),
    RowFilter(namespaces=frozenset()),
    RowFilter(date_from=20100000),
    RowFilter(date_to=20101231),
    RowFilter(types=type_bits(["review", "letter"])),
    RowFilter(without_types=type_bits(["review"])),
    RowFilter(ids=np.array([2, 3, 5, 8, 999], dtype=np.int64)),
    RowFilter(namespaces=frozenset({1}), date_from=20000101, without_types=type_bits(["letter"])),
]


@pytest.mark.parametrize("where", FILTERS)
def test_a_filter_lets_no_other_passage_through(index: TantivyIndex, where: RowFilter) -> None:
    """Whatever else has the keyword."""
    rng = random.Random(2)
    wanted = {}
    for number in range(1, 41):
        date, types = rng.choice([0, 19990101, 20200101]), tuple(rng.sample(["review", "letter"], rng.randrange(3)))
        namespace, bits = rng.randrange(3), type_bits(types)
        index.add([passage(number, "asthma", date, types)], namespace)
        if (
            (where.namespaces is None or namespace in where.namespaces)
            and (not where.date_from or date >= where.date_from)
            and (not where.date_to or 0 < date <= where.date_to)
            and (not where.types or bits & where.types)
            and not bits & where.without_types
            and (where.ids is None or number in where.ids)
        ):
            wanted[number] = [1]
    index.commit()
    assert counts(index, "asthma", where=where) == wanted
