"""Define what the synthesis of a review ends in, whichever way it is made: claims that cite articles. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from server.methods.base import AnswerOutcome
from server.methods.shared.evidence_table import Finding
from server.methods.shared.sentences import plain_marks


@dataclass(frozen=True, slots=True)
class Claim:
    """Hold one sentence of a review without marks, and the keys of the articles that it cites.

    ``is_quote``: it is a verbatim sentence of the one article, from ``section``. ``score`` is from 0 to 1.
    """

    text: str
    keys: tuple[str, ...]
    is_quote: bool = True
    section: str = ""
    score: float = 0.0

    def shown(self, numbers: Mapping[str, int]) -> str:
        """Return the sentence with its marks; ``numbers`` are those of the articles."""
        mark = f"[{', '.join(map(str, sorted(numbers[key] for key in self.keys)))}]"
        if self.is_quote:
            return f"“{plain_marks(self.text)}” {mark}"
        body, end = (self.text[:-1], self.text[-1]) if self.text[-1:] in ".!?" else (self.text, ".")
        return f"{body} {mark}{end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """Hold the claims of a review, the TL;DR first; none where the articles do not answer.

    ``results`` is the best sentence of an article and ``cells`` further cells of its row, by key. ``disagreeing`` are
    the keys of articles that speak of the same thing, one of which denies it; ``struck`` counts sentences that were
    left out because the articles do not support them, ``rewritten`` those that were written again. ``lack`` is why
    there is no claim, ``limit`` the sentence on a limit that ended the text. ``step`` reports the stage.
    """

    claims: tuple[Claim, ...] = ()
    results: Mapping[str, Finding] = field(default_factory=dict)
    cells: Mapping[str, Mapping[str, Finding]] = field(default_factory=dict)
    disagreeing: tuple[tuple[str, str], ...] = ()
    struck: tuple[str, ...] = ()
    rewritten: int = 0
    lack: str = ""
    limit: str = ""
    outcome: AnswerOutcome = "answered"
    step: str = ""
    written: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, int]:
        """Return the number of each cited article by key, in the order of citation."""
        keys = [key for claim in self.claims for key in claim.keys]
        keys += [key for pair in self.disagreeing for key in pair]
        return {key: number for number, key in enumerate(dict.fromkeys(keys), 1)}

    @property
    def text(self) -> str:
        """Return the answer as it is shown: the TL;DR, then quotes one a line, or a paragraph."""
        numbers = self.numbers
        shown = [claim.shown(numbers) for claim in self.claims]
        separator = "\n" if self.claims[0].is_quote else " "
        return "\n\n".join(filter(None, (f"TL;DR: {shown[0]}", separator.join(shown[1:]))))

    @property
    def plain(self) -> str:
        """Return the claims without marks."""
        return " ".join(plain_marks(claim.text) for claim in self.claims)
