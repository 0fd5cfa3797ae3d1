"""Every lexical index keeps the promises of ``retrieval/lexical/base.py``."""

from __future__ import annotations

import json
import math
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from retrieval.errors import INDEX_BUSY, INDEX_INPUT_INVALID, INDEX_MISMATCH, IndexDamaged, IndexFault
from retrieval.index.base import RowFilter
from retrieval.lexical.base import LexicalIndex
from retrieval.lexical.tantivy_index import LexicalOptions, open_tantivy, row_of
from retrieval.lexical.tokens import query_terms
from retrieval.passages import Passage, type_bits
from retrieval.types import NameInText

Open = Callable[[Path], LexicalIndex]
OPENERS: dict[str, Open] = {"tantivy": open_tantivy}
REPO = Path(__file__).resolve().parents[2]
ODD_QUERIES = [
    'AND OR NOT "',
    "title:il6^4 AND (",
    "* ? ~ [a TO b] {x}",
    "';DROP TABLE rows;--",
    'NEAR(a b, 2) "unclosed',
    "p.Val600Glu; c.35G>A (−)-epicatechin",
    "\x00\udcff il6",
    "\\",
    "-il6 +il6",
]


@pytest.fixture(params=sorted(OPENERS))
def open_index(request: pytest.FixtureRequest) -> Open:
    return OPENERS[request.param]


@pytest.fixture
def index(open_index: Open, tmp_path: Path) -> Iterator[LexicalIndex]:
    made = open_index(tmp_path / "index")
    yield made
    made.close()


def passage(number: int, text: str, title: str = "", date: int = 0, types: tuple[str, ...] = ()) -> Passage:
    return Passage(passage_id=number, document_id=f"PMID:{number}", title=title, text=text, date=date, types=types)


def found(index: LexicalIndex, query: str, k: int = 10, where: RowFilter | None = None) -> list[int]:
    return [hit.passage_id for hit in index.search(query, k, where)]


def fill(index: LexicalIndex, *passages: Passage) -> None:
    assert index.add(passages) == len(passages)
    index.commit()


def test_an_empty_index_finds_nothing(index: LexicalIndex) -> None:
    """No error either."""
    assert len(index) == 0
    assert index.search("IL-6", 5) == []


def test_any_spelling_finds_any_other(index: LexicalIndex) -> None:
    """The tokenizer's promise holds through the back end; scores are above 0 and descend."""
    fill(
        index,
        passage(1, "Serum IL‑6 rose."),
        passage(2, "BRCA1/2 carriers"),
        passage(3, "CO₂ and TNF-α"),
        passage(4, "none"),
    )
    assert found(index, "il6") == found(index, "IL 6") == [1]
    assert found(index, "brca2") == [2]
    assert found(index, "TNFalpha") == found(index, "co2") == [3]
    scores = [hit.score for hit in index.search("il6 co2 none", 10)]
    assert scores == sorted(scores, reverse=True) and scores[-1] > 0


def test_a_word_in_the_title_counts_more(index: LexicalIndex) -> None:
    """Of two passages with one mention and equal length the one with it in its title is first."""
    rest = [passage(number, "cells of mice in water") for number in range(10, 20)]
    fill(index, passage(1, "asthma trial here", "about cells"), passage(2, "about cells here", "asthma trial"), *rest)
    assert found(index, "asthma")[0] == 2


def test_what_is_not_committed_is_not_seen(open_index: Open, tmp_path: Path) -> None:
    """Adds and deletes appear together at commit; closing without it drops them."""
    index = open_index(tmp_path / "index")
    fill(index, passage(1, "asthma"))
    index.add([passage(2, "asthma")])
    index.delete([1])
    assert found(index, "asthma") == [1]
    index.close()
    index = open_index(tmp_path / "index")
    assert found(index, "asthma") == [1]
    index.add([passage(2, "asthma")])
    index.delete([1, 99])
    index.commit()
    assert found(index, "asthma") == [2] and len(index) == 1
    index.close()


def test_a_passage_added_again_takes_the_old_ones_place(index: LexicalIndex) -> None:
    """Also within one commit."""
    fill(index, passage(7, "asthma"))
    fill(index, passage(7, "eczema"), passage(8, "eczema"), passage(8, "psoriasis"))
    assert len(index) == 2
    assert found(index, "asthma") == [] and found(index, "eczema") == [7] and found(index, "psoriasis") == [8]


def test_ids_of_63_bits_come_back(index: LexicalIndex) -> None:
    """Signed 64-bit integers hold them; 0, negative and larger ones are refused and nothing is added."""
    fill(index, passage(2**63 - 1, "asthma"))
    assert found(index, "asthma") == [2**63 - 1]
    for number in (0, -5, 2**63):
        with pytest.raises(IndexFault, check=INDEX_INPUT_INVALID.is_of):
            index.add([passage(3, "asthma"), passage(number, "asthma")])
    index.commit()
    assert len(index) == 1
    index.delete([2**63 - 1])
    index.commit()
    assert len(index) == 0


