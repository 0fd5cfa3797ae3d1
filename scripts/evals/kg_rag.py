"""Evaluate KG-RAG's question sets through an OpenAI-compatible endpoint, with baselines beside each score.

    python scripts/evals/kg_rag.py FOLDER --model NAME:kg-rag --options '{"evidence": true}' --out runs/kg_rag.jsonl

FOLDER contains the sets as JSON Lines with the columns of the published tables (mcq_questions, true_false_questions,
rag_comparison_data; also with _dev or _test). Every record is written to --out at once; the same command resumes after
a kill. A baseline reads no graph and uses no model; none sees the answer to the question that it answers.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Final, Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from scripts.evals.harness.choices import folded, read_choice
from scripts.evals.harness.command import Evaluation, add_endpoint_arguments, evaluate
from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.intervals import wilson
from scripts.evals.harness.records import Message, Question, Record, Row, digest_of, rows_of
from scripts.evals.harness.tables import interval_cell, markdown_table, share_cell

# method: form and choices as options of KG-RAG; plain: in the text alone; direct: with an instruction for a bare model.
Form = Literal["method", "plain", "direct"]
FORMS: Final[tuple[Form, ...]] = ("method", "plain", "direct")
# unreadable: neither an answer nor an abstention could be read, which counts as wrong.
Status = Literal["right", "wrong", "abstained", "unreadable"]
_INSTRUCTIONS: Final[Mapping[str, str]] = {
    "mcq_questions": (
        "Answer the biomedical question with exactly one item of the list that it gives, and write nothing else. "
        'If no item is right or you cannot know, write "none of these".'
    ),
    "true_false_questions": (
        'Is the biomedical statement true? Write only True or False, or "unknown" if you cannot know.'
    ),
    "rag_comparison_data": (
        "Answer the biomedical question in one sentence that names the gene and gives the GWAS p-value."
    ),
}
_ABSTAINS: Final = re.compile(
    r"""\bnone\s+of\s+(?:the|these|those|them)\b
      | \b(?:do(?:es)?\s+not|don[’']t|doesn[’']t|cannot|can\s+not|can[’']t|could\s+not)\s+
        (?:know|have|be\s+(?:determined|answered)|determine|answer|say|tell|find|provide)\b
      | \b(?:not\s+enough|insufficient|no)\s+(?:information|context|evidence|entry|entries|statements?|nodes?|data)\b
      | \bunknown\b | \bunable\s+to\b | \bnot\s+(?:mentioned|provided|specified|given|available)\b""",
    re.I | re.X,
)
_VERDICT: Final = re.compile(r"\b(?:is|it[’']s)\s+(not\s+|in|un)?(true|false|correct|accurate)\b", re.I)
_NUMBER: Final = re.compile(
    r"(\d+(?:\.\d+)?)\s*(?:[eE]\s*|(?:[x×·*]|\\times)\s*10\s*(?:\^|\*\*)?\s*[{(]?\s*)([-−–]?\s*\d+)|(0\.0*[1-9]\d*)"
)
_SUPERSCRIPTS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


def load(folder: Path, form: Form) -> dict[str, tuple[list[Row], list[Question]]]:
    """By set: the rows of its file and the questions that they ask.

    Raises:
        DatasetInvalid: no set in the folder, or a row that is not of its set.
    """
    found = {}
    for path in sorted(folder.glob("*.jsonl")):
        name = re.sub(r"_(dev|test)$", "", path.stem)
        if name in _READERS:
            try:
                rows = list(rows_of(path))
                found[name] = rows, [one for at, row in enumerate(rows) for one in _READERS[name](at, row, form)]
            except (KeyError, ValueError, TypeError) as error:
                raise DatasetInvalid(f"{path}: {error!r}") from error
    if not found:
        raise DatasetInvalid(f"{folder}: none of {', '.join(_READERS)}")
    return found


def _multiple_choice(place: int, row: Row, form: Form) -> Iterator[Question]:
    key = str(row["correct_node"]).strip()
    # Published lists repeat a choice now and then.
    choices = list(dict.fromkeys(_choices(row)))
    if key not in choices:
        raise ValueError(f"row {place}: the key {key!r} is none of the choices")
    yield Question(
        id=f"mcq_questions/{place:04d}",
        group="mcq_questions",
        text=row["text"],
        key=key,
        options={choice: choice for choice in choices},
        messages=_messages(row["text"], "mcq_questions", form),
        arrowhead={"choices": choices} if form == "method" else {},
    )


def _choices(row: Row) -> list[str]:
    return [part.strip() for part in row["options_combined"].split(",") if part.strip()]


def _true_false(place: int, row: Row, form: Form) -> Iterator[Question]:
    key = str(row["label"]).strip().capitalize()
    if key not in ("True", "False"):
        raise ValueError(f"row {place}: the label {key!r}")
    text = f"{row['text'].rstrip('.')}. True or false?"
    yield Question(
        id=f"true_false_questions/{place:04d}",
        group="true_false_questions",
        text=row["text"],
        key=key,
        options={"True": "True", "False": "False"},
        messages=_messages(text, "true_false_questions", form),
    )


def _p_value(place: int, row: Row, form: Form) -> Iterator[Question]:
    float(row["gwas_pvalue"])
    for version, column in (("original", "question"), ("perturbed", "question_perturbed")):
        yield Question(
            id=f"rag_comparison_data/{version}/{place:04d}",
            group=f"rag_comparison_data, {version}",
            text=row[column],
            key={"gene": row["gene_name"], "p_value": row["gwas_pvalue"]},
            messages=_messages(row[column], "rag_comparison_data", form),
        )


def _messages(text: str, name: str, form: Form) -> tuple[Message, ...]:
    system = ({"role": "system", "content": _INSTRUCTIONS[name]},) if form == "direct" else ()
    return (*system, {"role": "user", "content": text})


_READERS: Final[dict[str, Callable[[int, Row, Form], Iterator[Question]]]] = {
    "mcq_questions": _multiple_choice,
    "true_false_questions": _true_false,
    "rag_comparison_data": _p_value,
}


def answer_of(record: Record) -> str:
    """The answer that the server marks, else the text."""
    return record.reply.marked_answer or record.reply.text


def status_of(record: Record) -> Status:
    """Of a reply; a failed request has none. A p-value is right where gene and value stand in the answer."""
    question, answer = record.question, answer_of(record)
    abstains = _ABSTAINS.search(answer) is not None or folded(answer) in ("none", "n/a", "not sure")
    if not question.options:
        if names(answer, question.key["gene"]) and gives(answer, question.key["p_value"]):
            return "right"
        return "abstained" if abstains and not gives(answer, question.key["p_value"]) else "wrong"
    letter = read_choice(answer, question.options, lettered=False)
    if letter is None and abstains:
        return "abstained"
    if letter is None:
        letter = _verdict(answer) if question.key in ("True", "False") else _only_named(answer, question.options)
    if letter is None:
        return "unreadable"
    return "right" if letter == question.key else "wrong"


def score(record: Record) -> float:
    return float(status_of(record) == "right")


def _verdict(answer: str) -> str | None:
    """What the only verdict of a sentence says, None for none or for two that differ."""
    said = {("false" in found[2].casefold()) == bool(found[1]) for found in _VERDICT.finditer(answer)}
    return str(said.pop()) if len(said) == 1 else None


def _only_named(answer: str, options: Mapping[str, str]) -> str | None:
    named = [letter for letter, text in options.items() if names(answer, text)]
    return named[0] if len(named) == 1 else None


def names(answer: str, name: str) -> bool:
    """Whether the name stands in the answer as a word of its own, letter case apart: HLA-DQA is not in HLA-DQA1."""
    pattern = rf"(?<![\w-]){re.escape(' '.join(name.split()))}(?![\w-])"
    return bool(name.strip()) and re.search(pattern, " ".join(answer.split()), re.I) is not None


def gives(answer: str, value: str) -> bool:
    """Whether the number stands in the answer: 2e-37, 2 x 10^-37, 2×10⁻³⁷."""
    text = re.sub(r"10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda found: "10^" + found[1].translate(_SUPERSCRIPTS), answer)
    numbers = map(_number, _NUMBER.finditer(text))
    return any(math.isclose(number, float(value), rel_tol=1e-3, abs_tol=0.0) for number in numbers)


def _number(found: re.Match[str]) -> float:
    if found[3]:
        return float(found[3])
    exponent = re.sub(r"\s", "", found[2]).replace("−", "-").replace("–", "-")
    return float(f"{found[1]}e{exponent[:6]}")


def baselines(name: str, rows: Sequence[Row]) -> dict[str, list[bool]]:
    """By rule, for each row whether it is right."""
    if name == "true_false_questions":
        says_not = ["not" in row["text"].casefold().split() for row in rows]
        is_true = [str(row["label"]).strip().casefold() == "true" for row in rows]
        contrary = [said != true for said, true in zip(says_not, is_true, strict=True)]
        return {"always True": is_true, '"not" in the sentence: False': contrary}
    if name == "mcq_questions":
        keys = Counter(str(row["correct_node"]).strip() for row in rows)
        return {"most frequent answer of the other questions": [_popular(row, keys) for row in rows]}
    return {'always "Yes", where that is a possible answer': [_asks_whether(row["question"]) for row in rows]}


def _popular(row: Row, keys: Counter[str]) -> bool:
    key = str(row["correct_node"]).strip()
    others = keys - Counter({key: 1})
    return max(_choices(row), key=others.__getitem__) == key


def _asks_whether(question: str) -> bool:
    return question.lstrip().casefold().startswith("is ")


def table(records: Iterable[Record]) -> str:
    """By set. Failed requests are in no share; an abstention is an answer that scores nothing."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.question.group, []).append(record)
    columns = ("set", "replies", "failed", "right", "95 %", "answered", "right of these", "unreadable", "median s")
    rows = []
    for name, found in sorted(groups.items()):
        replies = [record for record in found if not record.failed]
        counts, total = Counter(map(status_of, replies)), len(replies)
        answered, interval = total - counts["abstained"], wilson(counts["right"], total)
        rows.append(
            (
                name,
                str(total),
                str(len(found) - total),
                share_cell(counts["right"] / max(1, total), total),
                interval_cell((interval.low, interval.high), total),
                share_cell(answered / max(1, total), total),
                share_cell(counts["right"] / max(1, answered), answered),
                str(counts["unreadable"]),
                f"{median(record.reply.seconds for record in replies):.2f}" if replies else "-",
            )
        )
    return markdown_table(columns, rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", type=lambda text: text.split(","), default=[], help="by default all")
    parser.add_argument("--limit", type=int, help="the first questions of each set")
    parser.add_argument("--ask", choices=FORMS, help="method: options of KG-RAG; plain: text alone; direct: bare model")
    add_endpoint_arguments(parser, model="arrowhead-small:kg-rag", out=Path("runs/kg_rag.jsonl"))
    args = parser.parse_args(argv)
    method = args.model.rpartition(":")[2] if ":" in args.model else ""
    form: Form = args.ask or ("method" if method.startswith("kg-rag") else "plain" if method else "direct")
    rows: dict[str, list[Row]] = {}

    def evaluation() -> Evaluation:
        found = load(args.folder, form)
        if missing := [name for name in args.sets if name not in found]:
            raise DatasetInvalid(f"no such set: {', '.join(missing)}; there are {', '.join(found)}")
        rows.update({name: found[name][0] for name in args.sets or found})
        everything = [question for _, questions in found.values() for question in questions]
        asked = [question for name in rows for question in found[name][1][: args.limit]]
        return Evaluation(name="kg-rag", dataset=digest_of(everything), questions=asked, score=score, form=form)

    return evaluate(args, evaluation, lambda records: f"{table(records)}\n\n{floor_table(rows)}")


def floor_table(rows: Mapping[str, Sequence[Row]]) -> str:
    """What rules without model and graph have right, over all rows of the files."""
    rules = [
        (f"{name}: {rule}", right) for name, found in rows.items() for rule, right in baselines(name, found).items()
    ]
    cells = [(rule, f"{sum(right)}/{len(right)}", f"{fmean(right):.3f}") for rule, right in rules]
    return markdown_table(("without model and graph", "right", "share"), cells)


if __name__ == "__main__":
    sys.exit(main())
