"""Count how misspelt names in questions are linked: to their node, to another, or to none.

Also the reverse: names that the graph does not have, which spelling correction must not turn into another.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from retrieval.graph.linking.dictionary_lookup.dictionary import Dictionary
from retrieval.graph.linking.dictionary_lookup.names import build_vocabulary, is_indexable
from retrieval.graph.linking.dictionary_lookup.normalize import fold, tokens_of
from retrieval.graph.linking.linker import Linker
from retrieval.graph.types import LinkOptions

LEAST_LETTERS: Final = 6
WORDING: Final = "Which genes are associated with {}?"
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_SHOWN: Final = 12
# A slip in "2A" or "IL" makes another name of it.
_WORD: Final = re.compile(r"[^\W\d_]{3,}")


def transposed(name: str, chance: random.Random) -> str:
    place = _place(name, chance, lambda p: name[p + 1 : p + 2].isalpha() and name[p] != name[p + 1])
    return name[:place] + name[place + 1] + name[place] + name[place + 2 :]


def left_out(name: str, chance: random.Random) -> str:
    place = _place(name, chance)
    return name[:place] + name[place + 1 :]


def doubled(name: str, chance: random.Random) -> str:
    place = _place(name, chance)
    return name[:place] + name[place] + name[place:]


def replaced(name: str, chance: random.Random) -> str:
    place = _place(name, chance)
    return name[:place] + chance.choice(_LETTERS.replace(name[place].lower(), "")) + name[place + 1 :]


SLIPS: Final[dict[str, Callable[[str, random.Random], str]]] = {
    "two letters exchanged": transposed,
    "a letter left out": left_out,
    "a letter doubled": doubled,
    "another letter": replaced,
}


@dataclass(frozen=True, slots=True)
class Slipped:
    """``start`` up to ``end``: where the misspelt name stands in ``text``."""

    text: str
    name: str
    start: int
    end: int


@dataclass(slots=True)
class Tally:
    """``another``: a node other than the name's at its place. ``said``: of those the ones with a note."""

    right: int = 0
    another: int = 0
    said: int = 0
    none: int = 0
    seconds: float = 0.0
    examples: list[str] = field(default_factory=list)

    def row(self, *labels: str) -> str:
        n = max(1, self.right + self.another + self.none)
        cells = [f"{one} ({one / n:.1%})" for one in (self.right, self.another, self.none)]
        return "| " + " | ".join([*labels, str(n), *cells, str(self.said), f"{1e3 * self.seconds / n:.2f}"]) + " |"


def slipped_names(dictionary: Dictionary, names: Sequence[str], kind: str, seed: int = 7) -> list[Slipped]:
    """Each name of six letters and more in a question, if the slip does not make another known name of it."""
    return [one for name in names if (one := _slipped(dictionary, WORDING.format(name), name, kind, seed))]


def slipped_questions(
    dictionary: Dictionary, asked: Sequence[tuple[str, str]], kind: str, seed: int = 7
) -> list[Slipped]:
    """(text, name) with the slip in the first place of the name as a whole; those where it stands nowhere are left
    out."""
    return [one for text, name in asked if (one := _slipped(dictionary, text, name, kind, seed))]


async def tally(linker: Linker, slipped: Sequence[Slipped], options: LinkOptions) -> Tally:
    found = Tally()
    for one in slipped:
        begun = time.perf_counter()
        linked = await linker.link(one.text, options)
        found.seconds += time.perf_counter() - begun
        names = [m.node.name for m in linked.mentions if m.start < one.end and one.start < m.end]
        if one.name.casefold() in map(str.casefold, names):
            found.right += 1
        elif names:
            found.another += 1
            found.said += bool(linked.notes)
            found.examples.append(f"{one.text[one.start : one.end]} → {', '.join(names)}")
        else:
            found.none += 1
    return found


async def slip_report(
    linker: Linker, names: Sequence[str], asked: Sequence[tuple[str, str]], options: LinkOptions
) -> list[str]:
    """Markdown. ``asked``: (question, name in it); those that are not linked to it as they are say nothing of slips."""
    asked = [(text, name) for text, name in asked if await _links(linker, text, name, options)]
    lines = [
        f"| one slip ({options.method}) | names | n | right | another node | none | another, with a note | ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    examples: list[str] = []
    for kind in SLIPS:
        for label, slipped in (
            ("all names", slipped_names(linker.dictionary, names, kind)),
            ("in questions", slipped_questions(linker.dictionary, asked, kind)),
        ):
            found = await tally(linker, slipped, options)
            lines.append(found.row(kind, label))
            examples += random.Random(1).sample(found.examples, min(3, len(found.examples)))
    return [*lines, "", "Another node: " + ("; ".join(examples[:_SHOWN]) or "never") + "."]


async def _links(linker: Linker, text: str, name: str, options: LinkOptions) -> bool:
    start = text.casefold().find(name.casefold())
    linked = await linker.link(text, options)
    return any(
        mention.start == start and mention.node.name.casefold() == name.casefold() for mention in linked.mentions
    )


def absent_report(dictionary: Dictionary, names: Sequence[str]) -> list[str]:
    """Each name taken out of the graph with the words that it alone has: none is to be read as another by spelling."""
    misread = list(_misread(dictionary, names))
    shown = "; ".join(misread[:_SHOWN]) or "none"
    return [f"{len(misread)} of {len(names)} names, taken out one by one, were read as another: {shown}."]


def _misread(dictionary: Dictionary, names: Sequence[str]) -> Iterator[str]:
    uses = Counter(word for name in names for word in set(fold(name)))
    every = {word for word in uses if is_indexable(word)}
    for name in names:
        own = {word for word in fold(name) if uses[word] == 1 and word in every}
        if not own:
            continue
        speller = replace(dictionary.speller, names=build_vocabulary(every - own))
        text = WORDING.format(name)
        for candidate in speller.read(text, tokens_of(text), (), None).candidates:
            node = dictionary.store.node(dictionary.table.node_id(candidate.posting.node))
            yield f"{name} → {node.name if node else ''}"
            break


def _slipped(dictionary: Dictionary, text: str, name: str, kind: str, seed: int) -> Slipped | None:
    start = text.casefold().find(name.casefold())
    if start < 0 or sum(c.isalpha() for c in name) < LEAST_LETTERS or not _WORD.search(name):
        return None
    wrong = SLIPS[kind](text[start : start + len(name)], random.Random(f"{seed} {kind} {name}"))
    if wrong.casefold() == name.casefold() or dictionary.look_up(wrong) is not None:
        return None
    return Slipped(text[:start] + wrong + text[start + len(name) :], name, start, start + len(wrong))


def _place(name: str, chance: random.Random, fits: Callable[[int], bool] = lambda _: True) -> int:
    places = [place for word in _WORD.finditer(name) for place in range(*word.span()) if fits(place)]
    return chance.choice(places)
