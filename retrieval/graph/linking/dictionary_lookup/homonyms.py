"""Decide by the words beside it whether a name that also means something else is meant: "MS" in "MS degree" is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from retrieval.graph.linking.dictionary_lookup.normalize import words_as_folded
from retrieval.graph.linking.dictionary_lookup.symbols import TokenSpan


def _table(text: str) -> dict[str, frozenset[str]]:
    rows = (line.partition(":") for line in text.strip().splitlines())
    return {word.strip(): words_as_folded(others) for word, _, others in rows}


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
# A name right after these is had, treated or feared, where an article may stand between.
_BEARING: Final = words_as_folded("have has had having develop develops developed against get gets got after")
_ARTICLES: Final = words_as_folded("a an the my your his her our their this that another new old")
# Words right before, right after and near a name that give it another meaning.
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
_NOT_NEAR: Final = _table(
    """
    cancer: zodiac horoscope astrology leo virgo taurus gemini capricorn
    depression: atlantic barometer economy economic barometric 1929
    stroke: luck swims swimming butterfly oar piston
    shingle: roof roofs beach cedar tiles
    hive: bee bees honey beekeeper
    thrush: bird birds nest song
    pile: wood laundry paper papers
    paralysis: traffic political policy analysis
    plague: tourists locusts
    lupus: wolf wolves
    ms: server latency milliseconds millisecond ping cruise
    """
)
# The same for names with a capital, as of a constellation; a lump may be "a sign of cancer".
_NOT_NEAR_A_NAME: Final = {"cancer": words_as_folded("sign signs born star stars moon")}
# Surnames that stand for a disease, and what stands before a person's.
_EPONYMS: Final = words_as_folded(
    "alzheimer parkinson crohn hodgkin hashimoto huntington duchenne raynaud tourette lyme graves addison"
)
_TITLES: Final = words_as_folded("dr mr mrs prof professor sir lady called named author president")
# Abbreviations that are units, currencies or years beside a number.
_UNITS: Final = words_as_folded("ms mm chf ad hd pe mi ra")
# Parts of the body that "of" turns into parts of things, unless a body follows.
_PARTS: Final = words_as_folded(
    "head eye heart foot mouth neck arm hand face tongue leg nose shoulder ear bone skin back brain lung stomach vein"
    " artery backbone elbow knee finger tooth chest stem nerve"
)
_BODIES: Final = words_as_folded(
    "patient patients mouse mice rat rats man men woman women human humans child children infant infants embryo embryos"
    " fetus foetus animal animals people adults donor donors newborn femur humerus pancreas"
)
_REACH: Final = 8
_SHORT_QUESTION: Final = 4
_LEAST_SURE: Final = 3


def is_false_friend(stretch: TokenSpan) -> bool:
    """Return True if the words right beside the span give it another meaning."""
    words = stretch.folded
    if len(words) != 1:
        return False
    word = words[0]
    before, after = stretch.before(), stretch.after()
    if before in _NOT_BEFORE.get(word, ()) or after in _NOT_AFTER.get(word, ()):
        return True
    if not _NOT_NEAR.get(word, frozenset()).isdisjoint(_near(stretch)):
        return True
    if stretch.raw[:1].isupper() and not _NOT_NEAR_A_NAME.get(word, frozenset()).isdisjoint(_near(stretch)):
        return True
    if word in _EPONYMS and (before in _TITLES or not (stretch.raw.casefold().endswith("s") or is_medical(stretch))):
        return True
    if word in _UNITS and (_is_number(before) or (word == "ad" and _is_number(after))):
        return True
    return word in _PARTS and after == "of" and not _BODIES.intersection(_following(stretch))


def is_medical(stretch: TokenSpan) -> bool:
    """Return True if a word within eight of the span is one of medical texts, or somebody has what it names."""
    if any(word in _CUES for word in _near(stretch)):
        return True
    place = stretch.first - 1
    while place >= 0 and stretch.tokens[place].text in _ARTICLES:
        place -= 1
    return place >= 0 and stretch.tokens[place].text in _BEARING


def is_abbreviation_meant(stretch: TokenSpan, name_is_upper: bool) -> bool:
    """Return True if a disease's abbreviation of two or three letters is meant.

    In small letters it needs a medical word near it, and no article before it ("an ad for drugs"). Two capitals
    need one outside questions.
    """
    raw = stretch.raw
    has_article = stretch.before() in _ARTICLES
    if name_is_upper and not any(c.isupper() for c in raw):
        return not has_article and not _is_number(stretch.before()) and is_medical(stretch)
    if len(raw) >= _LEAST_SURE or is_medical(stretch):
        return True
    is_question = "?" in stretch.text[stretch.end :] or len(stretch.tokens) <= _SHORT_QUESTION
    return is_question and not has_article


def _near(stretch: TokenSpan) -> Iterator[str]:
    tokens = stretch.tokens
    for place in range(max(0, stretch.first - _REACH), min(len(tokens), stretch.last + _REACH)):
        if not stretch.first <= place < stretch.last:
            yield tokens[place].text


def _following(stretch: TokenSpan) -> set[str]:
    return {token.text for token in stretch.tokens[stretch.last + 1 : stretch.last + 5]}


def _is_number(word: str) -> bool:
    return word.isdigit()