@pytest.mark.parametrize("query", ["", "   ", "?!", "()", '""', "\n"])
def test_a_query_without_words_finds_nothing(index: LexicalIndex, query: str) -> None:
    """And raises nothing."""
    fill(index, passage(1, "asthma ? ! () and more"))
    assert index.search(query, 5) == []


@pytest.mark.parametrize("query", ODD_QUERIES)
def test_punctuation_is_never_query_syntax(index: LexicalIndex, query: str) -> None:
    """A passage that holds the words of the query is found by them."""
    fill(index, passage(1, query + " filler"), passage(2, "other"), passage(3, "more"))
    assert found(index, query) == ([1] if query_terms(query) else [])


def test_no_more_than_k_and_none_for_zero(index: LexicalIndex) -> None:
    """Equal scores come by id."""
    fill(index, *[passage(number, "asthma") for number in (5, 3, 9, 1)], *[passage(n, "x y z") for n in range(20, 30)])
    assert found(index, "asthma", 10) == [1, 3, 5, 9]
    assert len(found(index, "asthma", 2)) == 2
    assert found(index, "asthma", 0) == [] and found(index, "asthma", -1) == []


FILTERS = {
    "namespace": RowFilter(namespaces=frozenset({2})),
    "two namespaces": RowFilter(namespaces=frozenset({1, 2})),
    "no namespace": RowFilter(namespaces=frozenset()),
    "from": RowFilter(date_from=20100000),
    "to": RowFilter(date_to=20101231),
    "between": RowFilter(date_from=20050101, date_to=20151231),
    "types": RowFilter(types=type_bits(["review", "letter"])),
    "without": RowFilter(without_types=type_bits(["review", "news"])),
    "ids": RowFilter(ids=np.array([2, 3, 5, 8, 13, 21, 34, 999], dtype=np.int64)),
    "no ids": RowFilter(ids=np.array([], dtype=np.int64)),
    "all": RowFilter(
        namespaces=frozenset({1}),
        date_from=20000101,
        types=type_bits(["journal article"]),
        without_types=type_bits(["review"]),
        ids=np.arange(0, 60, 3, dtype=np.int64),
    ),
}


def passes(item: Passage, namespace: int, where: RowFilter) -> bool:
    bits = type_bits(item.types)
    return (
        (where.namespaces is None or namespace in where.namespaces)
        and (not where.date_from or item.date >= where.date_from)
        and (not where.date_to or 0 < item.date <= where.date_to)
        and (not where.types or bool(bits & where.types))
        and not bits & where.without_types
        and (where.ids is None or item.passage_id in where.ids.tolist())
    )


def filterable() -> list[tuple[int, Passage]]:
    rng = random.Random(3)
    kinds = ("journal article", "review", "letter", "news", "interview")
    dates = (0, 19990101, 20070612, 20110300, 20200101)
    rows = []
    for number in range(1, 61):
        types = tuple(rng.sample(kinds, rng.randrange(4)))
        rows.append((rng.randrange(3), passage(number, "asthma in mice", "", rng.choice(dates), types)))
    return rows


