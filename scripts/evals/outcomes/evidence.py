"""Read from an answer's trace what the answer could be read from, apart from the server's own checks. Pure.

The rules here are written anew and share no code with ``server/methods/shared/identifiers.py``: a fault of the server's
check is seen as a difference between the two counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MARK: Final = "[unverified]"
# Whatever the methods put behind an answer: lists of what was read, and notes in parentheses below it.
_LISTS: Final = re.compile(r"\n+(?:References|Sources|Read, not cited|Records read)\s*:[ \t]*\n.*\Z", re.DOTALL)
_UNCITED: Final = "\n\nRead, not cited:\n"
_NOTES: Final = re.compile(r"\n\n\((?:[^()]|\([^()]*\))*\)\s*(?=\n\n|\Z)")
# What was searched for, with the terms as they were sent, right or wrong, is no statement about anything.
_SEARCHED: Final = re.compile(r"\bSearched: [^\n]*")
_IDENTIFIER: Final = re.compile(
    r"""\brs\d{2,}\b                                        # variants
    |\b(?:PMID|OMIM|MIM|DOID|GO|NCT|HGNC)[:\s]?\s?\d{3,}\b   # numbers of records
    |\b(?:N[CGMPRTW]|X[MPR])_\d{6,}(?:\.\d+)?\b             # sequences
    |\bENS[A-Z]*\d{8,}\b
    |\bchr(?:\d{1,2}|[XYM]T?)(?::[\d,]+(?:-[\d,]+)?)?(?![\w:])
    |\b(?:\d{1,2}|[XY])[pq]\d{1,2}(?:\.\d+)?\b              # bands
    |\b[A-Z][A-Z0-9]{1,9}\d[A-Z0-9]{0,4}\b                  # symbols with a digit
    |\b\d+(?:[.,]\d+)?\s?(?:mg|µg|mcg|g|ml|mL|l|L|mmol|IU|units|kg|mmHg|%)(?!\w)
    |\b\d+(?:\.\d+)?e-\d+\b|\b\d{4,}\b                      # p-values, positions and other long numbers
    """,
    re.VERBOSE,
)
_QUOTE: Final = re.compile(r"“([^”]+)”|\"([^\"]+)\"")
_LEAST_QUOTE_WORDS: Final = 4
_MARKS: Final = str.maketrans("“”", "‘’")
_WORD: Final = re.compile(r"[^\W_]+(?:[-'][^\W_]+)*")
_COMMON: Final = frozenset(
    {"the", "and", "for", "with", "that", "this", "from", "are", "was", "were", "has", "have", "had", "not", "can"}
    | {"which", "what", "who", "its", "their", "into", "than", "then", "also", "there", "about", "only", "human"}
    | {"answer", "true", "false", "yes", "gene", "genes", "disease"}
)
_LEAST_WORD: Final = 3
_READ_KEYS: Final = frozenset({"context", "passages", "statements", "citations"})


def bare_text(content: str) -> str:
    """The shown text without the lists of references and the notes behind it."""
    return _NOTES.sub("", _LISTS.sub("", content)).strip()


def choice_of(trace: Any) -> Mapping[str, Any]:
    """The first choice of a trace; empty where there is none."""
    choices = trace.get("choices") if isinstance(trace, dict) else None
    return choices[0] if choices and isinstance(choices[0], dict) else {}


def texts_read(choice: Mapping[str, Any]) -> list[str]:
    """Replies as they were injected, records of calls, passages and statements; nothing that the model wrote."""
    texts = [str(span.get("text", "")) for span in choice.get("spans") or () if span.get("kind") == "injected"]
    for call in choice.get("calls") or ():
        texts += _strings((call.get("record") or {}).get("records"))
    texts += [part for one in choice.get("references") or () for part in (one.get("title", ""), one.get("text", ""))]
    return [*texts, *_read_below(choice.get("details") or {})]


def unmarked_identifiers(content: str, read: str) -> list[str]:
    """Identifiers of an answer that stand nowhere in ``read`` and are not followed by the mark."""
    text, within = _SEARCHED.sub("", bare_text(content)), _normal(read)
    found: dict[str, None] = {}
    for match in _IDENTIFIER.finditer(text):
        is_marked = text[match.end() :].lstrip(" .,;:)").startswith(MARK)
        if not is_marked and not _stands(match.group(), within):
            found[match.group()] = None
    return list(found)


def false_quotes(content: str, read: str) -> tuple[int, list[str]]:
    """How many quotes of four words or more an answer has, and those that stand nowhere in ``read``."""
    quotes = [first or second for first, second in _QUOTE.findall(bare_text(content))]
    quotes = [quote for quote in quotes if len(quote.split()) >= _LEAST_QUOTE_WORDS]
    within = _normal(read)
    return len(quotes), [quote for quote in quotes if _normal(quote) not in within]


def cited(choice: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The references of an answer; a list of what was read and not cited has none."""
    return [] if _UNCITED in str(choice.get("content") or "") else list(choice.get("references") or ())


