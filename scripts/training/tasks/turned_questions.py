"""Turn sentences and questions about names into questions of yes or no."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

from retrieval.graph.linking.dictionary_lookup.names import is_english

_MAX_WORDS: Final = 42
_FEWEST_WORDS: Final = 5
_AUXILIARIES: Final = "is|are|was|were|can|could|may|might|should|will|has been|have been"
_OPENINGS: Final = re.compile(
    r"^(?:[A-Z][A-Z /&'()-]{3,40}: ?|(?:BACKGROUND|OBJECTIVE|INTRODUCTION|CONCLUSIONS?|RESULTS|METHODS|AIMS?) |"
    r"(?:Background|Conclusions?|Results|Objectives?|Interpretation|Findings): |"
    r"(?:In (?:conclusion|summary|contrast|addition)|Therefore|However|Moreover|Furthermore|Thus|Here|Recently|Overall|"
    r"Finally|Additionally|Interestingly|Importantly|Taken together|Collectively), |"
    r"(?:These|Our|The|This)(?: present| recent)? (?:results|findings|data|study|studies|observations|analysis|review|"
    r"work)(?: also| strongly| further)? (?:suggests?|indicates?|shows?|demonstrates?|reveals?|confirms?|supports?|"
    r"showed|suggested|indicated|demonstrated|revealed|confirmed) that |"
    r"We (?:also |here |have )?(?:found|show|showed|conclude|demonstrated?|report|observed|suggest|propose)(?: here)? "
    r"that |It (?:has been|was|is) (?:\w+ )?(?:shown|reported|known|suggested|demonstrated|found|thought|established|"
    r"believed) that )"
)
_PRONOUN: Final = re.compile(
    r"^(?:we|it|this|these|there|they|our|that|those|here|which|what|how|he|she|i|if|when|although|more|further|"
    r"additional|future|one|another|such|both|a total|study|studies|aims?|purposes?|objectives?|methods?|results|"
    r"findings|data|participants|among|during|under|within|despite|given|and|but|or|to|in|of|as|by|for|with|on|from|at|"
    r"while|because|since|after)\b",
    re.IGNORECASE,
)
_REPORTS: Final = re.compile(
    r"\b(?:performed|conducted|included in (?:this|the) (?:study|review|analysis)|enrolled|recruited|searched|"
    r"discussed|reviewed|described here|presented|needed to|warranted|"
    r"(?:this|our|present) (?:study|review|report|paper|article))\b"
)
_AUXILIARY: Final = re.compile(
    rf"^(?P<subject>[^,;:]{{3,90}}?) (?P<aux>{_AUXILIARIES})(?P<no> not| no longer)? (?P<rest>[^;:]{{6,160}}?)\.?$"
)
_DOES_NOT: Final = re.compile(r"^(?P<subject>[^,;:]{3,90}?) (?P<aux>does|do|did) not (?P<rest>[a-z][^;:]{5,160}?)\.?$")
_FAILED: Final = re.compile(
    r"^(?P<subject>[^,;:]{3,90}?) (?P<aux>failed|fails|fail) to (?P<rest>[a-z][^;:]{5,160}?)\.?$"
)
_THERE: Final = re.compile(
    r"^[Tt]here (?P<aux>is|are|was|were)(?P<no> no| not any)? (?P<rest>(?:\w+ ){0,2}(?:associations?|evidence|effects?|"
    r"differences?|correlations?|relationships?|benefits?|links?|increase|decrease|risk|reports?|treatments?|cure)\b"
    r"[^;:]{5,160}?)\.?$"
)
_ADJUNCT: Final = re.compile(
    r",? (?:in|with|for|during|after|by|from|among|at|within|through|via|under|when|where|while|which|because|such as|"
    r"including|compared|without|leading|resulting|using|based|due) "
)
_PARTICIPLE: Final = re.compile(r"^(?P<subject>.+?) (?P<rest>(?:\w+ed|known|found|made|seen|given|bound|shown)\b.*)$")
_OF_SUBJECT: Final = re.compile(
    r"^(?:Which|What) (?P<kind>(?:[\w'-]+ ){1,5}?)(?P<aux>is|are|was|were|has|have|can|causes?|regulates?|encodes?|"
    r"inhibits?|leads?|plays?|mediates?|produces?|controls?) (?P<rest>.+)\?$"
)
_IS_THE: Final = re.compile(r"^(?:What|Which) (?P<aux>is|are|was|were) (?P<rest>(?:the|a|an) .+)\?$")
_CAUSES: Final = re.compile(r"^What (?P<verb>causes|triggers|induces|activates|inhibits) (?P<rest>.+)\?$")
_LIST: Final = re.compile(
    r"^(?:Please )?(?:[Ll]ist|[Nn]ame|[Ee]numerate)(?: \d+| (?:two|three|four|five|some|the|all|of))* "
    r"(?P<rest>.+?)[.?]?$"
)
_LAST: Final = re.compile(
    r"^(?P<subject>.+?) (?P<aux>is|are|was|were|can|has) (?P<rest>.+?) (?:which|what) (?:[\w-]+ ?){1,3}\?$"
)

# Kinds of things that questions ask for: an answer to one may be mistaken for the answer to another.
_KIND: Final = re.compile(
    r"\b(gene|protein|drug|disease|disorder|syndrome|cancer|target|enzyme|bacteri|virus|receptor|antibod|tissue|organ|"
    r"inhibitor|database|tool|method|hormone|mutation|symptom|treatment|cell|pathway|chromosome|marker|vaccine|index|"
    r"function|mechanism|class|compan)"
)


def kinds_asked_for(question: str) -> frozenset[str]:
    """Return the kinds of things that a question names."""
    return frozenset(_KIND.findall(question.casefold()))


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold a sentence in parts: "SUBJECT AUX (not) REST.". ``form``: how its negation and its question are built."""

    subject: str
    auxiliary: str
    denied: bool
    rest: str
    form: Literal["be", "do", "there"] = "be"

    @property
    def asked(self) -> str:
        """Return the question whether it is so, without its negation."""
        first, _, second = self.auxiliary.partition(" ")
        between = f"{second} " if second else ""
        subject = "there" if self.form == "there" else lowered(self.subject)
        return f"{first.capitalize()} {subject} {between}{self.rest}?"

    def said(self, *, denied: bool) -> str:
        first, _, second = self.auxiliary.partition(" ")
        if self.form == "there":
            return f"There {first} {'no ' if denied else ''}{self.rest}."
        if self.form == "do" and not denied:
            return f"{self.subject} {_inflected(self.rest, first)}."
        words = [self.subject, first, "not" if denied else "", second, self.rest]
        return " ".join(word for word in words if word) + "."


