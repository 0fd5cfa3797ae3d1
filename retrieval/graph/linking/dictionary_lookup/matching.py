"""Match the names and identifiers of a graph to the tokens of a text, and complete the names of a coordination.

``dictionary`` selects among the matches. A coordination gives breast cancer of "breast and ovarian cancer" and type 1
diabetes of "type 1 or 2"; each completed name is a ``WordOrderVariant``: the positions of its own words, and all its
words in order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from retrieval.graph.linking.dictionary_lookup.ambiguity import (
    TokenSpan,
    is_abbreviation_meant,
    is_function_word,
    is_kind_word,
    is_meant,
    is_negated,
    is_whole,
)
from retrieval.graph.linking.dictionary_lookup.names import ALIAS, CLAIM, SYMBOL, SYNONYM, VARIANT, NameTable, Posting
from retrieval.graph.linking.dictionary_lookup.normalize import (
    Token,
    WordOrderVariant,
    gap_before,
    hash_text,
    hash_tokens,
    inversions,
    surface,
    window_hashes,
)
from retrieval.graph.types import GraphStore, Mention, Node

_AND: Final = frozenset(("and", "or"))
_MOST_SHARED: Final = 3
_MOST_AROUND: Final = 5
_MOST_MARKERS: Final = 8
_MOST_LISTS: Final = 64
# The last group of each is the number or code; the prefix of the first form belongs to the identifier.
_PREFIXED: Final = re.compile(
    r"\b(DOID|MONDO|OMIM|MIM|HP|UBERON|GO|CL|CHEBI|ORPHANET|ORPHA|EFO|MESH|UMLS|NCIT|HGNC|PUBCHEM)"
    r"\s?[:_]\s?([A-Z]?\d{1,12})\b",
    re.IGNORECASE,
)
_GENE_NUMBER: Final = re.compile(
    r"\b(?:NCBI\s?Gene|Entrez(?:\s?Gene)?|Gene\s?ID)(?:\s?ID)?\s?[:#]?\s?(\d{1,12})\b", re.IGNORECASE
)
_BARE: Final = re.compile(r"\b(rs\d{1,12}|DB\d{5}|CHEMBL\d{1,10}|ENSG\d{11}|R-HSA-\d{1,10}|hsa\d{5})\b", re.IGNORECASE)
_MAX_FOUND: Final = 32
_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "HP": ("HP", "HPO"),
    "MIM": ("OMIM", "MIM"),
    "ORPHA": ("ORPHA", "ORPHANET"),
}
_SOURCES: Final[Mapping[str, str]] = {"DB": "DrugBank", "R-HSA": "REACTOME"}
# Kinds whose names are ordinary words in their ordinary sense, as "depression" is; the gene or compound "lead" is not.
_CLINICAL: Final = ("disease", "phenotype", "symptom", "effect")
# Limit on the nodes examined for one name; in graphs of many organisms a protein's name has thousands.
_MAX_POSTINGS: Final = 1_024
# Limit on the mentions whose words before an "and" are examined.
_MAX_SHARED: Final = 64
Kinds = frozenset[str] | None


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


def are_joined(one: TokenSpan, other: TokenSpan) -> bool:
    """Return True if an "and" or "or" alone stands between two windows."""
    first, second = sorted((one, other), key=lambda stretch: stretch.first)
    between = first.tokens[first.last : second.first]
    return bool(between) and all(token.text in _AND for token in between)


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


@dataclass(frozen=True, slots=True)
class IdentifierFinder:
    """Query the store for each form of an identifier, in each of ``kinds``, for at most 32 identifiers a text."""

    store: GraphStore
    kinds: tuple[str, ...]

    def find(self, text: str, kinds: frozenset[str] | None = None) -> list[Mention]:
        """Return mentions of the identifiers that the graph has, in the text's order."""
        allowed = [kind for kind in self.kinds if kinds is None or kind in kinds]
        found: list[Mention] = []
        for number, (start, end, forms, only) in enumerate(sorted(_identifiers(text))):
            if number == _MAX_FOUND:
                break
            node = self._node(forms, [kind for kind in allowed if not only or kind.casefold() in only])
            if node is not None:
                found.append(Mention(node=node, start=start, end=end, method="exact"))
        return found

    def _node(self, forms: tuple[str, ...], kinds: list[str]) -> Node | None:
        for kind in kinds:
            for form in forms:
                node = self.store.node(f"{kind}::{form}")
                if node is not None:
                    return node
        return None


