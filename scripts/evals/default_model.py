"""Measure what a small model reads: BioASQ questions over numbered passages, and KG-RAG's closed forms.

    python scripts/evals/default_model.py BASE [--adapter FOLDER] [--bioasq FOLDER] [--limit N] [--out FILE]
    python scripts/evals/default_model.py --score FILE …

``BASE`` is a model folder, ``--adapter`` one in PEFT's format. Prompts are those of the methods, decoding is greedy. A
question of BioASQ has one gold passage among three of other questions (half of them about similar things), then none.
Only questions that training holds out are asked; graphs are generated from a seed that training does not use. Without
BioASQ's files that part is left out and said so.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from scripts.evals.harness.intervals import bootstrap_mean
from scripts.training.tasks.bioasq import FILE, Question, has_phrase, read_questions
from scripts.training.tasks.bioasq_tasks import asked_of, nearest
from scripts.training.tasks.graph_tasks import GraphTasks
from scripts.training.tasks.reading import Asked, ReadingTasks, Source, numbers_of
from scripts.training.tasks.samples import Sample, Writer
from server.methods.kg_rag.prompts import NONE_OF_THESE, UNKNOWN
from server.methods.medrag.context import Context
from server.methods.medrag.request import MARK
from server.methods.shared.sentences import numbers_in

SEED: Final = "held out"
CLOSED: Final = ("true_false", "multiple_choice")
# Said by the answer, not by what precedes it.
SAYS_NOTHING: Final = re.compile(
    r"\b(?:passages?|they|texts?)\b[^.]*\b(?:do(?:es)?|did) ?n[o']t\b|^No passage that was found\b", re.IGNORECASE
)
_REASONING: Final = 112
_CLOSED: Final = 16
_ANSWER: Final = 60
_NUM_OTHERS: Final = 3
_FORMS: Final = ("yesno", "factoid", "list", "summary")


@dataclass(frozen=True, slots=True)
class Item:
    """Hold one question: ``gold`` is the number of its gold passage, 0 where there is none."""

    group: str
    sample: Sample
    names: tuple[tuple[str, ...], ...] = ()
    yes_no: str = ""
    gold: int = 0
    context: Context = field(default_factory=Context)


@dataclass(frozen=True, slots=True)
class Reply:
    reasoning: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Hold what is needed to score one answer, JSON-able: the item without its prompt, and the reply."""

    group: str
    answer: str
    question: str = ""
    right: str = ""
    names: Sequence[Sequence[str]] = ()
    yes_no: str = ""
    gold: int = 0
    reasoning: str = ""

    @classmethod
    def of(cls, item: Item, reply: Reply) -> Row:
        sample = item.sample
        return cls(
            group=item.group,
            answer=reply.answer,
            question=sample.question,
            right=sample.answer,
            names=item.names,
            yes_no=item.yes_no,
            gold=item.gold,
            reasoning=reply.reasoning,
        )


def bioasq_items(writer: Writer, questions: Sequence[Question]) -> list[Item]:
    """Return each question with its gold passage among three others, and without it among four."""
    tasks, items = ReadingTasks(writer), []
    for place, question in enumerate(questions):
        draw = random.Random(f"{SEED}:{question.question_id}")
        gold_snippet = draw.choice(question.support())
        gold = Source(f"PMID:{gold_snippet.pmid}", gold_snippet.text)
        asked = asked_of(question, [gold])
        if asked is None:
            continue
        others = others_of(questions, place, draw)
        names = question.items
        for group, sources, right in ((question.form, [gold, *others[:_NUM_OTHERS]], asked),
                                      ("none", others[: _NUM_OTHERS + 1], Asked("none", question.text))):  # fmt: skip
            context = tasks.context(sources)
            numbers = numbers_of(context, [gold.key])
            sample = tasks.sample(context, right, "reasoned")
            items.append(Item(group, sample, names, question.yes_no, numbers[0] if numbers else 0, context))
    return items


def graph_items(writer: Writer, number: int) -> list[Item]:
    """Return true-or-false and multiple-choice questions over generated graphs."""
    tasks, items = GraphTasks(writer), []
    for form in CLOSED:
        found: list[Item] = []
        while len(found) < number:
            group = tasks.group(f"{SEED}:{form}:{len(found)}", form)
            found += [Item(form, sample) for sample in group]
        items += found[:number]
    return items


def scores(rows: Iterable[Row]) -> dict[str, list[float]]:
    """Return the scores of single questions, 0 or 1, by measure."""
    found: dict[str, list[float]] = {}
    for row in rows:
        for name, value in _scored(row):
            found.setdefault(name, []).append(float(value))
    return found