def statement_of(sentence: str) -> Statement | None:
    """Return the parts of a simple sentence, None for any other."""
    line = _OPENINGS.sub("", sentence)
    line = _OPENINGS.sub("", line)
    line = line[:1].upper() + line[1:]
    if not _FEWEST_WORDS <= len(line.split()) <= _MAX_WORDS or _REPORTS.search(line):
        return None
    if found := _THERE.match(line):
        return Statement("There", found["aux"], bool(found["no"]), found["rest"].strip(), "there")
    if _PRONOUN.match(line):
        return None
    for pattern in (_DOES_NOT, _FAILED):
        if found := pattern.match(line):
            auxiliary = {"failed": "did", "fails": "does", "fail": "do"}.get(found["aux"], found["aux"])
            return Statement(found["subject"], auxiliary, True, found["rest"], "do")
    found, verb = _AUXILIARY.match(line), _of_verb(line)
    if found and (verb is None or len(found["subject"]) < len(verb.subject)):
        return Statement(found["subject"], found["aux"], bool(found["no"]), found["rest"])
    return verb


def _of_verb(line: str) -> Statement | None:
    """Return a statement whose first known verb stands in the third person or in the past."""
    words = line.rstrip(".").split(" ")
    for place, word in enumerate(words[:12]):
        known = _forms().get(word) if place else None
        if known is None or place + 1 >= len(words):
            continue
        subject = " ".join(words[:place])
        if re.search(rf"[,;:]|\b(?:that|which|who|and|to|by)$|\b(?:{_AUXILIARIES})\b", subject):
            return None
        base, auxiliary = known
        # A participle, or a noun in the plural.
        if re.fullmatch(rf"by|with|in|and|to|from|of|on|at|for|{_AUXILIARIES}|has|have|had", words[place + 1]):
            return None
        return Statement(subject, auxiliary, False, " ".join([base, *words[place + 1 :]]), "do")
    return None


def _past(verb: str) -> str:
    irregular = {"bind": "bound", "lead": "led", "arise": "arose", "show": "showed"}
    return irregular.get(verb) or (f"{verb}d" if verb.endswith("e") else re.sub("y$", "i", verb) + "ed")


def _third(verb: str) -> str:
    return re.sub("y$", "ie", verb) + "s" if re.search("[^aeou]y$", verb) else f"{verb}s"


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads((files("scripts.training.tasks") / "turned_words.toml").read_text(encoding="utf-8"))