@pytest.mark.parametrize("where", FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.parametrize("query", ["asthma", "asthma mice absent"])
def test_a_filter_lets_no_other_row_through(index: LexicalIndex, where: RowFilter, query: str) -> None:
    """With k above the survivors all of them come, and only they; scores are those without the filter."""
    rows = filterable()
    for namespace, item in rows:
        index.add([item], namespace)
    index.commit()
    wanted = {item.passage_id for namespace, item in rows if passes(item, namespace, where)}
    hits = index.search(query, 1000, where)
    assert sorted(hit.passage_id for hit in hits) == sorted(wanted)
    unfiltered = {hit.passage_id: hit.score for hit in index.search(query, 1000)}
    assert all(hit.score == pytest.approx(unfiltered[hit.passage_id]) for hit in hits)


def bm25_order(passages: list[Passage], query: str, k1: float = 1.2, b: float = 0.75) -> list[int]:
    """The plain formula, with the idf that cannot be negative."""
    bags = {item.passage_id: Counter(row_of(item).terms.split()) for item in passages}
    mean = sum(bag.total() for bag in bags.values()) / len(bags)
    scores: dict[int, float] = defaultdict(float)
    for term in query_terms(query):
        having = [number for number, bag in bags.items() if bag[term]]
        idf = math.log(1 + (len(bags) - len(having) + 0.5) / (len(having) + 0.5))
        for number in having:
            count, length = bags[number][term], bags[number].total()
            scores[number] += idf * count * (k1 + 1) / (count + k1 * (1 - b + b * length / mean))
    return sorted(scores, key=lambda number: (-round(scores[number], 9), number))


def test_the_order_is_that_of_the_bm25_formula(index: LexicalIndex) -> None:
    """On a small corpus with lengths up to 40 words, which tantivy keeps exactly."""
    rng = random.Random(11)
    rare = [f"protein{letter}ax" for letter in "bcdefghk"]
    common = [f"word{letter}ax" for letter in "bcdefghijklmnopqrstuvwxyz"]
    made = []
    for number in range(1, 201):
        words = [rng.choice(rare) if rng.random() < 0.05 else rng.choice(common) for _ in range(rng.randrange(5, 35))]
        made.append(passage(number, " ".join(words), rng.choice(["", rng.choice(rare), rng.choice(common)])))
    fill(index, *made)
    for _ in range(10):
        query = " ".join(rng.sample(rare, 2))
        assert found(index, query, 10) == bm25_order(made, query)[:10]


def test_of_long_queries_the_rarest_terms_are_searched(tmp_path: Path) -> None:
    """A passage with the rare term alone is found, however many common words stand before it."""
    index = open_tantivy(tmp_path / "index", LexicalOptions(max_terms=2))
    common = " ".join(f"common{letter}" for letter in "bcdefgh")
    fill(index, *[passage(number, common) for number in range(1, 10)], passage(10, "rareword"))
    assert found(index, f"{common} rareword", 20)[0] == 10
    index.close()


def test_a_name_is_also_found_by_its_synonyms(index: LexicalIndex) -> None:
    """By all words of a synonym, wherever they stand; the words beside the name count as without synonyms."""
    fill(
        index,
        passage(1, "Serum IL-6 rose in sepsis."),
        passage(2, "Serum interleukin 6 rose in sepsis."),
        passage(3, "A tumor grew; necrosis followed, and no factor was known."),
        passage(4, "Necrosis of a tumor."),
        passage(5, "Serum potassium rose in sepsis."),
        passage(6, "Interleukin 2 rose."),
    )
    names = [NameInText("IL-6", ("interleukin-6", "unheard of"))]
    assert set(found(index, "IL-6")) == {1}
    assert {hit.passage_id for hit in index.search("IL-6", 9, names=names)} == {1, 2}
    assert {hit.passage_id for hit in index.search("IL-6 sepsis", 9, names=names)} == {1, 2, 5}
    tumor = [NameInText("TNF", ("tumor necrosis factor",))]
    assert [hit.passage_id for hit in index.search("TNF", 9, names=tumor)] == [3]
    where = RowFilter(ids=np.array([1], dtype=np.int64))
    assert [hit.passage_id for hit in index.search("IL-6", 9, where, names)] == [1]


def test_a_synonym_counts_half_of_the_name(index: LexicalIndex) -> None:
    """However rare it is, and however many words it has; a passage with several has the credit of one."""
    fill(
        index,
        passage(1, "kras kras one two three four"),
        passage(2, "kras two three four five six"),
        passage(3, "zebrin quorum three four five six"),
        passage(4, "kras zebrin quorum four five six"),
        *(passage(number, f"other words number{number} of kras") for number in range(5, 40)),
    )
    names = [NameInText("kras", ("zebrin quorum", "zebrin"))]
    scores = {hit.passage_id: hit.score for hit in index.search("kras", 50, names=names)}
    plain = {hit.passage_id: hit.score for hit in index.search("kras", 50)}
    assert scores[3] == pytest.approx(scores[2] / 2, rel=0.05)
    assert {number: scores[number] for number in plain} == pytest.approx(plain)
    assert index.search("kras", 50, names=[NameInText("kras", ("KRAS", "unheard"))]) == index.search("kras", 50)


def test_an_index_opened_again_is_the_same(open_index: Open, tmp_path: Path) -> None:
    """Nothing but the folder is needed."""
    first = open_index(tmp_path / "deep" / "index")
    fill(first, *[passage(number, f"asthma {'cell ' * number}") for number in range(1, 8)])
    before = first.search("asthma cell", 10)
    first.close()
    second = open_index(tmp_path / "deep" / "index")
    assert second.search("asthma cell", 10) == before and len(second) == 7
    second.close()


def test_one_object_writes_at_a_time_and_readers_see_its_commits(open_index: Open, tmp_path: Path) -> None:
    """The second writer is told so until the first has committed; an open reader sees the commit."""
    first, second = open_index(tmp_path / "index"), open_index(tmp_path / "index")
    first.add([passage(1, "asthma")])
    with pytest.raises(IndexFault, check=INDEX_BUSY.is_of):
        second.add([passage(2, "asthma")])
    with pytest.raises(IndexFault, check=INDEX_BUSY.is_of):
        second.delete([1])
    first.commit()
    assert found(second, "asthma") == [1]
    fill(second, passage(2, "asthma"))
    assert found(first, "asthma") == [1, 2]
    first.close()
    second.close()


def test_threads_search_while_one_writes(index: LexicalIndex) -> None:
    """Every search sees whole commits: a multiple of ten passages."""
    seen: list[int] = []
    done = threading.Event()

    def search() -> None:
        while not done.is_set():
            seen.append(len(index.search("asthma", 1000)))

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for batch in range(5):
        fill(index, *[passage(batch * 10 + number, "asthma") for number in range(1, 11)])
    done.set()
    for thread in threads:
        thread.join()
    assert {count % 10 for count in seen} <= {0} and len(index) == 50


def test_searches_go_on_while_passages_come_in(index: LexicalIndex) -> None:
    """A source that takes hours to read keeps nobody waiting."""
    fill(index, passage(1, "asthma"))
    seen: list[list[int]] = []

    def slow_source() -> Iterator[Passage]:
        yield passage(2, "asthma")
        reader = threading.Thread(target=lambda: seen.append(found(index, "asthma")), daemon=True)
        reader.start()
        reader.join(120)
        yield passage(3, "asthma")

    index.add(slow_source())
    assert seen == [[1]]


def test_a_closed_index_says_so(index: LexicalIndex) -> None:
    """Closing twice is no error."""
    index.close()
    index.close()
    with pytest.raises(IndexFault):
        index.search("asthma", 1)
    with pytest.raises(IndexFault):
        index.add([passage(1, "asthma")])


def test_an_index_of_another_tokenizer_is_refused(tmp_path: Path) -> None:
    """Its terms would not be those of queries."""
    open_tantivy(tmp_path / "t").close()
    manifest = tmp_path / "t" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"tokenizer": 0}))
    with pytest.raises(IndexFault, check=INDEX_MISMATCH.is_of):
        open_tantivy(tmp_path / "t")