def _scored(item: Row) -> list[tuple[str, bool]]:
    answer = item.answer
    if item.group in CLOSED:
        right = answer.strip().rstrip(".") == item.right
        is_abstention = item.right in (UNKNOWN, NONE_OF_THESE)
        return [
            (f"{item.group}", right),
            (f"{item.group}, {'nothing there' if is_abstention else 'edges there'}", right),
        ]
    says_nothing = SAYS_NOTHING.search(answer) is not None
    if item.group == "none":
        return [("says so where nothing is there", says_nothing)]
    found = [("says so wrongly", says_nothing), ("gold passage cited", item.gold in numbers_in(answer))]
    if item.yes_no:
        # "No passage that was found answers this question." is no "no".
        right = re.match(rf"\W*{item.yes_no}\b(?! passage)", answer, re.IGNORECASE) is not None
        return [*found, ("yes/no", right), (f"yes/no, {item.yes_no}", right)]
    if item.group == "factoid":
        names = [name for names in item.names for name in names]
        bare = re.sub(r"\[[\d, ]+\]|\W+$", "", answer).strip().casefold()
        return [
            *found,
            ("factoid, lenient", any(has_phrase(answer, name) for name in names)),
            ("factoid, in the sentence quoted", any(has_phrase(item.reasoning, name) for name in names)),
            ("factoid, strict", any(bare == name.casefold().rstrip(".") for name in names)),
        ]
    if item.group == "list":
        return [*found, ("list, an item named", any(has_phrase(answer, n) for names in item.names for n in names))]
    return found


def others_of(
    questions: Sequence[Question], place: int, draw: random.Random, number: int = _NUM_OTHERS + 1
) -> list[Source]:
    """Return passages of other questions that do not answer this one, the first two from similar questions."""
    question = questions[place]
    near = nearest(place, questions)
    pool = [questions[at] for at in (*draw.sample(near[:8], 4), *draw.sample(range(len(questions)), 24))]
    draw_from = [
        one for one in (*pool[:2], *pool[4:], *pool[2:4]) if one is not question and not one.pmids & question.pmids
    ]
    sources: list[Source] = []
    for one in draw_from:
        snippet = draw.choice(one.support())
        is_new = all(snippet.pmid not in source.key for source in sources)
        if is_new and not question.items_in([snippet.text]):
            sources.append(Source(f"PMID:{snippet.pmid}", snippet.text))
    return sources[:number]


class Served:
    """Answer with the product's engine and methods, as a server with this adapter does."""

    def __init__(self, base: Path, adapter: Path | None, batch: int) -> None:
        from scripts.evals.served_reading import ServedReader

        self.writer = Writer.load(base)
        self._reader, self._batch = ServedReader(base, adapter, batch), batch

    def rows(self, items: Sequence[Item]) -> Iterator[list[Row]]:
        """Yield the answers batch by batch, in the order of the items."""
        batches = self._reader.answers([(item.sample, item.context) for item in items])
        for number, batch in enumerate(batches):
            some = items[number * self._batch : (number + 1) * self._batch]
            yield [Row.of(item, Reply(*reply)) for item, reply in zip(some, batch, strict=True)]


class Greedy:
    """Decode greedily in batches, with the mark put in where a model does not write it, as MedRAG does."""

    def __init__(self, base: Path, adapter: Path | None, batch: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        from models.torch_runtime.devices import cpu_has_bfloat16
        from scripts.training.lora import add_adapter, load_adapter, merge_adapter, shape_of

        self.writer = Writer.load(base)
        dtype = torch.bfloat16 if cpu_has_bfloat16() else torch.float32
        self.model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
        if adapter is not None:
            add_adapter(self.model, shape_of(adapter), 0)
            load_adapter(self.model, adapter)
            merge_adapter(self.model)
        self._batch = batch

    def rows(self, items: Sequence[Item]) -> Iterator[list[Row]]:
        """Yield the answers batch by batch: prompts of about one length together, in any order of lengths."""
        order = sorted(items, key=lambda item: (item.group in CLOSED, len(item.sample.prompt)))
        batches = [order[start : start + self._batch] for start in range(0, len(order), self._batch)]
        random.Random(SEED).shuffle(batches)
        for batch in batches:
            yield [Row.of(item, reply) for item, reply in zip(batch, self._some(batch), strict=True)]

    def _some(self, items: Sequence[Item]) -> list[Reply]:
        is_closed = all(item.group in CLOSED for item in items)
        texts = self._written([list(item.sample.prompt) for item in items], _CLOSED if is_closed else _REASONING)
        # A closed answer ends at its line's end, as in KG-RAG.
        replies = [Reply("", text.split("\n", 1)[0]) for text in texts]
        reasoned = [at for at, item in enumerate(items) if item.sample.kind.startswith("medrag")]
        unmarked = [at for at in reasoned if MARK not in texts[at]]
        for at in set(reasoned) - set(unmarked):
            before, _, after = texts[at].partition(MARK)
            replies[at] = Reply(before.strip(), after.strip())
        if unmarked:
            encode = self.writer.tokenizer.encode
            prompts = [[*items[at].sample.prompt, *encode(f"{texts[at].strip()}\n{MARK}")] for at in unmarked]
            for at, answer in zip(unmarked, self._written(prompts, _ANSWER), strict=True):
                replies[at] = Reply(texts[at].strip(), answer.strip())
        return replies

    def _written(self, prompts: Sequence[Sequence[int]], limit: int) -> list[str]:
        import torch

        end = self.writer.end
        length = max(map(len, prompts))
        ids = torch.tensor([[end] * (length - len(one)) + list(one) for one in prompts])
        mask = torch.tensor([[0] * (length - len(one)) + [1] * len(one) for one in prompts])
        with torch.no_grad():
            out = self.model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=limit,
                do_sample=False,
                eos_token_id=end,
                pad_token_id=end,
            )
        return [self.writer.tokenizer.decode([i for i in row[length:].tolist() if i != end]).strip() for row in out]


