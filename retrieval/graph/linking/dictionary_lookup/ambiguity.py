"""Decide whether a name in a text is meant: "set" is a word, SET a gene, and "MS" in "MS degree" no disease."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from retrieval.graph.linking.dictionary_lookup.names import ALIAS, COMPACT, SYMBOL, is_english
from retrieval.graph.linking.dictionary_lookup.normalize import Token, fold, words_as_folded


def _table(text: str) -> dict[str, frozenset[str]]:
    rows = (line.partition(":") for line in text.strip().splitlines())
    return {word.strip(): words_as_folded(others) for word, _, others in rows}


def _names(text: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(fold(name)) for name in text.split(";"))


# Function words and their like. Not even "gene" before one makes it a name, only its own capitals do.
_FUNCTION: Final = words_as_folded(
    """
    a about after all also am an and any are as at be been but by can did do does for from get give given gives
    go got had has have he her here him his how i if in into is it its just let list many may me more most much
    must my name names no none nor not of off on one only or other our out over own pe per same say see she so
    some such than that the their them then there these they this those to too two under up us use used very was
    we well were what when where which while who whom whose why will with within without would yes you your true
    false least less between both each every either associated associates association treats treat treated
    causes cause prevent prevents cure cures diagnose affect affects help helps happens explain describe compare
    versus vs risk related linked commonly question answer options option following type group class form stage
    known involved called found show shows
    """
)
# Words of a question that name the requested kind of node, not a node.
_KIND_WORDS: Final = words_as_folded(
    """
    gene protein variant compound drug medication medicine chemical anatomy tissue organ symptom pathway cell
    type organism reaction side effect patient human treatment therapy association name identifier doid food
    nutrient process function component phenotype location evidence
    """
)
_ARTICLES: Final = ("a", "an")
_GENERIC: Final = _names(
    "disease; disorder; syndrome; cancer; tumor; neoplasm; infection; disability; condition; illness; malignancy; "
    "carcinoma; deficiency; abnormality; injury; inflammation; disease or disorder"
)
# Prefixes that change a name, mostly into its opposite.
_DENYING: Final = frozenset(("non", "pre", "pseudo"))
_LIKENING: Final = "like"
_HYPHENS: Final = frozenset("-‐‑–")
_WORD_BEFORE: Final = re.compile(r"(\w+)[-\s]$")
_LEAST_SYMBOL: Final = 3
_MOST_SYMBOL: Final = 10
_LEAST_SENTENCE: Final = 5
_MOST_COMPACT: Final = 5
# Words of medical texts; one near a name decides that it is meant medically.
_CUES: Final = words_as_folded(
    """
    treat treats treated treating treatment treatments drug drugs medicine medicines medication medications therapy
    therapies therapeutic gene genes genetic genetics risk symptom symptoms sign patient patients cure cures cured
    curable diagnose diagnosed diagnosis disease diseases disorder disorders syndrome illness doctor doctors physician
    nurse clinic clinical hospital prevent prevents prevention suffer suffers suffering contagious hereditary inherit
    inherited infect infected infection infections infectious virus vaccine vaccines vaccination dose doses trial trials
    protein proteins mutation mutations variant variants chronic acute recover recovery relapse relapses relapsing
    survival mortality prognosis biopsy tumor tumour cancer pain fever rash onset prevalence incidence biomarker
    biomarkers antibody antibodies biologic biologics remission surgery pregnancy pregnant elderly antidepressant
    antidepressants comorbid comorbidity tablets pill pills pathogenesis progression disability inflammation enzyme
    enzymes liver kidney heart brain lung blood bleeding prescribed approved complication complications immune
    associated susceptibility allele alleles locus loci families medical cells tissue receptor side effects
    """
)
# Words right before and right after a name that give it another meaning.
_NOT_BEFORE: Final = _table(
    """
    stroke: swim swims breast butterfly swimming brush pen key master back
    depression: great economic tropical
    shock: culture price oil sticker electric
    cancer: star constellation
    fever: gold dance cabin spring election football rush night
    ms: hons bachelor
    lupus: canis
    mercury: planet
    aids: hearing visual band training teaching
    head: section department deputy
    """
)
_NOT_AFTER: Final = _table(
    """
    ms: degree word office excel access windows powerpoint outlook thesis student program programme dos queen teams
    pe: teacher class lesson ratio kit
    cad: software drawing file program designer tool tools model models
    ad: campaign agency blocker revenue spend
    aaa: battery batteries torch rating game games credit
    uc: berkeley davis irvine san los santa merced riverside
    hd: tv television video screen display drive camera
    cf: card cards
    oa: journal publishing
    ra: dorm dormitory position
    pd: detective arrested
    mm: lens film
    chf: francs per
    sma: connector cable
    pad: thai printer
    stroke: of width count order key
    depression: era over
    shock: wave absorber
    plague: of
    paralysis: of
    pile: of
    gist: of
    head: teacher office coach chef quarters quarter start
    measle: flower
    """
)
# Words near a name with a capital, as of a constellation; a lump may be "a sign of cancer".
_NOT_NEAR_A_NAME: Final = {"cancer": words_as_folded("sign signs born star stars moon")}
_REACH: Final = 8
_SHORT_QUESTION: Final = 4
_LEAST_SURE: Final = 3


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Represent a window of tokens of a text, ``first`` up to ``last`` - 1.

    ``all_caps``: the text has no lower-case letter.
    """

    text: str
    tokens: list[Token]
    first: int
    last: int
    all_caps: bool

    @property
    def start(self) -> int:
        return self.tokens[self.first].start

    @property
    def end(self) -> int:
        return self.tokens[self.last - 1].end

    @property
    def raw(self) -> str:
        return self.text[self.start : self.end]

    @property
    def folded(self) -> tuple[str, ...]:
        return tuple(token.text for token in self.tokens[self.first : self.last])

    @property
    def letters(self) -> int:
        """Return the number of characters of the tokens, without separators."""
        return sum(token.end - token.start for token in self.tokens[self.first : self.last])

    def before(self) -> str:
        return self.tokens[self.first - 1].text if self.first else ""

    def after(self) -> str:
        return self.tokens[self.last].text if self.last < len(self.tokens) else ""


