"""Measure the yes, no or unclear that the default model reads in a few sentences, apart from all that surrounds it.

    python scripts/evals/verdicts.py BASE [--adapter FOLDER] --bioasq FOLDER [--limit N]

Each yes-or-no question of BioASQ that training holds out is asked with up to eight of its gold passages, each alone:
with the sentences of it that the server would choose, or none. Questions have equal weight, however many passages they
have. The second set are questions written for passages of the corpus that training has not seen. The prompts, the
engine and the probabilities are those of the server; ``yes_bar`` and ``unclear_bar`` are the card's.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from models.catalog import ModelCard, context_length, with_adapter
from models.engines.base import EngineOptions
from models.engines.registry import create_engine
from scripts.evals.harness.tables import markdown_table
from scripts.evals.served_reading import BuiltInEncoder
from scripts.training.tasks.bioasq import CORPUS, FILE, Question, read_questions, read_written
from scripts.training.tasks.reading import ReadingTasks, Source
from scripts.training.tasks.samples import Writer
from server.methods.medrag.evidence_reasoning import best_sentences
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.sentences import split_sentences
from server.methods.shared.verdicts import MOST_READ, EvidenceSentence, VerdictPrompt, VerdictReader

_PASSAGES: Final = 8
_SETS: Final = ("bioasq", "written")


@dataclass(frozen=True, slots=True)
class Item:
    """Hold a question with sentences; ``label`` is "yes", "no" or "unclear"."""

    kind: str
    question: str
    label: str
    sentences: tuple[EvidenceSentence, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """Hold the label of an item, its weight, and the probabilities of yes, no and unclear."""

    label: str
    weight: float
    shares: tuple[float, ...]


async def bioasq_items(writer: Writer, questions: Sequence[Question]) -> list[Item]:
    """Return the questions with each gold passage that has a sentence for them and lacks none of their names."""
    tasks, encoder, items = ReadingTasks(writer), BuiltInEncoder(), list[Item]()
    for question in (one for one in questions if one.yes_no):
        passages = list({one.text: one for one in question.support()}.values())
        random.Random(question.question_id).shuffle(passages)
        for one in passages[:_PASSAGES]:
            context = tasks.context([Source(f"PMID:{one.pmid}", one.text)])
            best = await best_sentences(question.text, context, encoder.compare, MOST_READ)
            if best is not None and best.quoted and not best.missing:
                items.append(Item("bioasq", question.text, question.yes_no, best.of_passage))
    return items


def written_items(folder: Path) -> list[Item]:
    """Return the questions that were written for passages which training has not."""
    items: list[Item] = []
    for one in read_written(folder, held_out=True):
        lines = [each.line for each in split_sentences(one.text)][:MOST_READ] or [one.text]
        sentences = tuple(EvidenceSentence(number, line) for number, line in enumerate(lines, 1))
        items.append(Item("written", one.question, one.answer, sentences))
    return items


def area(found: Sequence[Found]) -> float:
    """Return the weighted area under the curve of yes against no, of the items that are one of them."""
    yes, no = ([one for one in found if one.label == label] for label in ("yes", "no"))
    score = [np.array([each.shares[0] / max(sum(each.shares[:2]), 1e-9) for each in side]) for side in (yes, no)]
    weight = np.outer([one.weight for one in yes], [one.weight for one in no])
    above = (score[0][:, None] > score[1][None, :]) + 0.5 * (score[0][:, None] == score[1][None, :])
    return float((above * weight).sum() / weight.sum())


def share(found: Iterable[tuple[Found, bool]]) -> float:
    """Return the weighted share of what is true, NaN of nothing."""
    pairs = [(one.weight, is_true) for one, is_true in found]
    whole = sum(weight for weight, _ in pairs)
    return sum(weight for weight, is_true in pairs if is_true) / whole if whole else float("nan")


def row(kind: str, found: Sequence[Found], verdicts: Sequence[str]) -> list[str]:
    """Return a line of the table; ``verdicts`` are the words given to the items."""
    given = [(one, word.casefold()) for one, word in zip(found, verdicts, strict=True)]
    right = [share((one, word == label) for one, word in given if one.label == label) for label in ("yes", "no")]
    decided = [(one, word == one.label) for one, word in given if word != "unclear" and one.label != "unclear"]
    both = share((one, word == one.label) for one, word in given if one.label != "unclear")
    left = share((one, word == "unclear") for one, word in given if one.label == "unclear")
    figures = (area(found), both, *right, share(decided), left)
    return [kind, str(len(found)), *(f"{figure:.3f}" for figure in figures)]


async def measured(items: Sequence[Item], base: Path, adapter: Path | None) -> list[tuple[Found, str]]:
    """Ask the model about each item with the engine that serves it."""
    card = ModelCard(name="small", source=str(base), prompt_form="chat", context_length=context_length(base))
    card = card if adapter is None else with_adapter(card, adapter)
    engine = create_engine("transformers", card, EngineOptions(max_model_len=1024, max_num_seqs=1))
    await engine.start()
    counts = Counter((one.kind, one.question) for one in items)
    try:
        layout, prompt, found = PromptFormatter(engine, card), VerdictPrompt.load(), list[tuple[Found, str]]()
        for number, item in enumerate(track(items)):
            reader = VerdictReader(Generations(engine, f"verdict-{number}"), layout, prompt, card, None)
            shares = await reader.shares(item.question, item.sentences)
            weight = 1 / counts[item.kind, item.question]
            found.append((Found(item.label, weight, shares or (0.0, 0.0, 1.0)), reader.word(shares) if shares else ""))
        return found
    finally:
        await engine.close()


def main() -> None:
    args = _arguments()
    if lacking := [name for name in (FILE, CORPUS) if not (args.bioasq / name).is_file()]:
        print(f"skipped: {args.bioasq} has no {' and no '.join(lacking)}")
        return
    questions = read_questions(args.bioasq, held_out=True)
    items = asyncio.run(bioasq_items(Writer.load(args.base), questions)) + written_items(args.bioasq)
    if args.limit:
        items = [one for kind in _SETS for one in [each for each in items if each.kind == kind][: args.limit]]
    found = asyncio.run(measured(items, args.base, args.adapter))
    head = ["set", "n", "area", "right", "right, yes", "right, no", "right of those decided", "unclear left open"]
    lines = []
    for kind in _SETS:
        own = [pair for item, pair in zip(items, found, strict=True) if item.kind == kind]
        lines.append(row(kind, [one for one, _ in own], [word for _, word in own]))
    print(markdown_table(head, lines))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path, help="model folder")
    parser.add_argument("--adapter", type=Path)
    parser.add_argument("--bioasq", type=Path, required=True, help="folder with questions_dev.jsonl.gz and corpus")
    parser.add_argument("--limit", type=int, default=0, help="items of each set; 0 for all")
    return parser.parse_args()


if __name__ == "__main__":
    main()