def _identifiers(text: str) -> Iterator[tuple[int, int, tuple[str, ...], tuple[str, ...]]]:
    """Yield (start, end, forms of the identifier, its possible kinds in lower case or none for all)."""
    for match in _PREFIXED.finditer(text):
        prefix, code = match[1].upper(), match[2].upper()
        prefixes = _PREFIXES.get(prefix, (prefix,))
        codes = (code, code.zfill(7), code.lstrip("0") or "0") if code.isdigit() else (code,)
        forms = [f"{one}{sign}{number}" for one in prefixes for sign in ":_" for number in codes]
        yield match.start(), match.end(), tuple(dict.fromkeys(forms)), ()
    for match in _GENE_NUMBER.finditer(text):
        yield (
            match.start(),
            match.end(),
            (match[1], f"NCBIGene:{match[1]}", f"NCBI:{match[1]}"),
            ("gene", "gene/protein", "protein"),
        )
    for match in _BARE.finditer(text):
        code = match[1]
        if code[0] in "rR" and code[1] == "-":
            forms = [code.upper()]
        else:
            forms = [code.lower() if code[:2].lower() in ("rs", "hs") else code.upper()]
        # PrimeKG prefixes the source.
        forms += [f"{source}:{forms[0]}" for start, source in _SOURCES.items() if forms[0].startswith(start)]
        yield match.start(), match.end(), tuple(forms), ()


class Candidate(NamedTuple):
    """Pair a span of tokens with the name that it matches; ``tied`` is True if another node matches equally well."""

    stretch: TokenSpan
    posting: Posting
    tied: bool


