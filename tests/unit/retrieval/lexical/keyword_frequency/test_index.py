"""The keyword index counts what a careful reader would count, and keeps it through changes and crashes."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import INDEX_BUSY, INDEX_INPUT_INVALID, INDEX_MISMATCH, IndexDamaged, IndexFault
from retrieval.index.base import RowFilter
from retrieval.lexical.keyword_frequency.index import KeywordIndex, open_keyword_index
from retrieval.lexical.keyword_frequency.pes2 import keyword_search
from retrieval.lexical.question_keywords import Keyword, KeywordQuery
from retrieval.lexical.tokens import HARD, atoms_of
from retrieval.passages import Passage, type_bits

REPO = Path(__file__).resolve().parents[5]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[KeywordIndex]:
    made = open_keyword_index(tmp_path / "index")
    yield made
    made.close()


def passage(number: int, text: str, date: int = 0, types: tuple[str, ...] = ()) -> Passage:
    return Passage(passage_id=number, document_id="d", title="no title counts: il6", text=text, date=date, types=types)


def fill(index: KeywordIndex, *texts: str) -> None:
    index.add(passage(number, text) for number, text in enumerate(texts, 1))
    index.commit()


def counts(index: KeywordIndex, *keywords: str, where: RowFilter | None = None) -> dict[int, list[int]]:
    table = index.count(keywords, where)
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
    index: KeywordIndex, keyword: str, text: str, count: int
) -> None:
    """A keyword inside a longer name, or over the end of a sentence, is not counted."""
    fill(index, "filler", text)
    assert counts(index, keyword).get(2, [0]) == [count]


def test_each_keyword_has_its_column_and_passages_their_order(index: KeywordIndex) -> None:
    """Passages without any keyword are not in the table; an empty list of keywords gives an empty one."""
    fill(index, "meiosis NuA4 meiosis", "none", "NuA4")
    table = index.count(["NuA4", "meiosis", "absent"])
    assert table.ids.tolist() == [1, 3]
    assert table.counts.tolist() == [[1, 2, 0], [1, 0, 0]]
    assert len(index.count([]).ids) == 0


def test_keywords_rank_passages(index: KeywordIndex) -> None:
    """The whole of PES2: a keyword given twice counts once, fixed ones first."""
    fill(index, "NuA4 NuA4 NuA4", "meiosis NuA4", "meiosis", "none")
    query = KeywordQuery(question="", keywords=(Keyword("NuA4"), Keyword("nua-4"), Keyword("meiosis")))
    assert keyword_search(index, query).ids.tolist() == [2, 1, 3]
    fixed = KeywordQuery(question="", keywords=(Keyword("NuA4"), Keyword("meiosis", True)), only_fixed=True)
    assert keyword_search(index, fixed, k=5).ids.tolist() == [2, 3]
    assert keyword_search(index, fixed, k=1).ids.tolist() == [2]


def test_changes_are_seen_after_commit_alone(tmp_path: Path) -> None:
    """Adds, replacements and deletes, in their order, also through closing and opening again."""
    index = open_keyword_index(tmp_path / "index")
    fill(index, "asthma", "asthma asthma")
    index.add([passage(1, "eczema"), passage(3, "asthma"), passage(3, "asthma " * 3)])
    index.delete([2, 77])
    assert counts(index, "asthma") == {1: [1], 2: [2]}
    index.commit()
    assert counts(index, "asthma", "eczema") == {1: [0, 1], 3: [3, 0]} and len(index) == 2
    index.add([passage(9, "asthma")])
    index.delete([9])
    index.add([passage(8, "asthma")])
    index.close()
    index = open_keyword_index(tmp_path / "index")
    assert counts(index, "asthma", "eczema") == {1: [0, 1], 3: [3, 0]} and len(index) == 2
    index.delete([1, 3])
    index.commit()
    assert counts(index, "asthma") == {} and len(index) == 0
    index.close()


def by_pattern(texts: dict[int, str], keyword: str) -> dict[int, list[int]]:
    found = {number: len(re.findall(rf"\b{keyword}\b", text)) for number, text in texts.items()}
    return {number: [count] for number, count in found.items() if count}


def test_many_changes_leave_what_a_plain_dictionary_would_hold(tmp_path: Path) -> None:
    """Segments come together and dead rows go; the counts and the order stay; files do not pile up."""
    rng = random.Random(5)
    words = [f"{a}{b}" for a in "bcdfg" for b in "klmnp"]
    index = open_keyword_index(tmp_path / "index")
    held: dict[int, str] = {}
    for _ in range(25):
        for number in rng.sample(range(1, 120), rng.randrange(1, 30)):
            held.pop(number, None)
            if rng.random() < 0.7:
                held[number] = " ".join(rng.choices(words, k=20))
                index.add([passage(number, held[number])])
            else:
                index.delete([number])
        index.commit()
        word = rng.choice(words)
        found = counts(index, word)
        assert found == by_pattern(held, word) and list(found) == list(by_pattern(held, word))
        assert len(index) == len(held)
    pair = " ".join(next(iter(held.values())).split()[:2])
    assert counts(index, pair) == by_pattern(held, pair)
    index.close()
    assert len(list((tmp_path / "index").glob("*.occurrences.npy"))) <= 8
    index = open_keyword_index(tmp_path / "index")
    assert counts(index, pair) == by_pattern(held, pair)
    index.close()


@given(st.lists(st.text(max_size=60), max_size=6), st.text(max_size=20))
def test_any_text_and_keyword_can_be_counted(
    tmp_path_factory: pytest.TempPathFactory, texts: Sequence[str], keyword: str
) -> None:
    """Never an error; a passage that is the keyword between two words has it at least once."""
    index = open_keyword_index(tmp_path_factory.mktemp("keywords") / "index")
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
def test_a_filter_lets_no_other_passage_through(index: KeywordIndex, where: RowFilter) -> None:
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


def test_ids_that_cannot_be_are_refused(index: KeywordIndex) -> None:
    """And nothing of the batch is added."""
    with pytest.raises(IndexFault, check=INDEX_INPUT_INVALID.is_of):
        index.add([passage(1, "asthma"), passage(0, "asthma")])
    index.commit()
    assert len(index) == 0


def test_counts_go_on_while_passages_come_in(index: KeywordIndex) -> None:
    """A source that takes hours to read keeps nobody waiting."""
    fill(index, "asthma")
    seen: list[dict[int, list[int]]] = []

    def slow_source() -> Iterator[Passage]:
        yield passage(2, "asthma")
        reader = threading.Thread(target=lambda: seen.append(counts(index, "asthma")), daemon=True)
        reader.start()
        reader.join(120)
        yield passage(3, "asthma")

    index.add(slow_source())
    assert seen == [{1: [1]}]


def test_one_object_writes_and_others_see_its_commits(tmp_path: Path) -> None:
    """The second writer waits for the first one's commit; a closed index says so."""
    first, second = open_keyword_index(tmp_path / "index"), open_keyword_index(tmp_path / "index")
    first.add([passage(1, "asthma")])
    with pytest.raises(IndexFault, check=INDEX_BUSY.is_of):
        second.delete([1])
    first.commit()
    assert counts(second, "asthma") == {1: [1]}
    second.add([passage(2, "asthma")])
    second.commit()
    assert len(first) == 2
    first.close()
    with pytest.raises(IndexFault):
        first.count(["asthma"])
    second.close()


