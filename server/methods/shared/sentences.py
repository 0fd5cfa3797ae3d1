"""Split texts into sentences, each an exact slice, and read and write the marks ``[n]`` by which they cite. Pure.

The rules for sentences are for abstracts, text books and PDF text: full stops of abbreviations, initials, species names
and decimals end no sentence, a line break within a sentence is a blank, and an empty line or a list item begins a new
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# A longer sentence is a table or a list without full stops; it is cut at its semicolons.
MAX_SENTENCE: Final = 600
_MIN_WORDS: Final = 3
_ITEM: Final = r"(?:[•▪●◦*–-]|\d{1,2}[.)]|\(?[a-z]\))[ \t]+(?=\S)"
_BLOCK: Final = re.compile(rf"\n[ \t]*\n\s*(?:{_ITEM})?|\n[ \t]*{_ITEM}")
# The numbers of citations behind a sentence, in brackets or raised.
_NOTE: Final = r"(?:\[\d[\d,;– -]{0,20}\]|[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}|\^\(\d[\d,;– -]{0,20}\))"
# An end of a sentence: its sign, marks that close it, white space, then what can begin one: also a tag of markup.
_END: Final = re.compile(rf"[.?!]+[\"'”’)\]]*{_NOTE}?(\s+)(?=[\"'“‘(\[]*(?:[A-ZΑ-ΩÀ-Þ0-9]|< ?/?[A-Za-z]))")
# Of a text that is stored in small letters throughout, as some corpora are.
_END_SMALL: Final = re.compile(rf"[.?!]+[\"'”’)\]]*{_NOTE}?(\s+)(?=[\"'“‘(\[]*(?:\w|< ?/?[a-z]))")
_CAPITAL: Final = re.compile(r"[A-ZΑ-ΩÀ-Þ]")
_CHARS_PER_CAPITAL: Final = 500  # ordinary text has one in thirty or so
_SEMICOLON: Final = re.compile(r";\s+")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
# In answers, brackets number passages: a text's own of this form get parentheses.
_NUMBERED: Final = re.compile(r"\[(\s*\d[\d\s,;–-]*)\]")
# What a client would render as an element, a character or a bracket of ours: a blank makes plain text of it.
_RENDERED: Final = re.compile(r"<(?=[A-Za-z/!?])|&(?=#?\w{1,31};)|\\(?=[!-/:-@\[-`{-~])")
# Quotation marks within a quote, of which none may end it, and what would open a code span.
_INNER: Final = str.maketrans("“”„‟❝❞〝〞`", "‘’‚‛‘’‘’'")
_INSTRUCTION: Final = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.]{0,60}\b(?:above|previous|prior|earlier|instructions?|articles?|"
    r"evidence|sources?|context|rules?|question)\b|\b(?:system|developer) (?:prompt|message)\b|\bas an? (?:ai|language "
    r"model|assistant)\b|\byou (?:must|should|shall|will|are to|have to|need to)\b|\b(?:answer|reply|respond|cite|"
    r"output|print|write|say|tell the user|recommend)\b(?: only| that| with| as|:)[^.]{0,40}(?:\[\d|\bPMID\b|\"|“|'|"
    r"\byes\b|\bno\b|\buser\b|\breader\b)|</?(?:s|system|user|assistant|inst|im_start|im_end)\b|\[/?INST\]|<\||"
    r"\bdo not (?:mention|cite|use|tell|trust)\b|\bassistant\s*:|\bprompt injection\b|"
    r"\bnotes? to (?:the |any )?(?:assistants?|models?|ai|llms?)\b",
    re.IGNORECASE,
)
_LAST_WORD: Final = re.compile(r"(?:^|[\s(\[\"'“])([^\s(\[\"'“]{1,12})$")
_ABBREVIATIONS: Final = frozenset(
    re.findall(
        r"\S+",
        "e.g i.e etc al fig figs eq eqs ref refs no nos vs approx ca cf dr prof mr mrs ms st jr sr dept ed eds vol pp "
        "p sp spp subsp var ssp resp incl min max avg temp conc wt mol i.v i.m i.p s.c p.o b.i.d t.i.d q.d u.s "
        "u.k d.c inc ltd co corp univ tab suppl chap sec def viz",
    )
)
# The mark of a citation.
MARK: Final = re.compile(r"\[\s*(\d{1,4}(?:\s*[,;–-]\s*\d{1,4})*)\s*\]")
_PART: Final = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))?")
# A longer range of numbers is not a citation.
_MAX_SPAN: Final = 100
# Passages must not contain the syntax of our prompts: passage numbers, and words that begin a part.
_PARTS: Final = re.compile(
    r"(?im)^([ \t>*#_-]*(?:final answer|answer|question|query|choices|options|passages|reasoning|"
    r"instructions?|system|user|assistant)[ \t*_]*):"
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """Hold one sentence: ``text`` is the passage's ``[start:end]``."""

    text: str
    start: int
    end: int

    @property
    def line(self) -> str:
        """Return the sentence with each run of white space as one blank."""
        return " ".join(self.text.split())


