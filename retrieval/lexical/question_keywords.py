"""Find the keywords of a question: those marked by hand, all its content words, or those that tell. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from retrieval.lexical.tokens import atoms_of

_MARKED: Final = re.compile(
    r"\*\*(?P<fixed>[^\s*](?:.*?[^\s*])??)\*\*|(?<![\w*])\*(?P<free>[^\s*](?:.*?[^\s*])??)\*(?![\w*])", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Keyword:
    """Hold one keyword; passages that have all ``fixed`` keywords come first."""

    text: str
    fixed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordQuery:
    """Hold a question and its keywords.

    ``question`` is without marks, as a model should read it; ``only_fixed``: no passage without all fixed keywords.
    """

    question: str
    keywords: tuple[Keyword, ...]
    only_fixed: bool = False


def parse_marked(query: str) -> KeywordQuery | None:
    """Parse a question with manually marked keywords; return None where it does not begin with ``#``.

    ``**kw**`` is searched for and fixed, ``*kw*`` only searched for; ``##`` in front keeps only passages with all fixed
    ones. An asterisk within a word marks nothing (HLA-DRB1*15:01). Without any mark there are no keywords.
    """
    text = query.strip()
    if not text.startswith("#"):
        return None
    only_fixed = text.startswith("##")
    body = text[2 if only_fixed else 1 :].strip()
    marked = [
        Keyword((found["fixed"] or found["free"]).strip(), bool(found["fixed"])) for found in _MARKED.finditer(body)
    ]
    question = _MARKED.sub(lambda found: found["fixed"] or found["free"], body)
    return KeywordQuery(question=question, keywords=distinct_keywords(marked), only_fixed=only_fixed)


def distinct_keywords(keywords: Iterable[Keyword]) -> tuple[Keyword, ...]:
    """Return each keyword once, as first written, whatever the spelling (IL-6, il6).

    A keyword is fixed if any of its occurrences is. Empty ones are left out.
    """
    out: dict[tuple[str, ...], Keyword] = {}
    for keyword in keywords:
        name = tuple(atom.term for atom in atoms_of(keyword.text))
        if name:
            known = out.get(name, keyword)
            out[name] = Keyword(known.text, known.fixed or keyword.fixed)
    return tuple(out.values())


_EDGES: Final = ".,;:?!\"'()[]{}<>“”‘’«»…"
# Words of questions, not of biology. Single letters stay: vitamin A, hepatitis C.
_EMPTY: Final = frozenset(
    (
        "about", "above", "after", "again", "all", "also", "am", "among", "an", "and", "any", "are", "as", "at",
        "be", "because", "been", "before", "being", "below", "between", "both", "but", "by", "can", "could",
        "did", "do", "does", "doing", "down", "during", "each", "few", "for", "from", "further", "give", "had",
        "has", "have", "having", "he", "her", "here", "hers", "him", "his", "how", "if", "in", "into", "is",
        "it", "its", "itself", "just", "me", "more", "most", "my", "no", "nor", "not", "of", "off", "on",
        "once", "only", "or", "other", "our", "out", "over", "own", "please", "same", "she", "should", "so",
        "some", "such", "tell", "than", "that", "the", "their", "them", "then", "there", "these", "they",
        "this", "those", "through", "to", "too", "under", "until", "up", "us", "very", "was", "we", "were",
        "what", "when", "where", "which", "while", "who", "whom", "whose", "why", "will", "with", "within",
        "without", "would", "you", "your",
    )
)  # fmt: skip


def query_keywords(question: str) -> tuple[Keyword, ...]:
    """Return the content words as keywords, each once, in the order of the question, none of them fixed.

    Where the question has only function words, all of them are keywords.
    """
    words = [word for part in question.split() if (word := part.strip(_EDGES))]
    content_words = [word for word in words if word.lower() not in _EMPTY and word != "a"]
    return distinct_keywords(Keyword(word) for word in content_words or words)


def searched_keywords(query: str) -> KeywordQuery:
    """Return the marked keywords of a query or, without marks, its content words: what PES2 ranks by."""
    marked = parse_marked(query)
    if marked is not None and marked.keywords:
        return marked
    text = marked.question if marked else query
    return KeywordQuery(question=text, keywords=query_keywords(text))


# Words by which a question asks, or which any paper has: they say nothing of what it is about.
_ASKING: Final = frozenset(
    re.findall(
        r"\w+",
        "affect affects affected approach approaches assess assessed associated association author authors benefit "
        "benefits cause caused causes change changes compare compared comparison consequence consequences contribute "
        "correlate current describe described detected determine determined different difference differences "
        "distinguish effect effects enhance enhances evaluate evaluated evidence examine examined experiment "
        "experimental experiments explain exist exists factor factors find finding findings found framework function "
        "functionality functionalities functions generated handle handles help identified identify impact impacts "
        "implication implications important improve improved improves influence investigate investigated involve "
        "involved key know known lead leads main major make makes mean means mechanism mechanisms method methods "
        "model models name need needs new observed offer offers overall paper paper's particular perform performance "
        "play plays possible predict present propose proposed provide provides purpose question reason regulate "
        "related relation relationship relevance report reported research result results reveal review role roles "
        "show showed shown shows significance significant significantly software specific specifically strategy study "
        "studied studies summarize support supports technique techniques test tested tool tools type types understand "
        "use used user users uses using utilize utilizes utility value values various vary varies way ways work works",
    )
)
_MAX_WORDS_OF_PHRASE: Final = 4
_MAX_PROPOSED: Final = 12
# A phrase is one where at least this share of the rarest word's passages have it as a whole.
_COHESION: Final = 0.1
_COMMON: Final = 0.3
_BREAKS: Final = re.compile(r"[,;:()?!\[\]\"“”]|\.(?:\s|$)")


class PassageCounts(Protocol):
    """Count passages of the namespaces."""

    def __call__(self, keywords: Sequence[str]) -> Sequence[int]:
        """Return how many passages have each of the keywords."""
        ...


def proposed_keywords(
    question: str, counts: PassageCounts, num_passages: int, is_name: Callable[[str], bool] = lambda _: False
) -> tuple[Keyword, ...]:
    """Return keywords of an unmarked question by the counts of its words and phrases in the namespaces.

    Words in a row that occur together are one keyword. Names (``is_name``, or with digits and capitals) are taken
    however often they occur, other words unless they ask or are in nearly a third of all passages. None is fixed.
    """
    runs = [run for part in _BREAKS.split(question) for run in _content_runs(part)]
    phrases = list(dict.fromkeys(" ".join(run[at:end]) for run in runs for at, end in _stretches(len(run))))
    numbers = dict(zip(phrases, counts(phrases), strict=True)) if phrases else {}
    chosen = [word for run in runs for word in _cut(run, numbers, is_name)]
    kept = [word for word in chosen if _tells(word, numbers[word], num_passages, is_name)] or chosen
    if len(kept) > _MAX_PROPOSED:
        rarest = sorted(kept, key=lambda word: numbers[word] or num_passages)[:_MAX_PROPOSED]
        kept = [word for word in kept if word in rarest]
    return distinct_keywords(Keyword(word) for word in kept) or query_keywords(question)


def _content_runs(text: str) -> list[list[str]]:
    """Return the words between function words, in their order."""
    runs: list[list[str]] = [[]]
    for part in text.split():
        word = part.strip(_EDGES)
        # Between names a short word may be a name too: in capitals it is.
        is_empty = word.lower() in _EMPTY and not (len(word) > 1 and word.isupper())
        if not word or is_empty or word == "a":
            runs.append([])
        else:
            runs[-1].append(word)
    return [run for run in runs if run]


def _stretches(length: int) -> list[tuple[int, int]]:
    return [(at, end) for at in range(length) for end in range(at + 1, min(length, at + _MAX_WORDS_OF_PHRASE) + 1)]


def _cut(run: Sequence[str], numbers: Mapping[str, int], is_name: Callable[[str], bool]) -> Iterator[str]:
    """Cut a run of words into the longest phrases that the namespaces have, and single words."""
    at = 0
    while at < len(run):
        ends = range(min(len(run), at + _MAX_WORDS_OF_PHRASE), at + 1, -1)
        end = next((end for end in ends if _is_phrase(run[at:end], numbers, is_name)), at + 1)
        yield " ".join(run[at:end])
        at = end


def _is_phrase(words: Sequence[str], numbers: Mapping[str, int], is_name: Callable[[str], bool]) -> bool:
    text = " ".join(words)
    if words[0].lower() in _ASKING or words[-1].lower() in _ASKING:
        return is_name(text)
    together = numbers.get(text, 0)
    return bool(together) and (is_name(text) or together >= _COHESION * min(numbers[word] for word in words))


def _tells(word: str, number: int, num_passages: int, is_name: Callable[[str], bool]) -> bool:
    if _looks_like_a_name(word) or is_name(word):
        return True
    return word.lower() not in _ASKING and (" " in word or number <= _COMMON * num_passages)


def _looks_like_a_name(word: str) -> bool:
    return any(sign.isdigit() for sign in word) or any(sign.isupper() for sign in word[1:])
