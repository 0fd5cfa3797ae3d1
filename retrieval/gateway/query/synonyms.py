"""Find the names of human genes in a text, and their synonyms in the gateway's store.

Genes are found by symbol, alias, full name and other designations. A name that means two genes has no synonyms.
"""

from __future__ import annotations

import logging
import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from models.errors import ArrowheadError
from models.function_words import FUNCTION_WORDS
from retrieval.formats.records import Gene
from retrieval.gateway.query.conditions import whole
from retrieval.gateway.store.reader import EDGE, PART, GatewayStore, decode, words_of
from retrieval.types import MAX_NAME_CHARS, NameInText, same

log = logging.getLogger(__name__)
MAX_NAMES: Final = 8
MAX_SYNONYMS: Final = 6
_MAX_READ: Final = 20
_MAX_LISTED: Final = 16
_MIN_CHARS: Final = 3
# Letters alone that two genes, or a gene and a disease, often share: aliases of this length are not looked for, and
# are names only beside a word such as "gene".
_SHORT_ALIAS: Final = 3
_SHORT_NAME: Final = 4
_MAX_WORDS: Final = 6  # of one name
_MAX_TEXT_WORDS: Final = 120  # the last ones of a text: a case description has its question at the end
_AT_ONCE: Final = 60  # phrases in one expression of the index, whose depth is bounded
_WORD: Final = re.compile(r"[^\s,;:!?()\[\]{}\"“”„/]+")
_AROUND: Final = ".'’‘*_"
_POSSESSIVE: Final = re.compile(r"['’]s$")
_BRACKETED: Final = re.compile(r"\(([^\W\d_]{2,})\)")
_GENE_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        "gene genes protein proteins mutation mutations mutant variant variants expression polymorphism polymorphisms "
        "allele alleles locus knockout transcript transcripts mrna promoter",
    )
)
# Letters that symbols use in place of Greek ones.
_GREEK: Final = {"alpha": "a", "beta": "b", "gamma": "g", "delta": "d", "epsilon": "e", "kappa": "k"}
_SPELLED: Final = re.compile(r"(\w[\s-]?)(" + "|".join(_GREEK) + ")")
_COLUMNS: Final = "sym alias name designation"
_Kind = Literal["symbol", "alias", "name"]


