"""Say whether a passage is about what a question names. Pure.

A sentence that has many of a question's words may still be about another drug, gene or disease than the question: it
answers nothing then, and yes or no does not follow from it. ``quotable`` leaves such sentences out; ``missing_name``
returns a name of the question that a passage lacks, for which reason it decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain
from typing import Final

from retrieval.graph.linking.dictionary_lookup.dictionary import drugs_not_in, unusual_words
from server.methods.shared.choices import asks_yes_or_no
from server.methods.shared.evidence_index import identifiers_in
from server.methods.shared.extractive import ScoredSentence, Source, question_stems, stems_of
from server.methods.shared.sentences import addresses_reader

_LONGEST_ABBREVIATION: Final = 6
# Of the question's words, which a passage has that yes or no is decided from.
_SHARE_OF_QUESTION: Final = 0.3
_ALIKE: Final = 0.8
# A title of so few words names what its passage is about.
_NAME_WORDS: Final = 4
_FIRST_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_PRONOUN: Final = re.compile(r"(?:It|Its|They|Their)\b")
# What a sentence sets its own subject apart from: "Unlike loop diuretics they lower …".
_UNLIKE: Final = re.compile(
    r"\W*(?:unlike|in contrast to|as opposed to|contrary to)\s+(?P<other>[^,;]{2,60}?)"
    r"(?:,|\s(?:it|they|its|their|this|these|those)\b)",
    re.IGNORECASE,
)
# Stems by which a sentence says what a question asks for in another word.
_SAID_AS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("treat", "treatment", "therapy", "manag"), frozenset(("treat", "treatment", "therapy"))),
    "antidot": frozenset(("revers", "restor", "treat", "treatment")),
    **dict.fromkeys(("side", "advers", "complic", "risk"), frozenset(("advers", "caus", "damag"))),
}
# The letters behind a number, which a further number is a member of.
_SUBFAMILY: Final = re.compile(r"(?P<family>[A-Z]{2,}\d+[A-Z]{1,2})\d+", re.IGNORECASE)
# The kind of thing that a question asks for need not stand in a passage.
_ASKED_FOR: Final = re.compile(r"\b(?:which|what|who|whose|welche[mnrs]?|wer)\s+\w+", re.IGNORECASE)


def quotable(found: Sequence[ScoredSentence], sources: Sequence[Source], question: str) -> list[ScoredSentence]:
    """Return the sentences that are about what the question names and do not address the reader.

    Passages are compared with the question once, as that takes milliseconds for each.
    """
    passages = [_words_of(source, question) for source in sources]
    kept = []
    for one in found:
        words = passages[one.candidate.source]
        if not words.names_asked or addresses_reader(one.line):
            continue
        if not _is_apart(one, words, question) and not _is_about_another(one, words, question):
            kept.append(one)
    return kept


@dataclass(frozen=True, slots=True)
class _PassageWords:
    """Hold how a passage meets a question.

    ``lacking`` are the question's stems that it has not, slips apart, in the question's order, of ``asked`` in all;
    ``is_last_lacking``: the last one is among them. ``names_asked`` is false where it has none of the question's names;
    ``begins_with_names``: title and first sentence have all of them, and there are some.
    """

    title: str
    asked: int
    lacking: tuple[str, ...]
    is_last_lacking: bool
    names_asked: bool
    begins_with_names: bool


def _words_of(source: Source, question: str) -> _PassageWords:
    text = f"{source.title} {source.text}"
    there = stems_of(text)
    asked = question_stems(_ASKED_FOR.sub(" ", question))
    lacking = tuple(word for word in asked if not _has(there, word))
    is_last = bool(lacking) and lacking[-1] == asked[-1]
    names = {stem for name in (*_unusual(question), *_symbols_in(question)) for stem in question_stems(name)}
    begins = f"{source.title} {_FIRST_SENTENCE.split(source.text, maxsplit=1)[0]}"
    is_named = bool(names) and names <= stems_of(begins)
    return _PassageWords(source.title, len(asked), lacking, is_last, _names_asked(question, text, there), is_named)


def _has(there: Set[str], stem: str) -> bool:
    """Return whether a stem is among others, or a slip of one."""
    return stem in there or bool(get_close_matches(stem, there, 1, _ALIKE))


def _names_asked(question: str, text: str, there: Set[str]) -> bool:
    """Return whether a passage has one of the names in a question, if the question has any.

    Names are the words that are no everyday English, and symbols with a digit beside them. Where the words are most of
    the question, it is in another language than the passage, and nothing follows.
    """
    unusual = _unusual(question)
    if not unusual or 2 * len(unusual) > len(re.findall(r"[^\W\d_]\w*", question)):
        return True
    whole, there = _compact(text), there | stems_of(" ".join(_abbreviated_in(text, question)))
    if any(_compact(name) in whole for name in (*unusual, *_symbols_in(question))):
        return True
    return any(_has(there, stem) for word in unusual for stem in question_stems(word))


def _unusual(question: str) -> list[str]:
    """Return the words that are no everyday English; a letter alone, as in E. coli, is no word."""
    return [word for word in unusual_words(question) if len(word) > 1 and question_stems(word)]


def asked_first(ranked: Sequence[ScoredSentence], sources: Sequence[Source], question: str) -> list[ScoredSentence]:
    """Return the sentences, that one first which has what the question asks of what its passage is about.

    Of "carbon monoxide poisoning", the title of a passage, a question asks for the treatment: "The treatment is oxygen"
    goes before a sentence on carbon monoxide that is nearer to the question, and gets its score; so does "The rare
    adverse effect is lactic acidosis" where what metformin does not cause is nearer. Only within the passage of the
    best one, whose title has to be short, as names are, and only where the best one has half of the words at most.
    """
    best = ranked[0]
    title = sources[best.candidate.source].title
    asked, named = set(question_stems(question)), stems_of(title)
    wanted = asked - named
    synonyms = frozenset[str]().union(*(_SAID_AS.get(stem, ()) for stem in asked))

    def has(one: ScoredSentence) -> int:
        stems = stems_of(one.line)
        return len(wanted & stems) + bool((synonyms - wanted) & stems)

    if len(title.split()) > _NAME_WORDS or not asked & named or 2 * has(best) > len(wanted):
        return list(ranked)
    beside = [one for one in ranked if one.candidate.source == best.candidate.source]
    first = max(beside, key=has)  # of equal ones the best
    return [replace(first, score=best.score), *(one for one in ranked if one is not first)]


def with_subjects(ranked: Sequence[ScoredSentence], sources: Sequence[Source], question: str) -> list[ScoredSentence]:
    """Return the sentences, each that leaves its subject unsaid with the title that the question names as its subject.

    "Muscle pain is the common adverse effect", under Statins, is about them. The title has to be short, as names are.
    """
    asked = set(question_stems(question))

    def one(sentence: ScoredSentence) -> ScoredSentence:
        title = sources[sentence.candidate.source].title
        named = stems_of(title)
        is_said = sentence.candidate.subject or named & stems_of(sentence.line)
        if is_said or len(title.split()) > _NAME_WORDS or not named & asked:
            return sentence
        return replace(sentence, candidate=replace(sentence.candidate, subject=title))

    return [one(sentence) for sentence in ranked]


def completes(one: ScoredSentence, question: str) -> bool:
    """Return whether a sentence can complete another one: it does not begin with a name that is none of the question's.

    "Ethambutol can damage the optic nerve" says nothing about the nerves of who takes isoniazid.
    """
    first = re.match(r"\W*(\w[\w'-]*)", one.line)
    unusual = _unusual(first[1]) if first else []
    asked = set(question_stems(question))
    names = {stem for name in _unusual(question) for stem in question_stems(name)}
    return not unusual or not names or bool(asked & stems_of(unusual[0])) or bool(names & stems_of(one.line))


def _is_apart(one: ScoredSentence, words: _PassageWords, question: str) -> bool:
    """Return whether a sentence sets another thing apart from what the question names."""
    found = _UNLIKE.match(one.line)
    if found is None:
        return False
    asked, other = set(question_stems(question)), stems_of(found["other"])
    return bool(other & asked) and not asked & (stems_of(words.title) - other)


def _is_about_another(one: ScoredSentence, words: _PassageWords, question: str) -> bool:
    """Return whether a sentence is about something else than what the question names.

    "It must not be taken in pregnancy", of ramipril, says nothing about warfarin; it answers which drug that is, and
    whether lisinopril is safe where the passage begins with "ACE inhibitors such as lisinopril". Nor does a passage on
    malaria say what causes leprosy: where its title names another thing, half of the words may be lacking, but not the
    last one. What such a passage leaves open of yes or no is said otherwise.
    """
    subject = one.candidate.subject or (words.title if _PRONOUN.match(one.line) else "")
    title = words.title if len(words.title.split()) <= _NAME_WORDS and not asks_yes_or_no(question) else ""
    if not (subject or title) or stems_of(subject or title) & set(question_stems(question)):
        return False
    if subject:
        return bool(words.lacking) and not words.begins_with_names
    return words.is_last_lacking and 2 * len(words.lacking) >= words.asked


def missing_name(question: str, sources: Sequence[Source], place: int) -> str:
    """Return a name of the question that the passage at ``place`` has not, "" for none.

    Such a name is a drug, a symbol with a digit, or what another passage is about: "Protamine reverses heparin" leaves
    open whether it reverses rivaroxaban. Of other words the passage may lack some, as it says things in its own way.
    """
    text = f"{sources[place].title} {sources[place].text}"
    there = stems_of(text)
    titles = (one.title for one in sources if len(one.title.split()) <= _NAME_WORDS)
    missing = set(question_stems(question)) - there
    others = (title for title in titles if missing & stems_of(title))
    return unnamed_in(text, question) or next(others, "") or _strange_word(question, text)


def unnamed_in(text: str, question: str) -> str:
    """Return a drug, or a symbol with a digit, that a question names and a text does not; "" for none.

    Takes a millisecond for each thousand characters.
    """
    return next(chain(drugs_not_in(text, question), _symbols_not_in(text, question)), "")


def _strange_word(question: str, text: str) -> str:
    """Return a word of the question where a passage is on another matter, "" where it is not.

    It is where it lacks most of the words that are no everyday English, or most of all.
    """
    there = stems_of(text) | stems_of(" ".join(_abbreviated_in(text, question)))
    stems = {word: set(question_stems(word)) for word in re.findall(r"\w[\w'-]+", question)}
    unusual = [word for word in _unusual(question) if stems.get(word)]
    lacking = [word for word in unusual if not stems[word] <= there]
    if 2 * len(lacking) > len(unusual):
        return lacking[0]
    asked = set(question_stems(question))
    if len(asked & there) >= _SHARE_OF_QUESTION * len(asked):
        return ""
    return next((word for word, found in stems.items() if found & (asked - there)), "")


def _abbreviated_in(text: str, question: str) -> Iterator[str]:
    """Yield the words of the question that a text has an abbreviation of: muscular dystrophy for MD."""
    there = frozenset(re.findall(r"\b[A-Z]{2,6}\b", text))
    words = re.findall(r"[^\W\d_]+", question)
    for first in range(len(words)):
        for last in range(first + 2, min(first + _LONGEST_ABBREVIATION, len(words)) + 1):
            if any(_abbreviates(one, words[first:last]) for one in there):
                yield from words[first:last]


def _abbreviates(letters: str, words: Sequence[str]) -> bool:
    """Return whether letters are the initials of words, but for one that may come from within a word, as in HCC."""
    initials = "".join(word[0] for word in words).upper()
    if len(letters) != len(words) + 1:
        return letters == initials
    return any(
        letters[:place] + letters[place + 1 :] == initials and letters[place] in words[place - 1][1:].upper()
        for place in range(1, len(letters))
    )


def _symbols_not_in(text: str, question: str) -> Iterator[str]:
    """Yield the symbols with a digit that are missing, whatever stands between their characters.

    One of letters alone is often an abbreviation, which a passage may write out; CYP3A4 is meant where CYP3A is said.
    """
    there = _compact(text)
    return (one for one in _symbols_in(question) if _compact(one) not in there and not _has_family_of(one, text))


def _has_family_of(symbol: str, text: str) -> bool:
    """Return whether a text names the subfamily of a symbol, such as SLC6A of SLC6A4."""
    found = _SUBFAMILY.fullmatch(symbol)
    return found is not None and re.search(rf"\b{re.escape(found['family'])}(?!\w)", text, re.IGNORECASE) is not None


def _symbols_in(question: str) -> Iterator[str]:
    """Yield the symbols that have a digit."""
    return (one.text for one in identifiers_in(question) if one.kind == "symbol" and re.search(r"\d", one.text))


def _compact(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