def test_a_damaged_folder_is_refused(open_index: Open, tmp_path: Path) -> None:
    """Cut or missing files are told, not served as an empty index."""
    index = open_index(tmp_path / "index")
    fill(index, passage(1, "asthma"))
    index.close()
    for path in (tmp_path / "index").iterdir():
        if path.name == "meta.json":
            path.write_bytes(b"x" * 4096)
    with pytest.raises(IndexDamaged):
        open_index(tmp_path / "index")
    for path in (tmp_path / "index").iterdir():
        if path.name == "meta.json":
            path.unlink()
    with pytest.raises(IndexDamaged):
        open_index(tmp_path / "index")


WRITE_FOREVER = """
import sys
from pathlib import Path
from retrieval.lexical.tantivy_index import open_tantivy
from retrieval.passages import Passage
index = open_tantivy(Path(sys.argv[1]))
for batch in range(1, 10_000):
    index.add([Passage(passage_id=batch * 100 + n, document_id="d", title="", text=f"asthma {'cell ' * n}")
               for n in range(50)])
    index.commit()
    print(batch, flush=True)
"""


@pytest.mark.server
@pytest.mark.parametrize("after_s", [0.0, 0.013])
def test_a_killed_writer_leaves_what_it_committed(after_s: float, tmp_path: Path) -> None:
    """No batch that was acknowledged is lost, none is there in part, and the next one can write."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITE_FOREVER, str(tmp_path / "index")], cwd=REPO, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    lines = [writer.stdout.readline() for _ in range(3)]
    time.sleep(after_s)
    writer.send_signal(signal.SIGKILL)
    lines += writer.stdout.readlines()
    writer.wait()
    acknowledged = max(int(line) for line in lines if line.strip())
    index = open_tantivy(tmp_path / "index")
    assert len(index) in (acknowledged * 50, (acknowledged + 1) * 50)
    assert len(index.search("asthma", 10_000)) == len(index)
    fill(index, passage(5, "eczema"))
    assert found(index, "eczema") == [5]
    index.close()


def test_tantivy_stays_behind_its_adapter() -> None:
    """One module of the project imports it."""
    found = [
        path.name
        for package in ("server", "retrieval", "models")
        for path in (REPO / package).rglob("*.py")
        if re.search(r"^\s*(import|from) tantivy\b", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert found == ["tantivy_index.py"]


def test_where_an_index_cannot_be_it_says_so(open_index: Open, tmp_path: Path) -> None:
    """A file in its place, and a folder of other things."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(IndexFault):
        open_index(tmp_path / "file")
    with pytest.raises(IndexFault):
        open_index(tmp_path / "file" / "below")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("x")
    with pytest.raises(IndexDamaged):
        open_index(tmp_path / "other")
    assert (tmp_path / "other" / "notes.txt").exists()
