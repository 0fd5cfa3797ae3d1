"""Turn simple questions of yes or no into claims, and edit claims by rule so that they say something else."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from scripts.training.tasks.turned_questions import lowered, opposite_of, statement_of, unusual_words
from scripts.verifier.samples import capital

_DO: Final = re.compile(r"^(?P<aux>Does|Do|Did|Can|Could|May|Might|Should|Will) (?P<rest>.+)\?$")
_BE: Final = re.compile(r"^(?P<aux>Is|Are|Was|Were|Has|Have) (?P<rest>.+)\?$")
# Base forms that follow the subject of a question with "does".
_VERBS: Final = """
    inhibit increase reduce cause induce promote improve activate regulate interact bind lead prevent play enhance
    decrease suppress affect mediate repress encode occur result protect contribute target require predict block
    trigger stimulate control influence involve include contain provide support show lack remain belong act work
    treat relieve harbor carry arise depend need use help raise lower differ express produce correlate respond have
    become make take come develop lie run spread kill cure cross interfere shorten prolong extend worsen delay slow
    restore harm benefit suffer survive recur persist disappear change alter convert turn form give go keep stop be
"""
# What begins the predicate of a question with "is".
_PREDICATE: Final = re.compile(
    r"^(?P<subject>.+?) (?P<rest>(?:(?:an?|not|mainly|mostly|usually|always|often|"
    r"effective|safe|useful|associated|known|found|made|seen|given|bound|shown|caused|due|rare|able|essential|"
    r"necessary|possible|higher than|lower than|part of)\b|\w+ed (?:by|in|with|for|to|from)\b).*)$"
)
_WORD: Final = re.compile(r"(?<![\w-])[A-Z][A-Z\d-]*[A-Z\d](?![\w-])")
_SYMBOL: Final = "symbol"
_LONGEST_SYMBOL: Final = 8  # longer words in capitals are headings
_NUMBER: Final = re.compile(r"(?<![\w.,])\d+(?:\.\d+)?(?![\w.,]*\d)")
_UNITS: Final = (
    ("mg", "g"), ("mg", "µg"), ("days", "weeks"), ("weeks", "months"), ("months", "years"), ("hours", "days"),
    ("minutes", "hours"), ("mg/kg", "g/kg"), ("ml", "l"), ("%", "times"), ("mmol", "mol"),
)  # fmt: skip
_NEGATED: Final = re.compile(
    r"\b(is|are|was|were|can|could|may|must|should|will|has|have) (?!not\b|no\b|never\b|to\b|an?\b|the\b)(?=\w)"
)
# What A is to B, B may be to A.
_MUTUAL: Final = re.compile(
    r"\b(?:interact\w*|associat\w*|correlat\w*|relat\w*|link\w*|bind\w*|bound|between|differ\w*|similar\w*|equal\w*|"
    r"overlap\w*|same|both|compar\w*|together|versus)\b"
)
_DIRECTED: Final = re.compile(
    r"(?P<verb>(?!represent|remain|play|show|contain|provide|involve|describe|help)\w+)(?P<by> by)? "
    r"(?P<object>(?!with\b|to\b|in\b|as\b|that\b|not\b|from\b|on\b|for\b|by\b|means\b|one\b)[^,;:()]+?)"
    r"(?=,| (?:in|with|for|during|after|by|from|among|at|within|through|via|under|when|which|that|to|on|as)\b|\.?$)"
)
_LONGEST_ROLE: Final = 6  # words
_DENIAL: Final = re.compile(r"\b(is|are|was|were|can|could|may|must|should|will|did|does|do)( not|not) (?=\w)")


def claim_of(question: str) -> str:
    """Return what a question of yes or no asks about as a claim, "" where its parts are not told apart."""
    if found := _DO.match(question):
        return _of_verb(found["aux"].lower(), found["rest"])
    found = _BE.match(question)
    parts = _PREDICATE.match(found["rest"]) if found else None
    if found is None or parts is None or found["rest"].startswith(("there ", "it ")):
        return ""
    return f"{capital(parts['subject'])} {found['aux'].lower()} {parts['rest']}."


def _of_verb(auxiliary: str, rest: str) -> str:
    words, verbs = rest.split(" "), _VERBS.split()
    place = next((place for place, word in enumerate(words) if place and word in verbs), 0)
    if not place:
        return ""
    subject, verb, after = " ".join(words[:place]), words[place], " ".join(words[place + 1 :])
    if auxiliary == "does":
        verb = _third(verb)
    elif auxiliary != "do":
        verb = f"{auxiliary} {verb}"
    return f"{capital(subject)} {verb} {after}".rstrip() + "."


def _third(verb: str) -> str:
    if verb in ("have", "be", "go"):
        return {"have": "has", "be": "is", "go": "goes"}[verb]
    return re.sub("y$", "ie", verb) + "s" if re.search("[^aeou]y$", verb) else f"{verb}{'e' * verb.endswith('s')}s"


def with_other_number(text: str, draw: random.Random) -> str:
    """Return the text with one of its numbers changed so that none takes it for the same, "" where it has none."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return ""
    one = draw.choice(found)
    value = float(one[0])
    factor = draw.choice((0.1, 0.25, 0.5, 2, 3, 10)) if value else 5
    other = value * factor if value * factor >= 1 or "." in one[0] else value + draw.choice((2, 3, 5))
    shown = f"{other:.{len(one[0].partition('.')[2])}f}"
    return "" if shown == one[0] else text[: one.start()] + shown + text[one.end() :]