def wrong_citations(choice: Mapping[str, Any], accepted: tuple[re.Pattern[str], ...]) -> list[str]:
    """Titles of references in whose record the answer does not stand.

    It stands there where the record has what an accepted pattern finds in the answer, or half of the answer's words
    that the question does not have. A yes or no has no words of its own: then the question's are looked for.
    """
    answer = bare_text(str(choice.get("content") or ""))
    spans = [found.group() for pattern in accepted if (found := pattern.search(answer))]
    asked = _content_words(str(choice.get("question") or ""))
    words = _content_words(answer) - asked or asked
    wrong = []
    for reference in cited(choice):
        record = _normal(record_text(reference, choice))
        if any(_normal(quote).rstrip(" .") in record for quote in _quoted_at(answer, reference.get("number"))):
            continue
        stands = any(_stands(span, record) for span in spans)
        share = sum(_stands(word, record) for word in words) / len(words) if words else 0.0
        if not stands and share < 0.5:
            wrong.append(str(reference.get("title") or reference.get("url")))
    return wrong


def _quoted_at(answer: str, number: object) -> list[str]:
    """The verbatim quotes that the answer gives a reference's number."""
    return re.findall(rf"“([^”]+)”\s*\[{number}\]", answer)


def record_text(reference: Mapping[str, Any], choice: Mapping[str, Any]) -> str:
    """The passage or record behind a reference: its own text, else the record that its address names.

    The injected line of a record counts, too: what the model saw of it.
    """
    if reference.get("text"):
        return f"{reference.get('title', '')} {reference['text']}"
    key = str(reference.get("url") or "").rstrip("/").rsplit("/", 1)[-1]
    ids = {key, key.removeprefix("rs")} - {""}
    texts = [str(reference.get("title") or "")]
    for call in choice.get("calls") or ():
        for record in (call.get("record") or {}).get("records") or ():
            if isinstance(record, dict) and str(record.get("id")).removeprefix("rs") in ids:
                texts += _strings(record)
    for span in choice.get("spans") or ():
        if span.get("kind") == "injected":
            lines = str(span.get("text", "")).splitlines()
            texts += [line for line in lines if any(re.search(rf"\b(?:rs)?{re.escape(i)}\b", line) for i in ids)]
    return "\n".join(texts)


def _content_words(text: str) -> set[str]:
    words = {word.casefold() for word in _WORD.findall(text.replace(MARK, ""))}
    return {word for word in words if len(word) >= _LEAST_WORD and word not in _COMMON}


def _stands(text: str, within: str) -> bool:
    """As whole words: 17 does not stand in 175. ``within`` is normal."""
    return re.search(rf"(?<!\w){re.escape(_normal(text))}(?!\w)", within) is not None


def _normal(text: str) -> str:
    # Within a quote, answers have single quotation marks in place of double ones.
    return " ".join(text.casefold().translate(_MARKS).split())


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case int() | float():
            yield str(value)
        case dict():
            for one in value.values():
                yield from _strings(one)
        case list() | tuple():
            for one in value:
                yield from _strings(one)


def _read_below(value: Any) -> Iterator[str]:
    """The texts below the keys that hold what was read, at any depth."""
    match value:
        case dict():
            for key, one in value.items():
                yield from _strings(one) if key in _READ_KEYS else _read_below(one)
        case list():
            for one in value:
                yield from _read_below(one)
