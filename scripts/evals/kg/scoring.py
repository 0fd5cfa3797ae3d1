"""Score replies to KG-RAG's questions. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from scripts.evals.choice_reading import folded, read_choice
from scripts.evals.harness.records import Record

# unreadable: neither an answer nor an abstention could be read, which counts as wrong.
Status = Literal["right", "wrong", "abstained", "unreadable"]
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
_BULLET: Final = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_EXPLAINED: Final = re.compile(r"^[\w\s]{1,40}:\s+")


@dataclass(frozen=True, slots=True)
class Outcome:
    """``score``: 0 to 1. ``parts``: further measures by name, 0 to 1; ``counts``: items found and asked, by kind."""

    status: Status
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def outcome(record: Record) -> Outcome:
    """Of a reply; a failed request has none."""
    match record.question.meta["kind"]:
        case "multiple_choice" | "true_false":
            status = _closed(record)
            return Outcome(status, float(status == "right"))
        case "p_value":
            return _p_value(record)
    return _nodes(record)


def score(record: Record) -> float:
    """1 for a right choice, or for gene and p-value in the answer; for lists of nodes the share that was found."""
    return outcome(record).score


def answer_of(record: Record) -> str:
    """The answer that the server marks, else the text."""
    return record.reply.marked_answer or record.reply.text


def abstains(answer: str) -> bool:
    return _ABSTAINS.search(answer) is not None or folded(answer) in ("none", "n/a", "not sure")


def _closed(record: Record) -> Status:
    question, answer = record.question, answer_of(record)
    letter = read_choice(answer, question.options, lettered=False).letter
    if letter is None and abstains(answer):
        return "abstained"
    if letter is None:
        is_statement = question.meta["kind"] == "true_false"
        letter = _verdict(answer) if is_statement else _only_named(answer, question.options)
    if letter is None:
        return "unreadable"
    return "right" if letter == question.key else "wrong"


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


def _p_value(record: Record) -> Outcome:
    """The sources that the reply lists below its answer hold p-values, too: counted beside, not as the answer."""
    answer, key = answer_of(record), record.question.key
    gene, value = names(answer, key["gene"]), gives(answer, key["p_value"])
    says_yes = re.match(r"\W*yes\b", answer, re.I) is not None
    parts = {
        "gene": float(gene),
        "p-value": float(value),
        "p-value in answer or sources": float(value or gives(record.reply.text, key["p_value"])),
        "yes or p-value": float(says_yes or value),
    }
    right = gene and value
    status: Status = "right" if right else ("abstained" if not value and abstains(answer) else "wrong")
    return Outcome(status, float(right), parts)


def gives(answer: str, value: str) -> bool:
    """Whether the number stands in the answer: 2e-37, 2 x 10^-37, 2×10⁻³⁷."""
    text = re.sub(r"10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda found: "10^" + found[1].translate(_SUPERSCRIPTS), answer)
    return any(
        math.isclose(number, float(value), rel_tol=1e-3, abs_tol=0.0) for number in map(_number, _NUMBER.finditer(text))
    )


def _number(found: re.Match[str]) -> float:
    if found[3]:
        return float(found[3])
    exponent = re.sub(r"\s", "", found[2]).replace("−", "-").replace("–", "-")
    return float(f"{found[1]}e{exponent[:6]}")


def _nodes(record: Record) -> Outcome:
    answer, key = answer_of(record), record.question.key
    counts = {kind: (sum(names(answer, name) for name in wanted), len(wanted)) for kind, wanted in key.items()}
    found, asked = sum(f for f, _ in counts.values()), sum(n for _, n in counts.values())
    gold = {folded(name) for wanted in key.values() for name in wanted}
    listed = {folded(item) for item in listed_names(answer)} - {""}
    union = gold | listed
    recall = found / asked if asked else 0.0
    jaccard = len(gold & listed) / len(union) if union else 0.0
    status: Status = "abstained" if not found and abstains(answer) else ("right" if found == asked else "wrong")
    return Outcome(status, recall, {"Jaccard": jaccard}, counts)


def listed_names(answer: str) -> list[str]:
    """The items of a list: of JSON, of lines, or separated by commas. Prose becomes items that match nothing."""
    inside = re.search(r"[\[{].*[\]}]", answer, re.S)
    if inside:
        try:
            return _strings(json.loads(inside[0]))
        except ValueError:
            pass
    items = []
    for line in answer.splitlines():
        bare = _EXPLAINED.sub("", _BULLET.sub("", line).replace("**", ""))
        items += re.split(r"[,;]\s+(?:and\s+)?|\s+and\s+", bare)
    return [item.strip() for item in items if item.strip()]


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for item in value for text in _strings(item)] if isinstance(value, list) else []