def table(found: dict[str, list[float]]) -> str:
    """Return a Markdown table with 95 % bootstrap intervals."""
    lines = ["| measure | n | share | 95 % |", "| --- | --- | --- | --- |"]
    for name, values in found.items():
        interval = bootstrap_mean(values)
        lines.append(
            f"| {name} | {len(values)} | {sum(values) / len(values):.2f} | {interval.low:.2f} to {interval.high:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    args = _arguments()
    if args.score:
        lines = [line for file in args.score for line in file.read_text(encoding="utf-8").splitlines()]
        print(table(scores(Row(**json.loads(line)) for line in lines)))
        return
    decoder = (Served if args.served else Greedy)(args.base, args.adapter, args.batch)
    items = _items(decoder.writer, args)
    rows: list[Row] = []
    with args.out.open("a", encoding="utf-8") if args.out else nullcontext() as out:
        for batch in decoder.rows(items):
            rows += batch
            if out is not None:
                out.write("".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in batch))
                out.flush()
            print(f"{len(rows)}/{len(items)}", file=sys.stderr, flush=True)
    print(table(scores(rows)))


def _items(writer: Writer, args: argparse.Namespace) -> list[Item]:
    """Return the questions of this part."""
    items = graph_items(writer, args.graphs) if args.graphs else []
    if (args.bioasq / FILE).is_file():
        questions = read_questions(args.bioasq, held_out=True)
        random.Random(SEED).shuffle(questions)
        # Each question is there with its gold passage, and then without.
        every = bioasq_items(writer, questions)
        pairs = zip(every[::2], every[1::2], strict=True)
        every = [item for pair in pairs if pair[0].group in args.forms for item in pair]
        items += every[: 2 * args.limit] if args.limit else every
    else:
        print(f"{args.bioasq / FILE} is not there; its questions are left out", file=sys.stderr)
    part, number = (int(one) for one in args.part.split("/"))
    return items[part - 1 :: number]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path, nargs="?")
    parser.add_argument("--adapter", type=Path)
    parser.add_argument("--bioasq", type=Path, default=Path("../shared/data/qa/bioasq"))
    parser.add_argument("--limit", type=int, default=0, help="so many questions of BioASQ, 0 for all")
    parser.add_argument("--forms", nargs="+", choices=_FORMS, default=_FORMS, help="of BioASQ's questions")
    parser.add_argument("--graphs", type=int, default=60, help="so many questions of each closed form of KG-RAG")
    parser.add_argument("--served", action="store_true", help="with the product's engine and its choice of sentences")
    parser.add_argument("--batch", type=int, help="questions at once; 12, and 4 with --served, where each has grammars")
    parser.add_argument("--part", default="1/1", help="2/3: the second of three parts, for several processes")
    parser.add_argument("--out", type=Path, help="append every question and answer, one JSON line each")
    parser.add_argument("--score", type=Path, nargs="+", help="print the table of such files, and ask nothing")
    args = parser.parse_args()
    args.batch = args.batch or (4 if args.served else 12)
    if args.base is None and not args.score:
        parser.error("give the folder of a model, or --score FILE")
    if not re.fullmatch(r"[1-9]\d*/[1-9]\d*", args.part):
        parser.error("--part: as in 2/3")
    return args


if __name__ == "__main__":
    main()