def with_other_unit(text: str, draw: random.Random) -> str:
    """Return the text with one of its units exchanged, "" where it has none."""
    pairs = [*_UNITS, *((two, one) for one, two in _UNITS)]
    fits = [(one, two) for one, two in pairs if re.search(rf"\d ?{re.escape(one)}(?!\w|/)", text)]
    if not fits:
        return ""
    one, two = draw.choice(fits)
    return re.sub(rf"(?<=\d)( ?){re.escape(one)}(?!\w|/)", rf"\g<1>{two}", text, count=1)


def negated(text: str, draw: random.Random) -> str:
    """Return the text with its first auxiliary denied, or a denial dropped; "" where it has neither."""
    del draw
    if found := _DENIAL.search(text):
        return text[: found.start(2)] + text[found.end(2) :]
    return _NEGATED.sub(r"\1 not ", text, count=1) if _NEGATED.search(text) else ""


def denied(text: str, draw: random.Random) -> str:
    """Return a statement said the other way round: denied, or without its denial; "" where it is no statement."""
    del draw
    found = statement_of(text)
    return found.said(denied=not found.denied) if found else ""


def turned(text: str, draw: random.Random) -> str:
    """Return the text with one word turned to its opposite, "" where it has none."""
    return opposite_of(text, draw)


CONTRARY: Final[Sequence[Callable[[str, random.Random], str]]] = (
    with_other_number, with_other_unit, negated, turned, denied,
)  # fmt: skip


def with_other_name(text: str, pool: Mapping[str, Sequence[str]], draw: random.Random) -> str:
    """Return the text with a rare name exchanged for another that looks like one of its kind, "" where it has none."""
    names = [word for word in names_in(text) if pool.get(shape(word))]
    if not names:
        return ""
    name = draw.choice(names)
    other = draw.choice(pool[shape(name)])
    if other.casefold() == name.casefold() or other.casefold() in text.casefold():
        return ""
    return re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", other, text)


def with_roles_exchanged(text: str) -> str:
    """Return a statement whose subject and object have changed places.

    "" where they are not told apart, or what is said may hold both ways round.
    """
    found = statement_of(text)
    parts = _DIRECTED.match(found.rest) if found and found.form != "there" else None
    if found is None or parts is None or _MUTUAL.search(text):
        return ""
    subject, target = found.subject, parts["object"]
    if max(len(subject.split()), len(target.split())) > _LONGEST_ROLE or (parts["by"] is None and found.form == "be"):
        return ""
    if not names_in(f"{subject} {target}"):
        return ""
    first = lowered(subject)
    rest = f"{parts['verb']}{parts['by'] or ''} {first}{found.rest[parts.end('object') :]}"
    return replace(found, subject=capital(target), rest=rest).said(denied=found.denied)


def with_more(text: str, other: str) -> str:
    """Return a statement with what another one says of its own subject, "" where one of them is no statement."""
    found, more = statement_of(text), statement_of(other)
    if found is None or more is None or more.form == "there" or more.denied or found.form == "there":
        return ""
    predicate = more.said(denied=False)[len(more.subject) + 1 :]
    return f"{found.said(denied=found.denied).rstrip('.')}, and {predicate}"


def names_in(text: str) -> list[str]:
    """Return the words that look like names: those that are no English, and symbols."""
    symbols = [word for word in _WORD.findall(text) if len(word) <= _LONGEST_SYMBOL]
    return [word for word in dict.fromkeys([*unusual_words(text), *symbols]) if len(word) > 2]


def shape(word: str) -> str:
    """Return what kind of name a word looks like: a symbol, or its last letters."""
    if any(char.isupper() or char.isdigit() for char in word[1:]):
        return _SYMBOL
    return word[-3:].lower()
