"""WeiseEule over the scripted engine and small namespaces: keywords, rankings, answers, articles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lexical_verifier import AS_THE_MODEL, lexical_gate
from passage_bench import PassageBench, Script, done, fill, references, shown, steps

from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import TextBuilder
from retrieval.passages import Document
from server.evidence.keywords import KeywordService
from server.methods.base import OptionInvalid, TranscriptDelta
from server.methods.weiseeule.method import WeiseEule

PAPERS = (
    ("Swr1", "SWR1 deposits H2A.Z at promoters. SWR1 deletion raises mutation rates at CAN1.", "https://example.org/1"),
    ("Exo1", "EXO1 excises mismatches. Without SWR1 the mutation rate at CAN1 rises in EXO1 cells.", ""),
    ("Htz1", "The histone variant Htz1 is acetylated by NuA4.", ""),
    ("Anaemia", "Haemoglobin is low in anaemia of chronic disease.", ""),
)
MARKED = "#How does **SWR1** change the *mutation* rate at *CAN1*?"


class Genes:
    """One gene with one other name."""

    def synonyms(self, name: str) -> tuple[str, ...]:
        return ("Htz1",) if name == "H2A.Z" else ()

    def is_gene(self, name: str) -> bool:
        return name in ("H2A.Z", "SWR1")


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    def make(script: Script = lambda prompt: " nonsense", **more: Any) -> PassageBench:
        found = PassageBench(
            lambda slot, service: WeiseEule(
                slot, KeywordService(found.retrieval, service, Genes()), lexical_gate(), 400
            ),
            tmp_path,
            script,
            **({"documents": PAPERS} | more),
        )
        return found

    return make


def titles(events: Any) -> list[str]:
    return [one["title"] for one in done(events).details["passages"]]


async def test_a_collection_without_documents_keeps_nobody_from_an_answer(bench: Any) -> None:
    """It has no index of words yet."""
    async with bench() as made:
        before = await made.ask(MARKED)
        fill(made.retrieval, "empty", [])
        assert titles(await made.ask(MARKED)) == titles(before) != []


async def test_marked_keywords_rank_and_are_counted_in_the_trace(bench: Any) -> None:
    """Passages with all fixed keywords first; the question goes on without marks, and no model is called."""
    async with bench() as made:
        events = await made.ask(MARKED, synthesis="extractive")
        assert made.engine.requests == []
    assert titles(events) == ["Swr1", "Exo1"]
    table = done(events).details["keyword_table"]
    assert [(one["text"], one["fixed"]) for one in table["keywords"]] == [
        ("SWR1", True),
        ("mutation", False),
        ("CAN1", False),
    ]
    assert [(row["counts"], row["distinct"], row["total"]) for row in table["rows"]] == [
        ([2, 1, 1], 3, 4),
        ([1, 1, 1], 3, 3),
    ]
    mention = table["rows"][0]["mentions"][0]
    assert PAPERS[0][1][mention["start"] : mention["end"]] == "SWR1"
    assert steps(events)[0] == "keywords marked in the question: SWR1 (fixed), mutation, CAN1"
    assert done(events).details["method"] == "weiseeule" and "CAN1" in shown(events)


async def test_two_hashes_keep_only_passages_with_all_fixed_keywords(bench: Any) -> None:
    """One hash keeps the others, behind them."""
    async with bench() as made:
        only = await made.ask("##**SWR1** and **H2A.Z**?", synthesis="extractive")
        every = await made.ask("#**SWR1** and **H2A.Z**?", synthesis="extractive")
    assert titles(only) == ["Swr1"] and titles(every)[0] == "Swr1" and len(titles(every)) > 1


async def test_other_spellings_count_and_are_told_unless_matching_is_exact(bench: Any) -> None:
    """British spelling, a gene's synonym, a slip in the question."""
    async with bench() as made:
        for keyword, title in (("hemoglobin", "Anaemia"), ("H2A.Z", "Swr1"), ("haemoglobjn", "Anaemia")):
            events = await made.ask(f"#What is known of *{keyword}*?", synthesis="extractive")
            assert titles(events)[0] == title, keyword
            exact = await made.ask(f"#What is known of *{keyword}*?", synthesis="extractive", matching="exact")
            assert titles(exact) == (["Swr1"] if keyword == "H2A.Z" else []), keyword
        events = await made.ask("#What is known of *H2A.Z*?", synthesis="extractive")
        british = await made.ask("#What is known of *hemoglobin*?", synthesis="extractive")
    assert titles(events) == ["Swr1", "Htz1"]
    assert "H2A.Z (1) also as Htz1 (synonym, 1)" in steps(events)
    assert "hemoglobin (1) also as haemoglobin (1 here)" in steps(british)


