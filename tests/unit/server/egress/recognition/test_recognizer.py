"""What a recognized call becomes, which classes it has, and what other lists of classes permit."""

from __future__ import annotations

import pytest
from site_vocabulary import sample_names

from retrieval.ncbi.calls.parameter_classes import ParamClass
from retrieval.types import NcbiCall
from server.egress.recognition.recognizer import CHOICES, VARIABLE, Allowed, Recognizer
from server.egress.recognition.terms import Refused
from server.egress.recognition.vocabulary import Vocabulary

HOSPITAL: frozenset[ParamClass] = frozenset({"id", "symbol", "term"})


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    return sample_names(tmp_path_factory.mktemp("names"))


def _search(term: str, db: str = "gene", **more: str) -> NcbiCall:
    return NcbiCall("esearch", db, {"db": db, "term": term} | more)


@pytest.mark.parametrize(
    ("call", "classes", "characters"),
    [
        (_search("HER2", retmax="5", sort="relevance"), ("symbol",), 7),
        (_search("NAT2[sym] AND human[orgn]"), ("symbol", "term"), 26),
        (_search("nat2[SYM] OR 2064[uid]"), None, 0),
        (_search("tay-sachs disease", "omim"), ("term",), 18),
        (_search("NAT2", field="sym"), ("symbol",), 6),
        (_search("rs334[rs]", "snp"), ("id",), 10),
        (_search('"Homo sapiens"[Organism] AND 17[chr]'), ("term",), 37),
        (NcbiCall("esummary", "gene", {"id": "672,675", "db": "gene"}), ("id",), 8),
        (NcbiCall("elink", "omim", {"dbfrom": "gene", "db": "omim", "id": "672", "linkname": "gene_omim"}), ("id",), 6),
        (NcbiCall("einfo", "", {"retmode": "json"}), (), 1),
        (NcbiCall("blast_get", "", {"RID": "ABCDEFGH012", "FORMAT_TYPE": "XML"}), ("id",), 12),
    ],
)
def test_a_recognized_call_has_its_classes_and_its_cost(
    names: Vocabulary, call: NcbiCall, classes: tuple[str, ...] | None, characters: int
) -> None:
    """Names and ids cost their characters, any other parameter one; None: an identifier beside a name stays."""
    verdict = Recognizer(names, HOSPITAL).judge(call, lambda rid: rid == "ABCDEFGH012")

    if classes is None:
        assert isinstance(verdict, Refused) and verdict.reason == "combination"
    else:
        assert isinstance(verdict, Allowed), verdict
        assert (verdict.classes, verdict.characters) == (classes, characters)


@pytest.mark.parametrize("term", ["asthmaa children", "John Smith has HIV", "NAT2"])
def test_words_to_be_spelled_never_leave(names: Vocabulary, term: str) -> None:
    """They are those that no vocabulary has; also the endpoint itself is not among the recognized ones."""
    call = NcbiCall("espell", "pubmed", {"db": "pubmed", "term": term})

    assert isinstance(Recognizer(names, HOSPITAL).judge(call, lambda _: False), Refused)


def test_a_class_that_is_not_listed_stays(names: Vocabulary) -> None:
    """With egress.allow=id a known symbol stays; with nothing, an id does."""
    symbol, ids = _search("NAT2"), NcbiCall("esummary", "gene", {"db": "gene", "id": "672"})

    only_ids = Recognizer(names, frozenset({"id"}))
    assert isinstance(only_ids.judge(ids, lambda _: False), Allowed)
    verdict = only_ids.judge(symbol, lambda _: False)
    assert isinstance(verdict, Refused) and verdict.reason == "class"
    assert isinstance(Recognizer(names, frozenset()).judge(ids, lambda _: False), Refused)


def test_sequences_and_positions_leave_only_where_they_are_listed(names: Vocabulary) -> None:
    """And then with nothing else unrecognized beside them."""
    put = {"PROGRAM": "blastn", "DATABASE": "nt", "QUERY": "ACGTACGTACGT"}
    segment = {"db": "nuccore", "id": "NC_000017.11", "seq_start": "43044295", "seq_stop": "43125483"}
    place = _search("17[chr] AND 43044295[chrpos]", "snp")
    calls = [NcbiCall("blast_put", "nt", put), NcbiCall("efetch", "nuccore", segment), place]
    wide = Recognizer(names, HOSPITAL | {"sequence", "coordinates"})

    assert [type(Recognizer(names, HOSPITAL).judge(call, lambda _: False)) for call in calls] == [Refused] * 3
    assert [type(wide.judge(call, lambda _: False)) for call in calls] == [Allowed] * 3
    for more in ({"ENTREZ_QUERY": "John Smith"}, {"HITLIST_SIZE": "195"}, {"JOB_TITLE": "John"}):
        assert isinstance(wide.judge(NcbiCall("blast_put", "nt", put | more), lambda _: False), Refused)
    human = NcbiCall("blast_put", "nt", put | {"ENTREZ_QUERY": "Homo sapiens[orgn]"})
    assert isinstance(wide.judge(human, lambda _: False), Allowed)


def test_no_parameter_is_in_both_tables() -> None:
    """Each has one check: that of its own, or a list."""
    assert VARIABLE.keys() == CHOICES.keys()
    for endpoint, variable in VARIABLE.items():
        assert not variable.keys() & CHOICES[endpoint].keys()


def test_a_call_costs_few_look_ups() -> None:
    """Bounded look-ups: a few per name, none for a call that is refused by its form."""
    counted: list[str] = []

    class Counting:
        def find(self, name: str, kinds: object) -> tuple[()]:
            counted.append(name)
            return ()

        def is_ordinary(self, word: str) -> bool:
            return False

    recognizer = Recognizer(Counting(), HOSPITAL)
    recognizer.judge(_search(" AND ".join(f"A{number}[sym]" for number in range(50))), lambda _: False)
    recognizer.judge(_search("john smith has hiv " * 10), lambda _: False)
    assert counted == []
    recognizer.judge(_search("A1[sym] AND A2[sym] AND A3[sym]"), lambda _: False)
    assert 1 <= len(counted) <= 3