class StoreSynonyms:
    """Know the genes of the gateway's store, which is opened at the first look-up.

    Safe from many threads. A store that cannot be opened means that no name is known, which the log says once.
    """

    def __init__(self, open_store: Callable[[], GatewayStore], is_ordinary: Callable[[str], bool]) -> None:
        """Look names up in a store.

        ``is_ordinary``: whether English has the word in small letters, which is then no synonym.
        """
        self._open = open_store
        self.is_ordinary = is_ordinary
        self._store: GatewayStore | None = None
        self._failed = False
        self._lock = threading.Lock()

    def is_gene(self, name: str) -> bool:
        return self._gene_of(name) is not None

    def synonyms(self, name: str) -> tuple[str, ...]:
        """Return the symbol, aliases and name of the human gene that ``name`` means, () where that is in doubt."""
        gene = self._gene_of(name)
        if gene is None:
            return ()
        names = dict.fromkeys(one for one in (*self._symbols(gene), gene.name) if one and not same(one, name))
        return tuple(names)[:_MAX_LISTED]

    def named_in(self, text: str) -> tuple[NameInText, ...]:
        """Return the names that a text has, in its order, each with at most ``MAX_SYNONYMS`` synonyms.

        A symbol or alias is one in gene notation alone: with a digit, or in capitals in a text that is not.
        """
        spans = _places(text)
        records = self._records(spans)
        found: list[tuple[int, NameInText]] = []
        taken: set[int] = set()
        for span in sorted(spans, key=lambda one: (-one.size, one.first)):
            if taken.intersection(range(span.first, span.first + span.size)):
                continue
            synonyms = self._synonyms_of(span, records)
            if synonyms:
                taken.update(range(span.first, span.first + span.size))
                found.append((span.first, NameInText(span.text, synonyms[:MAX_SYNONYMS])))
        distinct: dict[str, NameInText] = {}
        for _, one in sorted(found, key=lambda pair: pair[0]):
            distinct.setdefault(_key(one.name), one)
        return tuple(distinct.values())[:MAX_NAMES]

    def _synonyms_of(self, span: _WordSpan, genes: Mapping[str, list[Gene]]) -> tuple[str, ...]:
        known = {one.gene_id: one for key in span.keys for one in genes.get(key, ())}
        gene = self._gene_at(span, list(known.values()))
        if gene is None:
            return ()
        return other_names(span.text, (gene.symbol, gene.official_symbol, gene.name, *self._own_aliases(gene)))

    def _gene_at(self, span: _WordSpan, genes: Sequence[Gene]) -> Gene | None:
        """Return the gene that a part of a text means, by the strongest kind of name that one gene alone has."""
        for kind in ("symbol", "alias", "name"):
            found = [gene for gene in genes if not span.keys.isdisjoint(map(_key, _names(gene, kind)))]
            if found:
                return found[0] if len(found) == 1 and self._may_be(span, kind) else None
        return None

    def _may_be(self, span: _WordSpan, kind: _Kind) -> bool:
        if kind == "name":
            return span.size > 1 or span.has_digit or not self.is_ordinary(span.text.lower())
        if span.in_notation:
            least = _MIN_CHARS if kind == "symbol" else _SHORT_NAME + (not span.has_digit)
            return len(span.key) >= least or (span.by_gene_word and len(span.key) >= _SHORT_NAME)
        is_word = self.is_ordinary(span.text.lower())
        return kind == "symbol" and span.is_lower and len(span.key) >= _SHORT_NAME and not is_word

    def _own_aliases(self, gene: Gene) -> list[str]:
        """Return the aliases that can be searched for: telling ones that no other gene has as symbol or alias."""
        telling = [
            alias
            for alias in gene.aliases
            if self._is_telling(alias) and not (alias.isalpha() and (len(alias) <= _SHORT_ALIAS or alias.islower()))
        ]
        shared = {
            _key(name)
            for one in self._find("sym alias", [words_of(alias) for alias in telling])
            if one.gene_id != gene.gene_id
            for name in (one.symbol, one.official_symbol, *one.aliases)
        }
        return [alias for alias in telling if _key(alias) not in shared]

    def _symbols(self, gene: Gene) -> list[str]:
        return [one for one in (gene.symbol, gene.official_symbol, *gene.aliases) if self._is_telling(one)]

    def _is_telling(self, symbol: str) -> bool:
        """Return whether an alias can be searched for: not a letter or two, and no word of English."""
        return len(symbol) >= _MIN_CHARS and not self.is_ordinary(symbol.lower())

    def _gene_of(self, name: str) -> Gene | None:
        """Return the gene whose symbol this is, else the only one that has it as an alias."""
        words = words_of(name)
        is_word = name.islower() and name.isalpha() and self.is_ordinary(name)
        if not words or len(name) > MAX_NAME_CHARS or is_word or {EDGE, PART}.intersection(words):
            return None
        genes = self._find("sym alias", [words])
        found = [gene for gene in genes if any(same(name, one) for one in (gene.symbol, *gene.aliases))]
        official = [gene for gene in found if same(name, gene.symbol)]
        return (official or found)[0] if len(official or found) == 1 else None

    def _records(self, spans: Sequence[_WordSpan]) -> dict[str, list[Gene]]:
        """Return the genes that have a name of a text, by the name's key."""
        phrases = list(dict.fromkeys(words for span in spans for words in span.spellings))
        found: dict[str, list[Gene]] = {}
        for gene in self._find(_COLUMNS, phrases):
            for key in {_key(name) for name in _all_names(gene)}:
                found.setdefault(key, []).append(gene)
        return found

    def _find(self, columns: str, phrases: Sequence[tuple[str, ...]]) -> list[Gene]:
        """Return the human genes that have one of these whole values."""
        store = self._opened() if phrases else None
        if store is None:
            return []
        sql = (
            "SELECT t.body FROM gene_index AS i JOIN gene AS t ON t.uid = i.rowid "
            f"WHERE i.gene_index MATCH ? AND t.human = 1 LIMIT {_MAX_READ * min(len(phrases), _AT_ONCE)}"
        )
        bodies: dict[bytes, None] = {}
        try:
            for first in range(0, len(phrases), _AT_ONCE):
                asked = " OR ".join(map(whole, phrases[first : first + _AT_ONCE]))
                bodies |= dict.fromkeys(body for (body,) in store.query(sql, (f"{{{columns}}} : ({asked})",)))
        except ArrowheadError as error:
            log.warning("names are not looked up: cause=%s", type(error).__name__)
            return []
        records = [decode("gene", body) for body in bodies]
        return [one for one in records if isinstance(one, Gene) and not one.status]

    def _opened(self) -> GatewayStore | None:
        with self._lock:
            if self._store is None and not self._failed:
                try:
                    self._store = self._open()
                except ArrowheadError as error:
                    self._failed = True
                    log.warning("names are not looked up: cause=%s", type(error).__name__)
            return self._store

    async def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None