async def test_without_marks_names_and_counts_choose_the_keywords(bench: Any) -> None:
    """Words that only ask are left out; those given as an option come first."""
    async with bench() as made:
        events = await made.ask("What is the impact of SWR1 on CAN1?", synthesis="extractive")
        given = await made.ask("What is it?", synthesis="extractive", keywords=["EXO1", "CAN1"])
    assert [one["text"] for one in done(events).details["keyword_table"]["keywords"]] == ["SWR1", "CAN1"]
    assert done(events).details["keywords_from"] == "terms"
    table = done(given).details["keyword_table"]["keywords"]
    assert [one["text"] for one in table] == ["EXO1", "CAN1"]


@pytest.mark.parametrize(
    ("written", "source"),
    [
        (json.dumps({"keywords": ["EXO1", "zebrafish"]}), "model"),
        ("EXO1, mismatches", "terms"),
        (json.dumps({"keywords": ["zebrafish"]}), "terms"),
    ],
)
async def test_the_model_chooses_keywords_of_the_question_alone(bench: Any, written: str, source: str) -> None:
    """What it makes up is dropped; where nothing is left, names and counts choose, and the step says why."""
    script = lambda prompt: written if "search keywords" in prompt else " EXO1 does [1]."  # noqa: E731
    async with bench(script) as made:
        events = await made.ask("Does EXO1 act here?")
    assert done(events).details["keywords_from"] == source
    assert done(events).details["keyword_table"]["keywords"][0]["text"] == "EXO1"
    assert ("the model chose none" in steps(events)[0]) == (source == "terms")


async def test_a_written_answer_cites_its_passages(bench: Any) -> None:
    """The context has whole passages by paper, and the record says which were read."""
    async with bench(lambda prompt: " SWR1 deposits H2A.Z [1].") as made:
        events = await made.ask(MARKED, k=1)
        assert "[1] Swr1\n   SWR1 deposits" in made.prompts[-1]
        assert "**" not in made.prompts[-1] and "#" not in made.prompts[-1]
    assert shown(events).startswith("SWR1 deposits H2A.Z [1].\n\nReferences:\n[1] [Swr1")
    assert (done(events).outcome, done(events).details["synthesis"]) == ("answered", "generated")


@pytest.mark.parametrize("words", ["I don't know.", " I don’t know"])
async def test_a_model_that_does_not_know_abstains(bench: Any, words: str) -> None:
    """In the words that the prompt asks for."""
    async with bench(lambda prompt: words) as made:
        events = await made.ask(MARKED)
    assert (done(events).outcome, done(events).details["abstained"]) == ("abstained", True)
    assert references(events) == []


async def test_nothing_found_is_not_found_with_the_words_that_no_passage_has(bench: Any) -> None:
    """No model is called for it."""
    async with bench() as made:
        events = await made.ask("#Where is **zebrafish**?")
        assert made.engine.requests == []
    assert (done(events).outcome, shown(events)) == ("not_found", "Nothing was found in drugs.")
    assert "in no passage: zebrafish" in steps(events)


async def test_retrievers_can_be_chosen(bench: Any) -> None:
    async with bench() as made:
        for retriever in ("pes1", "bm25", "hybrid"):
            events = await made.ask(MARKED, synthesis="extractive", retriever=retriever, k=2)
            assert len(titles(events)) == 2 and done(events).details["retriever"] == retriever


def ids_of(events: Any) -> set[str]:
    return {one["document_id"] for one in done(events).details["passages"]}


def add_papers(made: PassageBench) -> None:
    """An article with its full text, and another one."""
    rows = (
        ("PMID:34000001", "", "SWR1 in yeast", "SWR1 deposits H2A.Z in yeast."),
        ("PMC:7", "PMID:34000001", "SWR1 in yeast", "Deletion of SWR1 raised mutation rates at CAN1 in all strains."),
        ("PMID:12000002", "", "SWR1 in rice", "SWR1 controls internodes of rice."),
    )
    documents = []
    for document_id, record, title, words in rows:
        text = TextBuilder()
        text.add(words, "Results")
        documents.append(text.reading(Document(document_id=document_id, record=record, title=title, date=20200000)))
    add_items(made.retrieval.namespaces, "drugs", documents)


async def test_one_paper_is_its_record_and_its_full_text(bench: Any) -> None:
    """By PMID; several as a list, dates and types as filters."""
    async with bench() as made:
        add_papers(made)
        one = await made.ask("#**SWR1**", synthesis="extractive", articles=["34000001"])
        both = await made.ask("#**SWR1**", synthesis="extractive", articles=[34000001, "PMID:12000002"])
        late = await made.ask("#**SWR1**", synthesis="extractive", date_from="2021")
        within = await made.ask("#**SWR1**", synthesis="extractive", date_from="2020", date_to="2020", retriever="bm25")
    assert ids_of(one) == {"PMID:34000001", "PMC:7"}
    assert ids_of(both) == ids_of(within) == {"PMID:34000001", "PMC:7", "PMID:12000002"}
    assert ids_of(late) == set()


