"""MedRAG end to end over a corpus: what of an answer becomes a row."""

from __future__ import annotations

from pathlib import Path

from passage_bench import PassageBench
from server.methods.medrag.evidence_reasoning import SILENT

from scripts.evals.corpus_reading import ask
from scripts.evals.default_model import scores
from scripts.training.tasks.bioasq import Question, Snippet
from server.methods.medrag.method import MedRag

DOCUMENTS = (("1", "Protamine reverses heparin.", ""), ("2", "Warfarin inhibits VKORC1.", ""))


def question(form: str, text: str, yes_no: str = "") -> Question:
    gold = ("1",)
    return Question(
        question_id="q",
        form=form,
        text=text,
        yes_no=yes_no,
        items=(("protamine",),) if form == "factoid" else (),
        ideal=(),
        snippets=(Snippet("doc:1", "Protamine reverses heparin."),),
        pmids=frozenset(f"doc:{one}" for one in gold),
    )


async def test_an_answer_is_scored_by_its_own_text_and_the_article_it_cites(tmp_path: Path) -> None:
    bench = PassageBench(
        lambda s, p: MedRag(s, p, 400),
        tmp_path,
        lambda prompt: " Yes" if prompt.endswith("Answer:") else " [1] says:",
        documents=DOCUMENTS,
        facts={"evidence_reasoning": True},
    )
    async with bench as made:
        factoid, _ = await ask(made.method, question("factoid", "What reverses heparin?"), 1)
        closed, seconds = await ask(made.method, question("yesno", "Does protamine reverse heparin?", "yes"), 2)
    assert scores([factoid])["factoid, lenient"] == [1.0]
    assert scores([factoid])["gold passage cited"] == [1.0]
    assert scores([closed])["yes/no, yes"] == [1.0]
    assert seconds > 0


async def test_silence_counts_as_such(tmp_path: Path) -> None:
    bench = PassageBench(
        lambda s, p: MedRag(s, p, 400),
        tmp_path,
        lambda prompt: f" {SILENT}",
        documents=DOCUMENTS,
        facts={"evidence_reasoning": True},
    )
    async with bench as made:
        row, _ = await ask(made.method, question("factoid", "What reverses heparin?"), 1)
    assert scores([row])["says so wrongly"] == [1.0]