def split_sentences(text: str, *, least_words: int = _MIN_WORDS, longest: int | None = MAX_SENTENCE) -> list[Sentence]:
    """Return the sentences in their order, without fragments of fewer than ``least_words``; never raises.

    What is longer than ``longest`` characters and has no semicolon is left out.
    """
    ends = _END_SMALL if len(_CAPITAL.findall(text)) * _CHARS_PER_CAPITAL < len(text) else _END
    return [
        Sentence(text[low:high], low, high)
        for begin, end in _blocks(text)
        for low, high in _pieces(text, (begin, end), ends)
        if (longest is None or high - low <= longest) and _has_words(text, low, high, least_words)
    ]


def plain_marks(text: str) -> str:
    """Return a quote whose own numbers in brackets are in parentheses: in answers, brackets number passages."""
    return _NUMBERED.sub(r"(\1)", text)


def quoted_line(text: str) -> str:
    """Return a passage's text as it is quoted: on one line, without marks of its own and what cannot be seen.

    Soft hyphens, marks of writing direction and control characters are left out, and elements, entities and escapes of
    Markdown are broken up. So nothing in it stands where a line, a list or a mark of the answer stands.
    """
    seen = "".join(char if char.isprintable() or char.isspace() else "" for char in text)
    return plain_marks(_RENDERED.sub(r"\g<0> ", " ".join(seen.split())))


def quotation(text: str) -> str:
    """Return a text of a document in quotation marks, which no mark within it ends: those become single ones."""
    return f"“{quoted_line(text).translate(_INNER)}”"


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    begin = 0
    for found in _BLOCK.finditer(text):
        yield begin, found.start()
        begin = found.end()
    yield begin, len(text)


def _pieces(text: str, block: tuple[int, int], ends: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    low, end = block
    for found in ends.finditer(text, low, end):
        if _ends(text, low, found):
            yield from _cut(text, low, found.start(1))
            low = found.end()
    yield from _cut(text, low, end)


def _ends(text: str, low: int, found: re.Match[str]) -> bool:
    """Return whether the sign ends a sentence: not after an abbreviation or an initial."""
    if text[found.start()] != "." or found[0][1:2] in ('"', "'", "”", "’", "]", "?", "!"):
        return True
    begin = max(low, found.start() - 14)
    before = _LAST_WORD.search(text[begin : found.start()])
    if before is None:
        return True
    word = before[1]
    if word.casefold().strip(".") in _ABBREVIATIONS:
        # "no." and "min." are words, too: they stay abbreviations only before a number.
        return word.casefold() in {"no", "min", "max", "co"} and not text[found.end() : found.end() + 1].isdigit()
    # The initial of a species or of a person, but not the last letter of "vitamin A" or "group B".
    is_initial = len(word) == 1 and word.isalpha() and word.isupper()
    return not (is_initial and (begin + before.start(1) == low or not _names_letter(text, begin + before.start(1))))


def _names_letter(text: str, place: int) -> bool:
    """Return whether a lower-case word stands before a single letter, as in "vitamin A."."""
    words = text[max(0, place - 20) : place].split()
    return bool(words) and words[-1].isalpha() and words[-1].islower() and len(words[-1]) > 3


def _cut(text: str, low: int, high: int) -> Iterator[tuple[int, int]]:
    while low < high and text[low].isspace():
        low += 1
    while high > low and text[high - 1].isspace():
        high -= 1
    if high - low <= MAX_SENTENCE:
        if low < high:
            yield low, high
        return
    begin = low
    for found in _SEMICOLON.finditer(text, low, high):
        yield begin, found.start() + 1
        begin = found.end()
    yield begin, high


def _has_words(text: str, low: int, high: int, least: int) -> bool:
    words = _WORD.finditer(text, low, high)
    return sum(1 for _, _ in zip(range(least), words, strict=False)) == least


def numbers_in(text: str) -> tuple[int, ...]:
    """Return the numbers in "[2]", "[1, 3]" and "[2-4]", each once, in order of appearance."""
    numbers: dict[int, None] = {}
    for mark in MARK.finditer(text):
        for part in _PART.finditer(mark[1]):
            first, last = int(part[1]), int(part[2] or part[1])
            if first <= last <= first + _MAX_SPAN:
                numbers.update(dict.fromkeys(range(first, last + 1)))
    return tuple(numbers)


def renumbered(text: str, numbers: dict[int, int]) -> str:
    """Replace the numbers of each mark by those of ``numbers``; remove numbers without an entry."""

    def mark(found: re.Match[str]) -> str:
        new = [numbers[old] for old in numbers_in(found[0]) if old in numbers]
        return f"[{', '.join(map(str, new))}]" if new else ""

    return re.sub(r" +(?=[.,;:]|$)", "", MARK.sub(mark, text))


def bare(sentence: str) -> str:
    """Return a sentence without its citation marks, on one line."""
    return " ".join(re.sub(r" +(?=[.,;:?!])", "", MARK.sub("", sentence)).split())


def sanitize(text: str) -> str:
    """Return a passage's text without anything that reads as part of a prompt; its lines are preserved and indented."""
    text = plain_marks(_PARTS.sub(r"\1 –", text))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "\n   ".join(line for line in lines if line)


def addresses_reader(text: str) -> bool:
    """Return whether a text gives instructions to a reader or a model."""
    return _INSTRUCTION.search(text) is not None
