"""Find the names of a graph in a text: the longest ones, without overlaps, in microseconds and without a model.

Beside the graph's own names there are shipped tables of abbreviations, brand names, everyday, old and eponymous names
of drugs and diseases, this project's own compilation of facts (``words/abbreviations.txt``, ``words/drugs.txt``,
``words/diseases.txt``). A name of them is used only if the graph has one of its targets, tried in order; one whose
targets are all absent is known, so that a step can say so, and no shorter name within it is taken for it. Short
abbreviations match in capitals only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Final

import numpy as np

from retrieval.graph.linking.dictionary_lookup.ambiguity import TokenSpan, is_generic, is_modified, name_flags
from retrieval.graph.linking.dictionary_lookup.candidate_filter import CandidateFilter
from retrieval.graph.linking.dictionary_lookup.matching import Candidate, IdentifierFinder, Matcher
from retrieval.graph.linking.dictionary_lookup.names import (
    ALIAS,
    COMPACT,
    SYMBOL,
    SYNONYM,
    VARIANT,
    NameTable,
    Posting,
    TableBuilder,
    build_vocabulary,
    is_english,
    is_indexable,
    ordinary_words,
)
from retrieval.graph.linking.dictionary_lookup.normalize import (
    Token,
    fold,
    hash_text,
    hash_tokens,
    surface,
    tokens_of,
    variants,
)
from retrieval.graph.linking.dictionary_lookup.spans import UnknownWord, filter_ambiguous, word_at
from retrieval.graph.linking.dictionary_lookup.spelling import (
    MAX_UNKNOWN,
    Speller,
    SpellingResult,
    WordBreaks,
    read_otherwise,
)
from retrieval.graph.types import GraphStore, Mention, NameOf, choices_start

MAX_TOKENS: Final = 4_000
# Preference among the kinds of an ambiguous name if the text does not name the kind.
_KIND_ORDER: Final = ("disease", "gene", "compound", "drug", "symptom", "phenotype", "pathway", "anatomy", "variant")
# Shorter words are symbols more often than typos.
_LEAST_UNKNOWN: Final = 4
_FOLDER: Final = "retrieval.graph.linking.dictionary_lookup"
_LONGEST: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedText:
    """Hold the result of reading a text.

    ``mentions`` in the text's order. ``unknown``: words that are in no name, not English, and outside all mentions.
    ``refused``: character ranges of names that were rejected as doubtful. ``notes``: these rejections, and corrections
    of spelling.
    """

    mentions: tuple[Mention, ...]
    unknown: tuple[UnknownWord, ...] = ()
    refused: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Find names in texts, from any thread; made by ``build_dictionary``."""

    store: GraphStore
    matcher: Matcher
    speller: Speller
    identifiers: IdentifierFinder = field(repr=False)
    absent: AbsentNames = field(repr=False)

    @property
    def table(self) -> NameTable:
        return self.matcher.table

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of the nodes that have a name."""
        return self.table.kind_names

    def is_ordinary(self, word: str) -> bool:
        """Return True for an English word, or a number, as ``fold`` normalizes its parts."""
        parts = fold(word)
        known = self.speller.english.has(parts)
        return all(part.isdigit() or has for part, has in zip(parts, known, strict=True))

    def find(self, text: str, kinds: frozenset[str] | None = None) -> tuple[Mention, ...]:
        """Return the mentions of ``read``."""
        return self.read(text, kinds).mentions

    def read(self, text: str, kinds: frozenset[str] | None = None) -> LinkedText:
        """Read a text, up to its first 4,000 tokens.

        A generic name ("disease") is found only if there is no other, and not if the word before it specifies it
        ("keratinocyte carcinoma" is no "carcinoma"). ``margin`` is 0.0 if several nodes have the name equally and the
        text does not decide. Answer options are read without spelling correction.
        """
        by_id = self.identifiers.find(text, kinds)
        written = tokens_of(text)[:MAX_TOKENS]
        tokens = WordBreaks(self.table, self.speller.names, self.speller.english).mend(text, written)
        id_spans = [(mention.start, mention.end) for mention in by_id]
        respelled = self.speller.read(text, tokens, [*id_spans, (choices_start(text), len(text))], kinds)
        candidates = [
            candidate
            for candidate in (*self.matcher.candidates(text, tokens, kinds), *respelled.candidates)
            if not any(candidate.stretch.start < end and start < candidate.stretch.end for start, end in id_spans)
        ]
        all_absent = list(self.absent.find(tokens))
        found = list(_longest([one for one in candidates if not _is_inside(one, all_absent)]))
        unknown = tuple(self._unknown(text, tokens, respelled, found))
        chosen, notes = self._accepted(text, found, unknown)
        heads = [*((one.stretch.first, one.stretch.last) for one in chosen), *((a.first, a.last) for a in all_absent)]
        used_spans = [(one.stretch.first, one.stretch.last) for one in chosen]
        shared = self.matcher.shared(text, respelled.tokens, heads, used_spans, kinds)
        chosen.extend([one for one in shared if self._stands(one, tokens, respelled)])
        absent = [one for one in all_absent if not any(_overlap(other, one) for other in found)]
        refused = [(one.stretch.start, one.stretch.end) for one in found if one not in chosen]
        spelled = {(one.stretch.start, one.stretch.end): _slips(one, tokens) for one in chosen}
        mentions = [_as_read(text, mention, spelled) for mention in self._mentions(chosen)]
        notes = [
            *_corrections(text, mentions),
            *_mended(text, written, tokens, mentions),
            *self._ties(respelled),
            *notes,
        ]
        notes += [note for one in absent if (note := _absence(text, one))]
        if respelled.left_out:
            notes.append(f"only the first {MAX_UNKNOWN} unknown words were looked at for slips of the pen")
        ordered = sorted(_specific(text, [*by_id, *mentions]), key=lambda mention: mention.start)
        return LinkedText(mentions=tuple(ordered), unknown=unknown, refused=tuple(refused), notes=tuple(notes))

    def _accepted(
        self, text: str, found: list[Candidate], unknown: tuple[UnknownWord, ...]
    ) -> tuple[list[Candidate], list[str]]:
        """Return the candidates that are meant and whole, and notes on the others."""
        candidate_filter = CandidateFilter(self.matcher, self.speller.english)
        meant = [one for one in found if not candidate_filter.is_another_word(one)]
        whole, notes = candidate_filter.whole_names(meant)
        chosen, more = filter_ambiguous(text, whole, unknown, self._is_word)
        return chosen, [*notes, *more]

    def broader(self, text: str, mention: Mention) -> Mention | None:
        """Return the longest other name with which the mention's own words begin or end.

        For "Fanconi anemia, complementation group D2" it is Fanconi anemia. Used for nodes too specific to have
        statements. Lay terms are excluded: the meaning of "diabetes" alone is not that of "diabetes insipidus".
        """
        part = text[mention.start : mention.end]
        tokens = tokens_of(part)
        inner = [
            candidate
            for candidate in self.matcher.candidates(part, tokens, frozenset({mention.node.kind}))
            if (candidate.stretch.first == 0) != (candidate.stretch.last == len(tokens))
            and not is_generic(candidate.stretch.folded)
            and not candidate.posting.flags & ALIAS
        ]
        found = next(self._mentions(_longest(inner)), None)
        if found is None or found.node.node_id == mention.node.node_id:
            return None
        return replace(found, start=found.start + mention.start, end=found.end + mention.start)

    def look_up(self, name: str, kinds: frozenset[str] | None = None) -> Mention | None:
        """Return the node that has the whole of ``name`` as a name, however short or generic."""
        tokens = tokens_of(name)
        if not tokens or len(tokens) > self.table.longest:
            return None
        key = np.array([hash_tokens([token.text for token in tokens])], np.uint64)
        firsts, lasts = self.table.ranges(key)
        stretch = TokenSpan(name, tokens, 0, len(tokens), all_caps=False)
        found = self.matcher.best(stretch, int(firsts[0]), int(lasts[0]), kinds, anything=True)
        return next(self._mentions([found] if found else []), None)

    def _unknown(
        self, text: str, tokens: list[Token], read: SpellingResult, chosen: list[Candidate]
    ) -> Iterator[UnknownWord]:
        covered = {position for one in chosen for position in range(one.stretch.first, one.stretch.last)}
        for position, slips in read.slips.items():
            if position in covered or len(tokens[position].text) < _LEAST_UNKNOWN:
                continue
            at = word_at(text, position, tokens[position])
            if position in read.ambiguous:
                yield UnknownWord(*at, why="ambiguous")
            elif near := slips[0].word if slips else self.speller.names.resembles(tokens[position].text):
                yield UnknownWord(*at, why="near", near=near)
            else:
                yield UnknownWord(*at, why="strange")

    def _is_word(self, candidate: Candidate) -> bool:
        words = candidate.stretch.folded
        is_one = len(words) == 1 and not self.matcher.is_clinical(candidate.posting)
        return is_one and self.speller.english.has(words)[0]

    def _stands(self, candidate: Candidate, tokens: list[Token], read: SpellingResult) -> bool:
        return not _slips(candidate, tokens) or self.speller.accepts(candidate, tokens, read.slips)

    def _ties(self, read: SpellingResult) -> Iterator[str]:
        for candidates in read.ambiguous.values():
            names = dict.fromkeys(mention.node.name for mention in self._mentions(candidates))
            yield f'"{candidates[0].stretch.raw}" may be {" or ".join(names)}; neither was taken'

    def _mentions(self, candidates: Iterable[Candidate]) -> Iterator[Mention]:
        for stretch, posting, tied in candidates:
            node = self.store.node(self.table.node_id(posting.node))
            if node is not None:
                method = "synonym" if posting.flags & (SYNONYM | ALIAS) else "exact"
                margin = 0.0 if tied else 1.0
                yield Mention(node=node, start=stretch.start, end=stretch.end, method=method, margin=margin)


def build_dictionary(store: GraphStore, kinds: Iterable[str] | None = None) -> Dictionary:
    """Build a dictionary from one streaming pass over ``store.names``.

    Costs about 25 µs and 60 bytes a name (see ``NameTable.nbytes``), and another 150 bytes a node while it builds.
    """
    builder = TableBuilder()
    common = common_names()
    waiting = {tuple(fold(target)): target for entry in common for target in entry.targets}
    targets: dict[str, tuple[int, Posting]] = {}
    vocabulary = {word for entry in common for word in fold(entry.name)}
    for name in store.names(kinds):
        posting = _posting(builder, name)
        sequences = variants(name.name)
        vocabulary.update(word for tokens in sequences[:1] for word in tokens if is_indexable(word))
        if not builder.counts(len(sequences[0]) if sequences else 0):
            continue
        for number, tokens in enumerate(sequences):
            flags = posting.flags | (VARIANT if number else 0)
            builder.add(hash_tokens(tokens), len(tokens), posting._replace(flags=flags))
            target = waiting.get(tokens)
            if target is not None:
                found = (2 * bool(number) + name.is_synonym, posting)
                targets[target] = min(targets.get(target, found), found)
    missing = _add_aliases(builder, targets, common)
    table = builder.finish()
    known = [kind.casefold() for kind in table.kind_names]
    ranks = tuple(_KIND_ORDER.index(kind) if kind in _KIND_ORDER else len(_KIND_ORDER) for kind in known)
    words = {" ".join(fold(kind)): code for code, kind in enumerate(table.kind_names)}
    matcher = Matcher(table, ranks, words)
    speller = Speller(matcher, build_vocabulary(vocabulary), ordinary_words())
    return Dictionary(store, matcher, speller, IdentifierFinder(store, table.kind_names), absent_names(missing))


def _posting(builder: TableBuilder, name: NameOf) -> Posting:
    flags = name_flags(name.name)
    # A short name of a gene is a symbol, however its letters are written.
    if flags & COMPACT and len(name.name) > 1 and "gene" in name.kind.casefold():
        flags |= SYMBOL
    return Posting(
        node=builder.node(name.node_id),
        written=hash_text(surface(name.name)),
        cased=hash_text(unicodedata.normalize("NFKC", name.name)),
        kind=builder.kind(name.kind),
        flags=flags | (SYNONYM if name.is_synonym else 0),
    )


def _add_aliases(
    builder: TableBuilder, targets: dict[str, tuple[int, Posting]], common: Iterable[CommonName]
) -> list[CommonName]:
    """Add the names of the shipped table whose target the graph has, and return the others."""
    folded = {tuple(fold(target)): found for target, found in targets.items()}
    missing: list[CommonName] = []
    for entry in common:
        found = next((folded[key] for key in map(tuple, map(fold, entry.targets)) if key in folded), None)
        if found is None:
            missing.append(entry)
            continue
        tokens = fold(entry.name)
        flags = ALIAS | (name_flags(entry.name) if entry.is_abbreviation else 0)
        builder.add(hash_tokens(tokens), len(tokens), _renamed(found[1], entry.name, flags))
    return missing


def _renamed(posting: Posting, name: str, flags: int) -> Posting:
    return posting._replace(
        written=hash_text(surface(name)), cased=hash_text(unicodedata.normalize("NFKC", name)), flags=flags
    )


def _specific(text: str, mentions: list[Mention]) -> list[Mention]:
    specific = [mention for mention in mentions if not is_generic(tuple(fold(text[mention.start : mention.end])))]
    return specific or [mention for mention in mentions if not is_modified(text, mention.start)]


def _longest(candidates: list[Candidate]) -> Iterator[Candidate]:
    """Yield non-overlapping candidates, preferring the one with the most letters and digits, then the first."""
    used: set[int] = set()
    for candidate in sorted(candidates, key=lambda found: (-found.stretch.letters, found.stretch.start)):
        positions = range(candidate.stretch.first, candidate.stretch.last)
        if used.isdisjoint(positions):
            used.update(positions)
            yield candidate


def _is_inside(candidate: Candidate, absent: Iterable[AbsentName]) -> bool:
    """Return True if the candidate is only part of a longer name that the graph does not have."""
    first, last = candidate.stretch.first, candidate.stretch.last
    return any(one.first <= first and last <= one.last and (one.first, one.last) != (first, last) for one in absent)


def _overlap(candidate: Candidate, absent: AbsentName) -> bool:
    return candidate.stretch.first < absent.last and absent.first < candidate.stretch.last


def _absence(text: str, absent: AbsentName) -> str:
    name = text[absent.start : absent.end]
    if tuple(fold(name)) == tuple(fold(absent.target)):
        return f'"{name}" names no node of the graph'
    return f'"{name}" is {absent.target}, of which the graph has no node'


def _mended(text: str, written: list[Token], tokens: list[Token], mentions: Iterable[Mention]) -> Iterator[str]:
    spans = [(mention.start, mention.end) for mention in mentions]
    for start, end, words in read_otherwise(text, written, tokens):
        if any(start < last and first < end for first, last in spans):
            yield f'"{text[start:end]}" was read as "{words}"'


def _slips(candidate: Candidate, tokens: list[Token]) -> int:
    stretch = candidate.stretch
    positions = range(stretch.first, stretch.last)
    return sum(stretch.tokens[p].text != tokens[p].text for p in positions if not stretch.tokens[p].text.isdigit())


def _as_read(text: str, mention: Mention, slips: Mapping[tuple[int, int], int]) -> Mention:
    number = slips[mention.start, mention.end]
    if not number:
        return mention
    letters = sum(c.isalnum() for c in text[mention.start : mention.end])
    return replace(mention, method="spelling", score=1.0 - number / letters)


def _corrections(text: str, mentions: Iterable[Mention]) -> Iterator[str]:
    for mention in mentions:
        if mention.method == "spelling":
            yield f'"{text[mention.start : mention.end]}" was read as {mention.node.name}'


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


def unusual_words(text: str) -> tuple[str, ...]:
    """Return the words that are not English in any form, once each and in order."""
    words = dict.fromkeys(re.findall(r"[^\W_](?:[\w'-]*\w)?", text))
    return tuple(word for word in words if not is_english(word))


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
