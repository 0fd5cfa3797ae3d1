"""Find two names or numbers of a source's sentence that an answer's sentence has exchanged. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from server.methods.shared.support.binding import CONJUNCTIONS, content_of
from server.methods.shared.support.sources import PreparedText, stem_of

_WORD: Final = re.compile(r"\d+(?:[.,]\d+)*|\w+")
_PART: Final = re.compile(rf"{_WORD.pattern}|[,;]")
_SAME: Final = 0.85
_GAIN: Final = 0.1
_MIN_SHARED: Final = 4
_LIST: Final = CONJUNCTIONS - {"than"}

Words = tuple[str, ...]


def sentences_of(text: PreparedText) -> list[Words]:
    """Return the words of each sentence of a source."""
    ends = [*text.sentence_starts[1:], len(text.text)]
    return [_words(text.text[start:end]) for start, end in zip(text.sentence_starts, ends, strict=True)]


def exchanged(sentence: str, sources: Sequence[Sequence[Words]]) -> Iterator[tuple[int, int, str]]:
    """Yield the place of a name and what the source says, where the sentence is the source's with two names exchanged.

    Not the members of a list, whose order says nothing.
    """
    places = list(_WORD.finditer(sentence))
    words = _words(sentence)
    content = _content(words)
    for known in (known for source in sources for known in source):
        shared = content & _content(known)
        if len(shared) < max(_MIN_SHARED, 0.75 * len(content)):
            continue
        unique = [at for at, word in enumerate(words) if word in shared and words.count(word) == known.count(word) == 1]
        pair = _transposed([known.index(words[at]) for at in unique])
        if pair is not None:
            a, b = unique[pair[0]], unique[pair[1]]
            between = sentence[places[a].end() : places[b].start()]
            is_number = words[a][0].isdecimal()
            is_list = _is_list(between, shared, least=1 if is_number else 2)
            are_alike = is_number == words[b][0].isdecimal() and b > a + 1
            if are_alike and not is_list and _is_turned(words, a, b, known):
                yield places[a].start(), places[a].end(), places[b][0]
                return


def _transposed(order: Sequence[int]) -> tuple[int, int] | None:
    """Return the two places whose exchange puts numbers in order, None where there are no such two."""
    wrong = [at for at, (number, right) in enumerate(zip(order, sorted(order), strict=True)) if number != right]
    return (wrong[0], wrong[1]) if len(wrong) == 2 else None


def _is_turned(words: Words, a: int, b: int, known: Words) -> bool:
    """Return whether the words are those of a source but for two, which stand in each other's places."""
    turned = (*words[:a], words[b], *words[a + 1 : b], words[a], *words[b + 1 :])
    first, second = (_share_in(one, known) for one in (words, turned))
    return second >= _SAME and second - first >= _GAIN


def _share_in(words: Words, known: Words) -> float:
    """Return the share of the words, without function words, that stand in their order in those of a source."""
    own, others = ([word for word in one if word in _content(one)] for one in (words, known))
    matcher = SequenceMatcher(None, own, others, autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks()) / len(own)


def _content(words: Words) -> frozenset[str]:
    return content_of(words) | frozenset(word for word in words if word[0].isdecimal())


def _is_list(between: str, shared: frozenset[str], least: int) -> bool:
    """Return whether what parts two words are the signs of a list, with fewer than so many shared words in any part."""
    parts: list[list[str]] = [[]]
    for word in (stem_of(found[0].casefold()) for found in _PART.finditer(between)):
        if word in _LIST or not word[0].isalnum():
            parts.append([])
        else:
            parts[-1].append(word)
    return len(parts) > 1 and all(len(shared.intersection(part)) < least for part in parts)


def _words(text: str) -> Words:
    return tuple(stem_of(found[0].casefold()) for found in _WORD.finditer(text))