async def test_articles_are_recommended_with_their_own_sentences(bench: Any) -> None:
    """``#34`` restricts to a part of PubMed; each paper is listed once."""
    async with bench() as made:
        add_papers(made)
        every = await made.ask("SWR1 and H2A.Z in yeast", recommend=True)
        part = await made.ask("SWR1 and mutation rates #34")
        none = await made.ask("SWR1 and mutation rates #99")
    assert "1. SWR1 in yeast (2020) [1]" in shown(every) and shown(every).count("SWR1 in yeast (2020)") == 1
    papers = [one["paper"] for one in done(part).details["articles"]]
    assert papers == ["PMID:34000001"] and "“Deletion of SWR1 raised" in shown(part)
    assert [one.number for one in references(part)] == [1]
    assert (done(none).outcome, "PMIDs 99,000,000 to 99,999,999" in shown(none)) == ("not_found", True)


CHOSEN: dict[str, Any] = {"recommend": True, "articles": ["34000001", "12000002"]}


def summaries(prompt: str) -> str:
    return "Rice grows on trees." if "rice" in prompt else "Without SWR1, mutation rates at CAN1 are raised."


async def test_chosen_articles_are_summarized_by_the_model(bench: Any) -> None:
    """What it writes stands whole, behind the number of its article."""
    async with bench(summaries) as made:
        add_papers(made)
        events = await made.ask("SWR1 and mutation rates", **CHOSEN)
        assert len(made.prompts) == 2 and "Text: SWR1 and mutation rates" in made.prompts[0]
    for one in done(events).details["articles"]:
        text = (
            "Without SWR1, mutation rates at CAN1 are raised."
            if one["paper"] == "PMID:34000001"
            else "Rice grows on trees."
        )
        assert (one["sentences"], one["by_model"]) == ([text], True)
        assert f"   {text} [{one['number']}]\n" in shown(events)
    assert (done(events).details["synthesis"], done(events).outcome) == ("generated", "answered")
    assert done(events).usage.sampled_tokens > 0
    injected = [one.text for one in events if isinstance(one, TranscriptDelta) and one.origin == "injected"]
    assert injected and not any("are raised" in text for text in injected)


async def test_a_list_is_not_summarized_before_articles_are_chosen(bench: Any) -> None:
    """Nor is it where the request wants the articles' own sentences."""
    async with bench(summaries) as made:
        add_papers(made)
        await made.ask("SWR1 and mutation rates", recommend=True)
        events = await made.ask("SWR1 and mutation rates", **CHOSEN, synthesis="extractive")
        assert made.engine.requests == []
    assert not any(one["by_model"] for one in done(events).details["articles"])


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"retriever": "dense"}, "retriever"),
        ({"matching": "fuzzy"}, "matching"),
        ({"keywords": []}, "keywords"),
        ({"fixed": ["IL-6"]}, "fixed"),
        ({"articles": ["PMC7"]}, "articles"),
        ({"one_paper": "1"}, "one_paper"),
        ({"date_from": "2021", "date_to": "2020"}, "date_from"),
        ({"date_from": "yesterday"}, "date_from"),
        ({"k": 0}, "k"),
        ({"egress": "off"}, "egress"),
        ({"quotes": True}, "quotes"),
        ({"rerank": 5}, "rerank"),
        ({"magic": 1}, "magic"),
    ],
)
async def test_a_wrong_option_is_named(bench: Any, options: dict[str, Any], param: str) -> None:
    """Before any work."""
    async with bench() as made:
        with pytest.raises(OptionInvalid) as caught:
            await made.ask(MARKED, **options)
    assert caught.value.param == f"arrowhead.{param}"


async def test_a_question_of_marks_alone_is_refused(bench: Any) -> None:
    """There is nothing to ask."""
    async with bench() as made:
        with pytest.raises(OptionInvalid, match="no words"):
            await made.ask("#** **")


READS = {"verdicts": AS_THE_MODEL, "trained_for": ("genegpt", "medrag")}


async def test_such_a_model_writes_no_summary_and_chooses_no_keywords(bench: Any) -> None:
    """What only a model that writes can do is left as without one."""
    async with bench(lambda prompt: " [", facts=READS) as made:
        with pytest.raises(OptionInvalid, match="not trained to write answers of weiseeule"):
            await made.ask(MARKED, synthesis="generated")
        await made.ask("What is the impact of SWR1 on CAN1?", synthesis="extractive")
        assert made.engine.requests == []
