"""Read the shipped tables of abbreviations, brand names, everyday, old and eponymous names of drugs and diseases.

The tables are this project's own compilation of facts (``words/abbreviations.txt``, ``words/drugs.txt``,
``words/diseases.txt``). A name of them is used only if the graph has one of its targets, tried in order; one whose
targets are all absent is known, so that a step can say so, and no shorter name within it is taken for it. Short
abbreviations match in capitals only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from retrieval.graph.linking.dictionary_lookup.normalize import Token, fold

_FOLDER: Final = "retrieval.graph.linking.dictionary_lookup"
_LONGEST: Final = 8


@dataclass(frozen=True, slots=True)
class CommonName:
    """Represent one name of the table.

    ``targets``: names of the node that it means, in order of preference.
    """

    name: str
    targets: tuple[str, ...]
    is_abbreviation: bool = False


@dataclass(frozen=True, slots=True)
class AbsentName:
    """Represent the tokens ``first`` up to ``last`` - 1 that name ``target``, which the graph does not have."""

    first: int
    last: int
    start: int
    end: int
    target: str


@dataclass(frozen=True, slots=True)
class AbsentNames:
    """Find names of the table that mean nothing in a graph, by their normalized words; ``firsts`` begin them."""

    targets: dict[tuple[str, ...], str]
    firsts: frozenset[str]

    def find(self, tokens: Sequence[Token]) -> Iterator[AbsentName]:
        """Yield the longest such names, without overlaps."""
        position = 0
        while position < len(tokens):
            found = self._at(tokens, position) if tokens[position].text in self.firsts else None
            if found is not None:
                yield found
            position = found.last if found is not None else position + 1

    def _at(self, tokens: Sequence[Token], first: int) -> AbsentName | None:
        for last in range(min(len(tokens), first + _LONGEST), first, -1):
            target = self.targets.get(tuple(token.text for token in tokens[first:last]))
            if target is not None:
                return AbsentName(first, last, tokens[first].start, tokens[last - 1].end, target)
        return None


def common_names() -> tuple[CommonName, ...]:
    """Return abbreviations, then the names of drugs and of diseases."""
    short = [CommonName(names[0], targets, is_abbreviation=True) for names, targets in _lines("abbreviations.txt")]
    return (*short, *_drugs(_lines("drugs.txt")), *_diseases(_lines("diseases.txt")))


def absent_names(missing: Sequence[CommonName]) -> AbsentNames:
    """Return the finder of names whose targets a graph lacks.

    Abbreviations are not among them, as they mean other things as well.
    """
    targets: dict[tuple[str, ...], str] = {}
    for entry in missing:
        if not entry.is_abbreviation:
            targets.setdefault(tuple(fold(entry.name)), entry.targets[0])
        for target in entry.targets[:1]:
            targets.setdefault(tuple(fold(target)), target)
    named = {words: target for words, target in targets.items() if words}
    return AbsentNames(named, frozenset(words[0] for words in named))


def _lines(name: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield the names before and after the colon of each line."""
    text = files(_FOLDER).joinpath("words", name).read_text(encoding="utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            before, _, after = line.partition(":")
            yield tuple(before.split("; ")), tuple(filter(None, after.strip().split("; ")))


def _drugs(lines: Iterator[tuple[tuple[str, ...], tuple[str, ...]]]) -> Iterator[CommonName]:
    """Yield brand names, and each name of a substance for the others."""
    for targets, names in lines:
        for name in dict.fromkeys((*targets, *names)):
            yield CommonName(name, targets)


def _diseases(lines: Iterator[tuple[tuple[str, ...], tuple[str, ...]]]) -> Iterator[CommonName]:
    for targets, names in lines:
        for name in names:
            yield CommonName(name, targets)