@cache
def _forms() -> dict[str, tuple[str, str]]:
    """Return the base form and the auxiliary verb of each inflected form of a known verb."""
    verbs = _words()["verbs"].split()
    return {form: (verb, aux) for verb in verbs for form, aux in ((_third(verb), "does"), (_past(verb), "did"))}


def _inflected(rest: str, auxiliary: str) -> str:
    verb, _, after = rest.partition(" ")
    form = {"does": _third, "did": _past}.get(auxiliary, str)(verb)
    return f"{form} {after}"


def opposite_of(text: str, draw: random.Random) -> str:
    """Return the text with one word replaced by its opposite, "" where it has none of the known words."""
    known = _words()["opposites"]
    pairs = [*known, *((two, one) for one, two in known)]
    fits = [(one, two) for one, two in pairs if re.search(rf"\b{one}\b", text)]
    if not fits:
        return ""
    one, two = draw.choice(fits)
    return re.sub(rf"\b{one}\b", two, text, count=1)


def reworded(statement: Statement, draw: random.Random) -> Statement:
    """Return a statement that the given one implies: without its last details, and with words of the same meaning."""
    rest = statement.rest.rstrip(".")
    cuts = [found.start() for found in _ADJUNCT.finditer(rest) if _is_whole(rest[: found.start()])]
    # What is cut from a denial may be all that it denies.
    if cuts and not statement.denied and draw.random() < 0.6:
        rest = rest[: draw.choice(cuts)]
    # Behind an article, the other word might need another article.
    fits = [(one, two) for one, two in _words()["synonyms"] if re.search(rf"(?<!\ba )(?<!\ban )\b{one}\b", rest)]
    if fits and draw.random() < 0.7:
        one, two = draw.choice(fits)
        rest = re.sub(rf"\b{one}\b", two, rest, count=1)
    return replace(statement, rest=rest)


def _is_whole(text: str) -> bool:
    words = text.split()
    return len(words) >= 3 and not re.search(r"(?:ed|\b(?:and|or|but|be|is|are|was|were|not|as))$", text)


def whether(statement: Statement, draw: random.Random) -> str:
    """Return the question in one of its forms."""
    plain = statement.said(denied=False).rstrip(".")
    forms = [statement.asked] * 8 + [f"Is it true that {lowered(plain)}?", f"{plain}, yes or no?"]
    if statement.form != "there":
        forms.append(f"Is there evidence that {lowered(plain)}?")
    return draw.choice(forms)


def asks_of_name(question: str, name: str, *, is_one_of: bool) -> Iterator[str]:
    """Yield questions of yes or no: whether the name is an answer to a question, or one of its answers."""
    role = "one of the" if is_one_of else "the"
    if found := _IS_THE.match(question):
        if not is_one_of:
            yield f"{found['aux'].capitalize()} {name} {found['rest']}?"
    elif found := _CAUSES.match(question):
        yield f"Does {name} {found['verb'][:-1]} {found['rest']}?"
    elif found := _OF_SUBJECT.match(question):
        yield from _of_kind(found, name, role)
    elif found := _LIST.match(question):
        yield f"Is {name} one of the {found['rest']}?"
        yield f"Is {name} among the {found['rest']}?"
    elif found := _LAST.match(question):
        yield f"{found['aux'].capitalize()} {lowered(found['subject'])} {found['rest']} {name}?"


def _of_kind(found: re.Match[str], name: str, role: str) -> Iterator[str]:
    kind, auxiliary, rest = found["kind"].strip(), found["aux"], found["rest"]
    if not re.match(r"(?:the|a|an) |[A-Z\d]", rest):
        yield f"Is {name} {role} {kind} that {auxiliary} {rest}?"
        if auxiliary in ("is", "are", "was", "were", "can"):
            yield f"{'Is' if auxiliary == 'are' else auxiliary.capitalize()} {name} {rest}?"
    elif parts := _PARTICIPLE.match(rest):
        yield f"Is {name} {role} {kind} that {parts['subject']} {auxiliary} {parts['rest']}?"
        if auxiliary in ("is", "are", "was", "were"):
            yield f"{auxiliary.capitalize()} {parts['subject']} {parts['rest']} {name}?"


def lowered(text: str) -> str:
    """Return a sentence as it stands within another: its first letter is small where it begins an ordinary word."""
    return text if text[1:2].isupper() or text[1:2].isdigit() or text[1:2] == "-" else text[:1].lower() + text[1:]


def unusual_words(text: str) -> tuple[str, ...]:
    """Return the words that are not English in any form, once each and in order."""
    words = re.findall(r"[^\W_](?:[\w'-]*\w)?", text)
    return tuple(dict.fromkeys(word for word in words if not is_english(word)))
