"""Find what keeps an answer from being whole, and state it in the answer's text. Pure.

An answer may have been cut by a limit, be a bare yes or no, or say itself that its sources do not tell: prompts ask the
model to say so, and each model has words of its own for it.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from models.decoding.types import LoopFinish
from models.types import REPETITION
from server.methods.base import TextDelta

YES_NO: Final = re.compile(r"\W*(?:yes|no)\b", re.IGNORECASE)
# Long enough to see whether an answer begins with yes or no.
_OPENING_CHARS: Final = 12
_SHORT: Final[dict[LoopFinish, str]] = {
    "length": "it reached its limit of length",
    "call_limit": "it had used all its calls",
    "timeout": "it ran out of time",
    "abort": "it was stopped",
}
Coverage = Literal["whole", "part", "none"]
_SENTENCE: Final = re.compile(r"(?<=[.!?])[\"'”’)]*\s+|\n+")
# Marks of citations, emphasis and list items.
_MARKS: Final = re.compile(r"\[[\d\s,;–-]*\]|[*_#>`]|^\s*[-•]\s+|^\W*(?:answer|tl;?dr)\s*:", re.IGNORECASE)
_LONGEST: Final = 600
# What was put before the model; and what may also be the subject of a finding ("the results do not show a difference").
_OWN: Final = (
    r"(?:passages?|statements?|texts?|documents?|sources?|contexts?|excerpts?|snippets?|notes?|materials?|library|"
    r"knowledge graph|graph|sub-?answers?)"
)
_SHARED: Final = (
    r"(?:articles?|abstracts?|records?|literature|databases?|evidence|information|data|results?|repl(?:y|ies))"
)
_THINGS: Final = rf"(?:{_OWN}|{_SHARED})"
_WHICH: Final = (
    r"(?:the|these|those|this|that|any|all|of|my|given|provided|numbered|retrieved|available|above|listed|cited|"
    r"supplied|quoted|found|read)"
)
_WHERE: Final = r"(?:\s+(?:above|given|provided|available|here|that (?:was|were) \w+))?"
_SOURCES: Final = rf"(?:{_WHICH}\s+){{0,4}}{_THINGS}{_WHERE}"
_HOW: Final = r"(?:\s+(?:directly|explicitly|clearly|specifically|actually|fully|really|itself|themselves|even))*"
_NOT: Final = r"(?:(?:do|does|did|is|are|was|were|can|could)\s+not|cannot|(?:do|does|did|is|are|was|ca|could)n['’]?t)"
_SAYS: Final = (
    r"(?:say|tell|state|mention|contain|provide|answer|specify|address|include|give|name|discuss|clarify|define)"
)
_TELLS: Final = (
    rf"(?:{_SAYS}|describe|indicate|support|have|report|list|identify|cover|explain|reveal|show|allow|help|offer|hold|"
    r"speak|touch|refer)"
)
_TOLD: Final = (
    r"(?:stated|mentioned|given|specified|answered|provided|addressed|included|described|indicated|discussed|reported|"
    r"listed|identified|covered|explained|named|told|said|found|known|clear|available|contained)"
)
_NO_MATTER: Final = r"no\s+(?:\w+\s+){0,2}(?:information|answer|mention|statement|details?|data|evidence|passage|entry)"
_DENIALS: Final = (
    # The passages do not say; the articles contain no information on it.
    rf"(?:{_WHICH}\s+){{0,4}}{_OWN}{_WHERE}{_HOW}\s+{_NOT}{_HOW}\s+{_TELLS}\b",
    rf"(?:{_WHICH}\s+){{0,4}}{_SHARED}{_WHERE}{_HOW}\s+{_NOT}{_HOW}\s+{_SAYS}\b",
    rf"{_SOURCES}{_HOW}\s+(?:contain|provide|ha[sv]e|have|give|include|offer|hold|make)s?\s+{_NO_MATTER}\b",
    rf"{_SOURCES}\s+(?:is|are)\s+(?:silent|not\s+(?:sufficient|enough|clear)|insufficient)\b",
    r"(?:they|it|none)\s+(?:(?:do|does)\s+not|don['’]?t|doesn['’]?t)\s+(?:say|tell|state|mention|answer|specify)\b",
    # No passage says; none of the statements mentions it.
    rf"(?:none|neither|no\s+one)\s+of\s+{_SOURCES}{_HOW}\s+{_SAYS}s?\b",
    rf"no\s+(?:\w+\s+)?{_THINGS}{_WHERE}{_HOW}\s+{_SAYS}s?\b",
    r"(?:there\s+(?:is|are|was)|i\s+(?:find|found|see|have))\s+no\s+(?:\w+\s+){0,2}"
    r"(?:information|answer|mention|statement|passage|data|details?)\b",
    rf"(?:there\s+(?:is|are)\s+)?no\s+(?:\w+\s+)?(?:information|answer|mention|evidence)\s+"
    rf"(?:in|from|among|within)\s+{_SOURCES}",
    r"(?:there\s+(?:is|are)\s+)?(?:not\s+enough|insufficient)\s+(?:information|evidence|data|context)\b",
    # It is not stated (in the passages).
    rf"(?:(?:it|this|that|the\s+answer|this\s+information|the\s+question)\s+)?(?:is|are|was)\s+not{_HOW}\s+{_TOLD}\b"
    rf"(?:\s+(?:in|by|from)\s+{_SOURCES})?\W*$",
    rf"[^.]{{1,80}}\s(?:is|are|was|were)\s+not{_HOW}\s+{_TOLD}\s+(?:in|by|from)\s+{_SOURCES}",
    rf"not{_HOW}\s+{_TOLD}(?:\s+(?:in|by|from)\s+{_SOURCES})?\W*$",
    rf"(?:this|that|it|the\s+question)\s+{_NOT}\s+be\s+(?:answered|determined|told|known|said)\b",
    # I do not know.
    r"i\s+(?:do\s+not|don['’]?t)\s+know\b",
    r"i(?:['’]m|\s+am)\s+(?:not\s+able|unable)\s+to\s+(?:answer|say|tell|find|determine)\b",
    r"i\s+(?:cannot|can['’]?t|could\s+not|couldn['’]?t)\s+(?:answer|say|tell|find|determine)\b",
    r"(?:unknown|no\s+answer|n/?a|none)\W*$",
)
# The number of repeats is bounded and long parts end with a comma, so that matching stays linear.
_LEAD: Final = (
    r"(?:(?:unfortunately|sorry|however|but|and|so|thus|therefore|hence|in summary|"
    r"(?:based on|according to|although|though|while|as|since)\b[^,]{1,160}(?=,)),?\s+){0,2}"
)
_DENIED: Final = re.compile(rf"\W*{_LEAD}(?:{'|'.join(_DENIALS)})", re.IGNORECASE)
# What follows such a word in the same sentence is a statement of its own.
_TURNS: Final = re.compile(
    r"(?:[,;:–]|\s-)\s*(?:but|however|yet|though|although|only that|they do|it does)\b", re.IGNORECASE
)
# Says nothing of the matter, and so does not make a refusal an answer.
_COURTESY: Final = re.compile(
    r"\W*(?:sorry\b|i apologi[sz]e|please (?:consult|ask|see|check|provide)|(?:an?|this) answer is information|"
    r"(?:further|more) (?:research|information|studies)\b[^.]*(?:needed|required))",
    re.IGNORECASE,
)


def why_cut(finish: LoopFinish, stop_reason: str | int | None) -> str:
    """Return the sentence on an answer that a limit ended, "" for one that ended by itself."""
    if finish == "stop":
        return ""
    reason = "it repeated itself" if stop_reason == REPETITION else _SHORT[finish]
    return f"The answer is not complete: {reason}."


def notice(reason: str, answer: str) -> TextDelta:
    """Return the text that states the reason, as a note below the ``answer`` that was shown, or alone where it is "".

    ``reason`` is one sentence or more.
    """
    return TextDelta(f"\n\n({reason})" if answer.strip() else reason, is_ours=True)


class OpeningGate:
    """Withhold the text of an answer until it is settled that it is no bare yes or no.

    With ``is_closed`` all of it is withheld, as for an answer that is judged as a whole.
    """

    def __init__(self, *, is_closed: bool) -> None:
        self.is_closed = is_closed
        self.is_open = False
        self._withheld: list[TextDelta] = []

    def feed(self, delta: TextDelta) -> list[TextDelta]:
        """Return the text that can be shown now."""
        self._withheld.append(delta)
        text = "".join(one.text for one in self._withheld).strip()
        is_settled = len(text) > _OPENING_CHARS and not YES_NO.match(text)
        self.is_open = self.is_open or (is_settled and not self.is_closed)
        return self.released() if self.is_open else []

    def released(self) -> list[TextDelta]:
        """Return what was withheld, once."""
        released, self._withheld = self._withheld, []
        return released


def says_nothing(answer: str) -> Coverage:
    """Return how much of an answer says that its sources do not tell: the whole, a part, or none of it.

    ``part``: other sentences, or what follows a "but", state something.
    """
    sentences = [text for one in _SENTENCE.split(answer) if any(map(str.isalnum, text := _bare(one)))]
    denied = [one for one in sentences if _DENIED.match(one)]
    matter = [one for one in sentences if one in denied or not _COURTESY.match(one)]
    if not denied:
        return "none"
    return "whole" if len(denied) == len(matter) and not any(map(_TURNS.search, denied)) else "part"


def _bare(sentence: str) -> str:
    return " ".join(_MARKS.sub(" ", sentence[:_LONGEST]).split())