@dataclass(frozen=True, slots=True)
class _WordSpan:
    """Hold one to ``_MAX_WORDS`` adjacent words of a text.

    ``in_notation``: written as a symbol is. ``by_gene_word``: a word such as "gene" stands before or after.
    """

    text: str
    first: int
    size: int
    in_notation: bool
    by_gene_word: bool

    @property
    def key(self) -> str:
        return _key(self.text)

    @property
    def keys(self) -> frozenset[str]:
        """Return the keys of its spellings: a symbol may have a Latin letter for a Greek one (TNF-α: TNFA)."""
        return frozenset((self.key, _key(_latin(self.text)))) if self.in_notation else frozenset((self.key,))

    @property
    def has_digit(self) -> bool:
        return any(char.isdigit() for char in self.key)

    @property
    def is_lower(self) -> bool:
        return self.size == 1 and self.text.islower() and self.text.isalpha()

    @property
    def spellings(self) -> Iterator[tuple[str, ...]]:
        """Yield the words of the spellings under which a store may have the name."""
        plain = _plain(self.text)
        yield from (words for text in (plain, plain.replace("-", " ")) if (words := words_of(text)))
        if self.in_notation:
            joined, latin = (re.sub(r"[\s-]", "", one) for one in (plain, _latin(self.text)))
            hyphenated = re.sub(r"\s", "-", plain)
            yield from (words for text in dict.fromkeys((joined, hyphenated, latin)) if (words := words_of(text)))


def _places(text: str) -> list[_WordSpan]:
    """Return the parts of a text that may be names."""
    words = [(found.start(), found.end(), found[0]) for found in _WORD.finditer(text)][-_MAX_TEXT_WORDS:]
    bare = [_POSSESSIVE.sub("", word.strip(_AROUND)) for _, _, word in words]
    # Letters in brackets abbreviate the words before them, which are looked for themselves.
    in_brackets = set(_BRACKETED.findall(text))
    out = []
    for first in range(len(words)):
        for size in range(1, min(_MAX_WORDS, len(words) - first) + 1):
            last = first + size - 1
            if size > 1 and (text[words[last - 1][1] : words[last][0]].strip() or words[last - 1][2].endswith(".")):
                break
            start, end = words[first][0], words[last][1]
            name = _POSSESSIVE.sub("", text[start:end].strip(_AROUND))
            is_abbreviation = name.isalpha() and name in in_brackets
            if _may_be_name(name, bare[first], bare[last]) and not is_abbreviation:
                around = {word.lower() for word in (*bare[max(first - 1, 0) : first], *bare[last + 1 : last + 2])}
                notation = _in_notation(bare[first : last + 1], text.isupper())
                out.append(_WordSpan(name, first, size, notation, bool(around & _GENE_WORDS)))
    return out


def _may_be_name(name: str, first: str, last: str) -> bool:
    if not 2 <= len(name) <= MAX_NAME_CHARS or {EDGE, PART}.intersection(words_of(name)) or not _key(name):
        return False
    return not any(word.lower() in FUNCTION_WORDS and not word.isupper() for word in (first, last))


def _in_notation(words: Sequence[str], shouted: bool) -> bool:
    """Return whether words are written as a symbol is: IL-6, p53, TNF-α, CAT; TNF alpha and IL 6 in two words."""
    first = words[0]
    if len(words) > 2 or not first or (len(words) == 2 and not _is_number_or_greek(words[1])):
        return False
    letters = [char for char in first if char.isalpha()]
    has_digit = any(char.isdigit() for word in words for char in word)
    capitals = sum(char.isupper() for char in letters)
    return bool(letters) and (has_digit or (not shouted and capitals >= 2 and capitals * 2 >= len(letters)))


def _is_number_or_greek(word: str) -> bool:
    return word.isdigit() or _plain(word) in _GREEK


def _plain(text: str) -> str:
    """Return a text in small letters, with the names of Greek letters and one form of hyphens."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(_letter(char) for char in folded)


def _latin(text: str) -> str:
    """Return a name in small letters with a Latin letter for each Greek one, also where that is spelled out."""
    return _SPELLED.sub(lambda found: found[1] + _GREEK[found[2]], _plain(text))


def _letter(char: str) -> str:
    if char.isascii():
        return char
    name = unicodedata.name(char, "")
    if name.startswith("GREEK SMALL LETTER "):
        return name.removeprefix("GREEK SMALL LETTER ").removeprefix("FINAL ").split()[0].lower()
    return "-" if unicodedata.category(char) == "Pd" else char


def _key(text: str) -> str:
    """Return what all spellings of a name share: its letters and digits."""
    return "".join(char for char in _plain(text) if char.isalnum())


def _names(gene: Gene, kind: _Kind) -> tuple[str, ...]:
    match kind:
        case "symbol":
            return tuple(filter(None, (gene.symbol, gene.official_symbol)))
        case "alias":
            return gene.aliases
        case "name":
            return (gene.name, *gene.designations)


def _all_names(gene: Gene) -> tuple[str, ...]:
    return (gene.symbol, gene.official_symbol, *gene.aliases, gene.name, *gene.designations)


def _word_set(name: str) -> frozenset[str]:
    """Return the words of a name without the s of plurals and possessives."""
    words = words_of(_plain(name).replace("-", " "))
    return frozenset(word.removesuffix("'s").removesuffix("s") for word in words)


def other_names(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that say something else than ``name``: not its words in another order or with more words."""
    own = _word_set(name)
    found: dict[str, str] = {}
    for one in names:
        words = _word_set(one)
        if words and not own <= words and _key(one) != _key(name):
            found.setdefault(" ".join(sorted(words)), one)
    return tuple(found.values())