@pytest.mark.parametrize("kind", ["occurrences", "terms", "alive", "ids"])
@pytest.mark.parametrize("harm", ["cut", "changed", "missing"])
def test_a_damaged_file_is_told(tmp_path: Path, kind: str, harm: str) -> None:
    """By its digest."""
    index = open_keyword_index(tmp_path / "index")
    fill(index, "asthma", "eczema")
    index.close()
    path = next((tmp_path / "index").glob(f"*.{kind}.npy"))
    content = path.read_bytes()
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(content[:-1] if harm == "cut" else content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(IndexDamaged):
        open_keyword_index(tmp_path / "index")


def test_another_tokenizers_index_is_refused(tmp_path: Path) -> None:
    """And so is a manifest that is none."""
    open_keyword_index(tmp_path / "index").close()
    manifest = tmp_path / "index" / "manifest.json"
    found = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(found | {"tokenizer": 0}))
    with pytest.raises(IndexFault, check=INDEX_MISMATCH.is_of):
        open_keyword_index(tmp_path / "index")
    del found["generation"]
    for text in (json.dumps(found), "{", "[]"):
        manifest.write_text(text)
        with pytest.raises(IndexDamaged):
            open_keyword_index(tmp_path / "index")


WRITE_FOREVER = """
import sys
import threading
from pathlib import Path
from retrieval.lexical.keyword_frequency.index import open_keyword_index
from retrieval.lexical.tokens import HARD, atoms_of
from retrieval.passages import Passage
index = open_keyword_index(Path(sys.argv[1]))
for batch in range(1, 10_000):
    index.add([Passage(passage_id=batch * 100 + n, document_id="d", title="", text="asthma") for n in range(50)])
    index.commit()
    print(batch, flush=True)
"""


@pytest.mark.server
def test_a_killed_writer_leaves_what_it_committed(tmp_path: Path) -> None:
    """Whole batches, all that were acknowledged; the next writer tidies up."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITE_FOREVER, str(tmp_path / "index")], cwd=REPO, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    lines = [writer.stdout.readline() for _ in range(3)]
    writer.send_signal(signal.SIGKILL)
    lines += writer.stdout.readlines()
    writer.wait()
    acknowledged = max(int(line) for line in lines if line.strip())
    index = open_keyword_index(tmp_path / "index")
    assert len(index) in (acknowledged * 50, (acknowledged + 1) * 50)
    fill(index, "eczema")
    assert counts(index, "eczema") == {1: [1]}
    index.close()