@dataclass(frozen=True, slots=True)
class Matcher:
    """Match names to spans of tokens.

    ``kind_ranks``: preference by a kind's code; ``kind_words``: code by the kind's name in a text.
    """

    table: NameTable
    kind_ranks: tuple[int, ...]
    kind_words: dict[str, int]

    def candidates(self, text: str, tokens: list[Token], kinds: Kinds) -> Iterator[Candidate]:
        """Yield every plausible name, including overlapping ones."""
        yield from self.within(text, tokens, range(len(tokens)), kinds)
        yield from self.inverted(text, tokens, kinds)
        yield from self._known(text, tokens, numbered_items(text, tokens), kinds, all_caps=False, anything=True)

    def within(self, text: str, tokens: list[Token], positions: range, kinds: Kinds) -> Iterator[Candidate]:
        """Yield the candidates whose words are contiguous at ``positions``."""
        all_caps = text.upper() == text
        part = [token.text for token in tokens[positions.start : positions.stop]]
        for length, hashes in window_hashes(part, self.table.longest):
            firsts, lasts = self.table.ranges(hashes)
            for offset in np.nonzero(lasts > firsts)[0].tolist():
                stretch = TokenSpan(text, tokens, positions.start + offset, positions.start + offset + length, all_caps)
                if not _stands_alone(stretch) or is_kind_word(stretch.folded):
                    continue
                found = self.best(stretch, int(firsts[offset]), int(lasts[offset]), kinds)
                if found is not None:
                    yield found

    def inverted(self, text: str, tokens: list[Token], kinds: Kinds) -> Iterator[Candidate]:
        return self._known(text, tokens, inversions(text, tokens), kinds, text.upper() == text)

    def shared(
        self,
        text: str,
        tokens: list[Token],
        heads: list[tuple[int, int]],
        used_spans: list[tuple[int, int]],
        kinds: Kinds,
    ) -> Iterator[Candidate]:
        """Yield the first names of "breast, ovarian and prostate cancer" if the last one is among ``heads``.

        ``heads`` and ``used_spans``: positions of tokens, first and last + 1. ``used_spans`` grows by what is found.
        """
        for begin, end in heads[:_MAX_SHARED]:
            first, in_list = begin, False
            name = tuple(token.text for token in tokens[begin:end])
            while parts := list(shared_endings(text, tokens, first, name, in_list=in_list)):
                found = self._completed(text, tokens, parts, used_spans, kinds)
                # An item that the graph lacks does not end the list.
                first, in_list = found.stretch.first if found else parts[0].first, True
                if found is not None:
                    used_spans.append((found.stretch.first, found.stretch.last))
                    yield found

    def _completed(
        self,
        text: str,
        tokens: list[Token],
        parts: list[WordOrderVariant],
        used_spans: list[tuple[int, int]],
        kinds: Kinds,
    ) -> Candidate | None:
        free = [part for part in parts if not any(part.first < end and start < part.last for start, end in used_spans)]
        return max(
            self._known(text, tokens, free, kinds, all_caps=False),
            key=lambda candidate: candidate.stretch.letters,
            default=None,
        )

    def _known(
        self,
        text: str,
        tokens: list[Token],
        parts: Iterable[WordOrderVariant],
        kinds: Kinds,
        all_caps: bool,
        anything: bool = False,
    ) -> Iterator[Candidate]:
        parts = list(parts)
        firsts, lasts = self.table.ranges(np.array([hash_tokens(part.folded) for part in parts], np.uint64))
        for index in np.nonzero(lasts > firsts)[0].tolist():
            stretch = TokenSpan(text, tokens, parts[index].first, parts[index].last, all_caps)
            if not _stands_alone(stretch):
                continue
            found = self.best(stretch, int(firsts[index]), int(lasts[index]), kinds, anything=anything)
            if found is not None:
                yield found

    def best(
        self, stretch: TokenSpan, first: int, last: int, kinds: Kinds, *, anything: bool = False
    ) -> Candidate | None:
        """Return the best of the table's rows ``first`` up to ``last`` - 1.

        With ``anything``, its words alone make a row match.
        """
        raw = stretch.raw
        cased_hash, surface_hash = hash_text(unicodedata.normalize("NFKC", raw)), hash_text(surface(raw))
        after_gene = stretch.before() == "gene"
        cue = self.kind_words.get(stretch.before(), -1)
        ranked: list[tuple[tuple[int, ...], Posting]] = []
        for posting in self.table.postings(first, min(last, first + _MAX_POSTINGS)):
            if kinds is not None and self.table.kind_names[posting.kind] not in kinds:
                continue
            # "Gene NF1" is not the disease of that abbreviation.
            if posting.flags & SYMBOL and after_gene and "gene" not in self.table.kind_names[posting.kind].casefold():
                continue
            same_case = posting.cased == cased_hash
            if anything or is_meant(stretch, posting.flags, same_case) or self._is_small(stretch, posting):
                rank = (
                    int(posting.node >= self.table.nodes_known),
                    int(posting.kind != cue) if cue >= 0 else 0,
                    int(not same_case) if posting.flags & SYMBOL else int(posting.written != surface_hash),
                    posting.flags & VARIANT,
                    bool(posting.flags & ALIAS) + 2 * bool(posting.flags & SYNONYM) + 4 * bool(posting.flags & CLAIM),
                    int(not same_case),
                )
                ranked.append(((*rank, self.kind_ranks[posting.kind], posting.node), posting))
        if not ranked:
            return None
        ranked.sort()
        best, posting = ranked[0]
        tied = any(rank[:-2] == best[:-2] and other.node != posting.node for rank, other in ranked[1:])
        return Candidate(stretch, posting, tied)

    def is_clinical(self, posting: Posting) -> bool:
        """Return True for a disease, a symptom and their like."""
        kind = self.table.kind_names[posting.kind].casefold()
        return any(name in kind for name in _CLINICAL)

    def _is_small(self, stretch: TokenSpan, posting: Posting) -> bool:
        """Return True for a disease's abbreviation that is written in small letters, in a medical context."""
        raw = stretch.raw
        if not posting.flags & SYMBOL or not (raw.islower() and raw.isalpha()) or not self.is_clinical(posting):
            return False
        if posting.flags & ALIAS and posting.flags & (SYNONYM | CLAIM):
            return False
        return not is_function_word(raw) and is_abbreviation_meant(stretch)


def _stands_alone(stretch: TokenSpan) -> bool:
    return is_whole(stretch) and not is_negated(stretch)
