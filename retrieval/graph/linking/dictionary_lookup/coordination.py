"""Complete the names of a coordination: breast cancer of "breast and ovarian cancer", type 1 diabetes of "type 1 or 2".

Each completed name is a ``WordOrderVariant``: the positions of its own words, and all its words in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from retrieval.graph.linking.dictionary_lookup.normalize import Token, WordOrderVariant, gap_before

_AND: Final = frozenset(("and", "or"))
_MOST_SHARED: Final = 3
_MOST_AROUND: Final = 5
_MOST_MARKERS: Final = 8
_MOST_LISTS: Final = 64


def shared_endings(
    text: str, tokens: Sequence[Token], first: int, name: Sequence[str], *, in_list: bool = False
) -> Iterator[WordOrderVariant]:
    """Yield the words before an "and", "or" or slash that precedes a name, each completed with an ending of the name.

    The name, ``name``, or the item of a list that it completes, begins at ``first``. For "ovarian cancer" in "breast
    and ovarian cancer", yields "breast" with ``folded`` breast cancer. The positions are those of the preceding words
    alone. ``in_list``: a comma separates items as well.
    """
    end = _item_end(text, tokens, first, in_list=in_list)
    for begin in range(end - 1, max(-1, end - 1 - _MOST_SHARED), -1):
        if begin < end - 1 and gap_before(text, tokens, begin + 1).strip(" -"):
            return
        for cut in range(1, len(name)):
            words = (*(token.text for token in tokens[begin:end]), *name[cut:])
            yield WordOrderVariant(begin, end, words)


def _item_end(text: str, tokens: Sequence[Token], first: int, *, in_list: bool) -> int:
    """Return the end of the item before ``first``, 0 for none."""
    if not first:
        return 0
    if tokens[first - 1].text in _AND:
        return first - 1
    sign = gap_before(text, tokens, first).strip()
    return first if sign == "/" or (in_list and sign == ",") else 0


def numbered_items(text: str, tokens: Sequence[Token]) -> Iterator[WordOrderVariant]:
    """Yield the names of lists of numbers or letters: "type 1 or 2 diabetes", "hepatitis A, B and C", "BRCA1/2".

    Up to five words on each side complete an item. The first item has the words before it as its own, the last one
    those after it.
    """
    for markers in list(_marker_lists(text, tokens))[:_MOST_LISTS]:
        left, right = _before(text, tokens, markers[0][0]), _after(text, tokens, markers[-1][1])
        for number, (first, last) in enumerate(markers):
            is_first, is_last = number == 0, number == len(markers) - 1
            for begin in range(markers[0][0], left - 1, -1):
                for end in range(markers[-1][1], right + 1):
                    before, after = tokens[begin : markers[0][0]], tokens[markers[-1][1] : end]
                    # As they stand, the first item's words before it and the last one's after it make no list.
                    if not (after if is_first else before or (after and not is_last)):
                        continue
                    words = (*before, *tokens[first:last], *after)
                    yield WordOrderVariant(
                        begin if is_first else first, end if is_last else last, tuple(word.text for word in words)
                    )


def _marker_lists(text: str, tokens: Sequence[Token]) -> Iterator[list[tuple[int, int]]]:
    position = 0
    while position < len(tokens):
        items = _list_at(text, tokens, position)
        if len(items) > 1 and _is_alike(text, tokens, items):
            yield items
        position = items[-1][1] if items else position + 1


def _list_at(text: str, tokens: Sequence[Token], position: int) -> list[tuple[int, int]]:
    items: list[tuple[int, int]] = []
    while (end := _marker_end(text, tokens, position)) and len(items) < _MOST_MARKERS:
        items.append((position, end))
        position = _next_item(text, tokens, end)
        if not position:
            break
    return items


def _marker_end(text: str, tokens: Sequence[Token], position: int) -> int:
    """Return the end of the number or letter at ``position`` (1, 2A, B), 0 for none."""
    if position >= len(tokens) or not (tokens[position].text.isdigit() or len(tokens[position].text) == 1):
        return 0
    end = position + 1
    while end < len(tokens) and not gap_before(text, tokens, end):
        if len(tokens[end].text) > 1 or end - position > 1:
            return 0
        end += 1
    return end


def _next_item(text: str, tokens: Sequence[Token], end: int) -> int:
    """Return where the item after a separator begins, 0 for no separator."""
    if end >= len(tokens):
        return 0
    sign = gap_before(text, tokens, end).strip()
    if tokens[end].text in _AND and sign in ("", ","):
        return end + 1
    return end if sign in (",", "/", "&") else 0


def _is_alike(text: str, tokens: Sequence[Token], items: Sequence[tuple[int, int]]) -> bool:
    """Return True unless letters differ in case: the second "a" of "hepatitis B or a cold" is an article."""
    written = [text[tokens[first].start : tokens[first].end] for first, _ in items]
    letters = [mark for mark in written if mark.isalpha()]
    return len({mark.isupper() for mark in letters}) < 2


def _before(text: str, tokens: Sequence[Token], first: int) -> int:
    begin = first
    while begin and first - begin < _MOST_AROUND and not gap_before(text, tokens, begin).strip(" -,"):
        begin -= 1
    return begin


def _after(text: str, tokens: Sequence[Token], last: int) -> int:
    end = last
    while end < len(tokens) and end - last < _MOST_AROUND and not gap_before(text, tokens, end).strip(" -"):
        end += 1
    return end