def name_flags(name: str) -> int:
    """Return the SYMBOL and COMPACT flags of a name.

    SYMBOL: one word of at most ten characters with a digit or a capital after its first letter. COMPACT: at most five
    characters.
    """
    if len(name) > _MOST_SYMBOL or any(c.isspace() for c in name):
        return 0
    compact = COMPACT if len(name) <= _MOST_COMPACT else 0
    inner = any(c.isupper() or c.isdigit() for c in name[1:])
    return compact | (SYMBOL if inner else 0)


def is_whole(stretch: TokenSpan) -> bool:
    """Return True if the window begins and ends at word boundaries: "DNMT3" is not in "DNMT3A"."""
    tokens, first, last = stretch.tokens, stretch.first, stretch.last
    if first and tokens[first - 1].end >= tokens[first].start:
        return False
    return last == len(tokens) or tokens[last].start >= tokens[last - 1].end + 1


def is_negated(stretch: TokenSpan) -> bool:
    """Return True if the window is only part of another name: "non-Hodgkin lymphoma", "insulin-like growth factor"."""
    text, tokens, first, last = stretch.text, stretch.tokens, stretch.first, stretch.last
    if stretch.before() in _DENYING and not text[tokens[first - 1].end : stretch.start].strip("-‐‑– "):
        return True
    return stretch.after() == _LIKENING and text[stretch.end : tokens[last].start] in _HYPHENS


def is_kind_word(folded: tuple[str, ...]) -> bool:
    return all(word in _KIND_WORDS for word in folded)


def is_function_word(word: str) -> bool:
    return word in _FUNCTION


def is_modified(text: str, start: int) -> bool:
    """Return True if a content word directly precedes ``start``."""
    word = _WORD_BEFORE.search(text[max(0, start - 40) : start])
    return word is not None and word[1].casefold() not in _FUNCTION | _KIND_WORDS


def is_generic(folded: tuple[str, ...]) -> bool:
    return folded in _GENERIC


def is_meant(stretch: TokenSpan, flags: int, same_case: bool) -> bool:
    """Return True if the window means a name with these ``flags``.

    ``same_case``: the window is spelled exactly as the name, letter case included.
    """
    raw = stretch.raw
    if flags & COMPACT and any(c.isspace() for c in raw):
        return False
    word = raw.casefold()
    by_capitals = same_case and not stretch.all_caps and sum(c.isupper() for c in raw) > 1
    if word in _FUNCTION or all(part.isdigit() for part in stretch.folded):
        return by_capitals
    if len(word) == 1:
        return False
    if not flags & SYMBOL:
        return True
    # "gibt" in a German sentence is a word of it.
    if raw.islower() and word.isalpha() and is_foreign(stretch):
        return False
    # "Rest" and "SELL": only capitals make an English word a symbol.
    if word.isalpha() and is_english(word):
        return by_capitals
    if flags & ALIAS:
        odd = len(word) > _LEAST_SYMBOL or any(c.isdigit() for c in word)
        return same_case or odd
    if len(word) < _LEAST_SYMBOL:
        return same_case and not stretch.all_caps
    return True


def is_foreign(stretch: TokenSpan) -> bool:
    """Return True if hardly a word of a sentence is one of those that every English sentence has."""
    known = sum(token.text in _FUNCTION for token in stretch.tokens)
    return len(stretch.tokens) >= _LEAST_SENTENCE and known * _LEAST_SENTENCE < len(stretch.tokens)


def is_false_friend(stretch: TokenSpan) -> bool:
    """Return True if the words right beside the span give it another meaning."""
    words = stretch.folded
    if len(words) != 1:
        return False
    word = words[0]
    before, after = stretch.before(), stretch.after()
    if before in _NOT_BEFORE.get(word, ()) or after in _NOT_AFTER.get(word, ()):
        return True
    others = _NOT_NEAR_A_NAME.get(word, frozenset())
    return stretch.raw[:1].isupper() and not others.isdisjoint(_near(stretch))


def is_medical(stretch: TokenSpan) -> bool:
    """Return True if a word within eight of the span is one of medical texts."""
    return any(word in _CUES for word in _near(stretch))


def is_abbreviation_meant(stretch: TokenSpan) -> bool:
    """Return True if a disease's abbreviation of two or three letters is meant.

    In small letters it needs a medical word near it, and no article before it ("an ad for drugs"). Two capitals need
    one outside questions.
    """
    raw = stretch.raw
    if not any(c.isupper() for c in raw):
        before = stretch.before()
        return before not in _ARTICLES and not before.isdigit() and is_medical(stretch)
    if len(raw) >= _LEAST_SURE or is_medical(stretch):
        return True
    return "?" in stretch.text[stretch.end :] or len(stretch.tokens) <= _SHORT_QUESTION


def _near(stretch: TokenSpan) -> Iterator[str]:
    tokens = stretch.tokens
    for place in range(max(0, stretch.first - _REACH), min(len(tokens), stretch.last + _REACH)):
        if not stretch.first <= place < stretch.last:
            yield tokens[place].text
