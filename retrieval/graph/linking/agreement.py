"""Decide whether two spellings can be of one name: the same words up to typos, in any order.

Similar vectors are not sufficient: "estrogen-receptor positive" is close to "negative", type 1 to type 2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

# Words that may be absent on either side.
_LIGHT: Final = frozenset(("type", "the", "of", "and", "with", "by", "to", "for"))
# Interchangeable words that must not be absent: "adrenal cortex" is no disease.
_HEADS: Final = {"disorder": "disease", "syndrome": "disease"}
# Prefixes that differ by little and mean the opposite.
_CONTRARY: Final = (
    ("hyper", "hypo"),
    ("macro", "micro"),
    ("inter", "intra"),
    ("endo", "ecto"),
    ("exo", "eso"),
    ("ec", "en"),
    ("en", "ex"),
    ("pre", "pro"),
    ("mono", "poly"),
    ("alpha", "beta"),
    ("brady", "tachy"),
    ("methyl", "ethyl"),
    ("methan", "ethan"),
)
# Endings of words that "a-" negates; "nemia" is a typo of anemia, not its opposite.
_DENIABLE: Final = ("al", "ar", "ed", "ic", "ous", "phy", "sia", "sis")
# Endings of chemical names: another ending is another substance.
_CHEMICAL: Final = re.compile(r"(?:[aey]ne|i[nd]e|[ia]te|one|ile|[ao]se|ole?|al|yl|[iae]n)$")
_LEAST_SLIP: Final = 5
_TWO_SLIPS: Final = 14
_MAX_WORDS: Final = 24


def agreement(span: Sequence[str], name: Sequence[str], vocabulary: AbstractSet[str]) -> float:
    """Return 1.0 for the same words, less for each typo, and 0.0 for two different names.

    Tokens are normalized by ``fold``. A word of ``vocabulary`` is spelled as intended and has no typos. Numbers and
    single letters must be the same, in the same order. A typo is an inserted, deleted, substituted or transposed
    letter: one in words of at least five letters, two from fourteen on. A word's first letter (its first two, if it may
    have two typos) must match.
    """
    left = [_HEADS.get(word, word) for word in span if word not in _LIGHT]
    right = [_HEADS.get(word, word) for word in name if word not in _LIGHT]
    if set(left) <= {"disease"} or _signs(left) == left or len(left) != len(right) or len(left) > _MAX_WORDS:
        return 0.0
    if _signs(left) != _signs(right):
        return 0.0
    slips = 0
    for word in left:
        if word in right:
            right.remove(word)
            continue
        allowed = 0 if word in vocabulary else _allowed(word)
        best = min(((_slips(word, other, allowed), other) for other in right), default=(1, ""))
        if best[0] > allowed:
            return 0.0
        slips += best[0]
        right.remove(best[1])
    return 1.0 - slips / sum(map(len, left))


def _signs(words: Sequence[str]) -> list[str]:
    return [word for word in words if len(word) == 1 or word.isdigit()]


def _slips(word: str, other: str, most: int) -> int:
    """Return the number of typos.

    Returns ``most`` + 1 also for opposites, and for words that begin differently: typos are rare there and stems
    differ.
    """
    begins = 2 if most > 1 else 1
    if is_contrary(word, other) or (word[:begins] != other[:begins] and word[1::-1] != other[:2]):
        return most + 1
    return slip_count(word, other, most)


def is_contrary(word: str, other: str) -> bool:
    """Return True if two words differ by a meaningful letter instead of a typo.

    Such pairs are "macro-" and "micro-", "typical" and "atypical", "-emic" and "-emia", or salts ("nitrate",
    "nitrite").
    """
    if any(
        (word.startswith(one) and other.startswith(two)) or (word.startswith(two) and other.startswith(one))
        for one, two in _CONTRARY
    ):
        return True
    shorter, longer = sorted((word, other), key=len)
    if longer == f"a{shorter}" and shorter[0] != "a" and shorter.endswith(_DENIABLE):
        return True
    if word[:-1] == other[:-1] and {word[-1], other[-1]} == {"a", "c"}:
        return True
    ends = [_CHEMICAL.search(one) for one in (word, other)]
    stems = {one[: end.start()] for one, end in zip((word, other), ends, strict=True) if end}
    return all(ends) and len(stems) == 1 and word != other


def _allowed(word: str) -> int:
    if not word.isalpha() or len(word) < _LEAST_SLIP:
        return 0
    return 2 if len(word) >= _TWO_SLIPS else 1


def slip_count(one: str, other: str, most: int) -> int:
    """Return the edit distance with adjacent transpositions, or ``most`` + 1 if it is larger."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        following = [i]
        for j, match in enumerate(other, 1):
            cost = min(row[j] + 1, following[j - 1] + 1, row[j - 1] + (letter != match))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == match:
                cost = min(cost, before[j - 2] + 1)
            following.append(cost)
        before, row = row, following
    return min(row[-1], most + 1)
