"""The gold passage at each place: the questions, and the tables, with a reader that skips the middle."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scripts.evals.default_model import Item, Reply, Row
from scripts.evals.passage_order import by_place, middle_table, place_table, placed_items, report
from scripts.training.tasks.bioasq import Question, Snippet
from scripts.training.tasks.samples import Writer

PASSAGES = 5


def _question(number: int) -> Question:
    return Question(
        question_id=str(number),
        form="yesno" if number % 2 else "factoid",
        text=f"Which enzyme does drug{number} block in cells?",
        yes_no="yes" if number % 2 else "",
        items=() if number % 2 else ((f"enzyme{number}",),),
        ideal=(f"Yes, drug{number} blocks enzyme{number} in cells.",),
        snippets=(Snippet(f"{number}", f"The drug{number} can block enzyme{number} in cells."),),
        pmids=frozenset((f"{number}",)),
    )


QUESTIONS = [_question(number) for number in range(1, 40)]


@pytest.fixture(scope="module")
def items(writer: Writer) -> list[Item]:
    return placed_items(writer, QUESTIONS, PASSAGES, 4)


def _read_at_the_ends(items: Sequence[Item]) -> list[Row]:
    """Answer with the first and the last passage of a prompt alone."""
    rows = []
    for item in items:
        is_read = item.gold in (1, PASSAGES)
        answer = f"{item.yes_no or item.names[0][0]} [{item.gold}]." if is_read else "The passages do not say."
        rows.append(Row.of(item, Reply("", answer)))
    return rows


def test_a_question_has_its_gold_passage_once_at_each_place(items: list[Item]) -> None:
    """The other passages are the same ones in the same order."""
    assert [item.gold for item in items] == [1, 2, 3, 4, 5] * 4
    for start in range(0, len(items), PASSAGES):
        placed = items[start : start + PASSAGES]
        assert len({item.sample.question for item in placed}) == 1
        others = []
        for item in placed:
            keys = [one.passage.document_id for one in item.context.passages]
            gold = keys.pop(item.gold - 1)
            assert gold == f"PMID:{item.sample.question.split('drug')[1].split()[0]}"
            others.append(keys)
        assert all(keys == others[0] for keys in others)
        assert len(others[0]) == PASSAGES - 1


def test_questions_whose_passages_do_not_fit_are_left_out(writer: Writer) -> None:
    """Of each question all places are asked, or none."""
    long = [
        Question(
            question_id=one.question_id, form=one.form, text=one.text, yes_no=one.yes_no, items=one.items,
            ideal=one.ideal, snippets=(Snippet(one.question_id, f"{one.snippets[0].text} {'acgt0' * 150}"),),
            pmids=one.pmids,
        )
        for one in QUESTIONS[:30]
    ]  # fmt: skip
    assert placed_items(writer, long, PASSAGES, 0) == []


def test_a_reader_of_the_ends_loses_the_middle(items: list[Item]) -> None:
    """Shares by place, and the difference between the middle and the ends by question."""
    rows = _read_at_the_ends(items)
    found = by_place(rows)
    assert {place: set(one["right"].values()) for place, one in found.items()} == {
        1: {1.0}, 2: {0.0}, 3: {0.0}, 4: {0.0}, 5: {1.0}
    }  # fmt: skip
    assert "1.00 (1.00 to 1.00)" in place_table(found).splitlines()[2]
    assert [line.split("|")[2].strip() for line in middle_table(found).splitlines()[2:]] == ["4", "4", "4"]
    assert "-1.00 (-1.00 to -1.00)" in middle_table(found).splitlines()[2]
    assert "+1.00 (+1.00 to +1.00)" in middle_table(found).splitlines()[4]
    assert report(rows).count("| place of the gold passage") == 1


def test_a_run_that_stopped_early_is_compared_by_whole_questions(items: list[Item]) -> None:
    """A question that was not asked at every place counts in the table by place alone."""
    found = by_place(_read_at_the_ends(items)[:-1])
    assert middle_table(found).splitlines()[2].split("|")[2].strip() == "3"
