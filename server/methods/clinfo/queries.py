"""Turn a question into queries in PubMed's syntax, without a model, and repair those that find nothing. Pure.

A query is a list of clauses that are AND-ed; a clause is a list of names of one thing, which are OR-ed. Names that were
linked to a vocabulary are phrases with fields; other words have none, so that PubMed maps them to its own headings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, Literal

from models.function_words import FUNCTION_WORDS
from retrieval.graph.types import Linked
from retrieval.lexical.tokens import GREEK
from retrieval.ncbi.calls.parameter_classes import clauses_of
from server.methods.clinfo.options import ClinfoOptions
from server.methods.shared.word_overlap import stem_of

Writer = Literal["model", "rules", "request"]
MAX_TERM: Final = 1200
MAX_CLAUSES: Final = 5
_MAX_NAMES: Final = 6
_MAX_WORDS: Final = 12
_MIN_STEM: Final = 4
# Words of which any two or three are searched for: 8 have 28 pairs.
_MAX_COMBINED: Final = 8
# A search that finds more says nothing of the question.
MAX_HITS: Final = 200_000
_WORD: Final = re.compile(r"[^\W_](?:[\w'’+*.-]*[\w+*])?")
_LETTERS: Final = re.compile(r"[^\W\d_]{5,}")
_OPERATORS: Final = frozenset({"AND", "OR", "NOT"})
_TAG: Final = re.compile(r"\[[^\]]*\]")
_BREAK: Final = re.compile(r"[,;:?!()\[\]\"“”/]|\.\s")
_ABBREVIATED: Final = re.compile(r"\(([A-Z][\w-]{1,9})\)")
# Words of questions that name nothing to search for.
_ASKING: Final = frozenset(
    re.findall(
        r"\w+",
        "about according all also although among another answer approximately available because become been being "
        "between briefly cause caused causes causing common commonly compare compared could current currently define "
        "definition describe described despite different does done due during each effect effective effects efficacy "
        "encode encoded evidence exist exists explain few first found function functions general generally give "
        "happen happens help helps here how important include included includes including increase increased "
        "indicated influence involve involved involvement kind kinds know known lead leads list literature main major "
        "many mean means mechanism mechanisms mention more most much name names new not number occur occurs often "
        "one only other outcome outcomes patient patients people play plays please possible potential prescribed "
        "present propose proposed provide recent recently recommended related relation relationship relevant report "
        "reported reports result results review role roles same several should show shown shows since some studied "
        "studies study such suggested summarise summarize tell than them then therapy treat treated treating "
        "treatment treatments two type types typical typically use used useful uses using usual usually very via way "
        "ways well were work works without within under up out over after before against still yes no "
        "lower lowers lowered reduce reduces reduced improve improves improved higher better worse raise raises change "
        "changes changed associated association associations linked link control controls controlled affect affects",
    )
)
_GREEK: Final = {ord(letter): name for letter, name in GREEK.items()}
_UNSAFE: Final = re.compile(r'["\[\]()<>|&\\]|[^\x20-\x7e]')


@dataclass(frozen=True, slots=True)
class Clause:
    """Hold the names of one thing.

    ``linked``: they are names of a vocabulary, searched as phrases in title and abstract; otherwise the one name is
    words that need not stand together. ``heading``: the first of linked names may be a MeSH heading.
    """

    names: tuple[str, ...]
    linked: bool = False
    heading: bool = True

    @property
    def term(self) -> str:
        if not self.linked:
            return f"({self.names[0]})" if " " in self.names[0] else self.names[0]
        headings = [f'"{self.names[0]}"[mh]'] if self.heading else []
        forms = [*headings, *(f'"{name}"[tiab]' for name in self.names)]
        return f"({' OR '.join(forms)})"

    @property
    def words(self) -> str:
        return self.names[0]

    @property
    def broad(self) -> Clause:
        """Return the clause without fields and phrases."""
        return Clause((plain_words(self.names[0]) or self.names[0],))


@dataclass(frozen=True, slots=True)
class Query:
    """Hold one query: its clauses, or the text of the request.

    ``any_of``: so many of the words suffice, for a search that ranks by relevance; 0 for all clauses. ``limits`` are
    AND-ed to the term.
    """

    clauses: tuple[Clause, ...]
    writer: Writer
    text: str = ""
    any_of: int = 0
    limits: str = ""

    @property
    def term(self) -> str:
        """Return the query in PubMed's syntax, cut to whole clauses where it would be too long."""
        inner = self.text or self._joined()
        return f"({inner}) AND {self.limits}" if self.limits else inner

    @property
    def words(self) -> str:
        """Return the query as words, for a search of passages."""
        return " ".join(one.words for one in self.clauses) or " ".join(
            _WORD.findall(re.sub(r"\[[^\]]*\]", " ", self.text))
        )

    def _joined(self) -> str:
        terms: list[str] = []
        for one in self.clauses:
            if sum(map(len, terms)) + len(one.term) <= MAX_TERM:
                terms.append(one.term)
        if not self.any_of:
            return " AND ".join(terms)
        found = (word for one in self.clauses for word in _WORD.findall(one.words))
        words = dict.fromkeys(word for word in found if len(word) > 1 or word.isdigit())
        forms = [_form(word) for word in words][:_MAX_COMBINED]
        groups = combinations(forms, min(self.any_of, len(forms)))
        return " OR ".join(f"({' AND '.join(group)})" if len(group) > 1 else group[0] for group in groups)


def _form(word: str) -> str:
    """Return a word as it stands among others: truncated to its stem; a number is no identifier of a record."""
    if word.isdigit():
        return f"{word}[tiab]"
    stem = stem_of(word.lower())
    return f"{stem}*" if stem != word.lower() and len(stem) >= _MIN_STEM else word


def build_queries(question: str, linked: Linked | None, most: int) -> tuple[Query, ...]:
    """Return up to ``most`` different queries, the strictest first; () for a question without content words."""
    clauses = clauses_in(question, linked)
    if not clauses:
        return ()
    plain = tuple(dict.fromkeys(one.broad for one in clauses))
    found = (
        Query(clauses, "rules"),
        Query(plain, "rules", any_of=1),
        Query(plain, "rules"),
        Query(tuple(sorted(clauses, key=lambda one: (not one.linked, -len(one.words)))[:2]), "rules"),
    )
    different: dict[str, Query] = {}
    for one in found:
        different.setdefault(one.term, one)
    return tuple(different.values())[:most]


def clauses_in(question: str, linked: Linked | None = None) -> tuple[Clause, ...]:
    """Return what a question is about, in its order: linked names, then the runs of content words between them."""
    spans: list[tuple[int, int, Clause]] = []
    for mention in (*linked.mentions, *linked.concepts) if linked else ():
        written = question[mention.start : mention.end]
        names = [written, mention.node.name, *mention.node.synonyms]
        unique: dict[str, str] = {}
        for name in filter(None, map(clean_name, names)):
            unique.setdefault(name.casefold(), name)
        clean = tuple(unique.values())[:_MAX_NAMES]
        if clean:
            spans.append((mention.start, mention.end, Clause(clean, linked=True)))
    at = 0
    for start, end, _ in [*sorted(spans, key=lambda one: one[:2]), (len(question), len(question), None)]:
        spans += ((at, at, Clause((run,))) for run in _runs(question[at:start].translate(_GREEK)))
        at = max(at, end)
    ordered = [clause for _, _, clause in sorted(spans, key=lambda one: one[:2])]
    return tuple({one.words.casefold(): one for one in ordered}.values())[:MAX_CLAUSES]


def _runs(text: str) -> list[str]:
    """Return the runs of content words, each at most four words; a long run is cut into pairs."""
    runs: list[list[str]] = []
    for part in _BREAK.split(text):
        runs.append([])
        for word in _WORD.findall(part):
            plain = word.casefold()
            # Capitals make a name of a function word (the WAS gene), but never of an operator.
            is_function = plain in FUNCTION_WORDS and (word in _OPERATORS or not word.isupper())
            if is_function or plain in _ASKING or _UNSAFE.search(word):
                runs.append([])
            elif len(plain) > 1 or word.isdigit() or (runs[-1] and word.isupper() and word != "I"):
                runs[-1].append(word)  # a capital belongs to what stands before it: vitamin D
    return [" ".join(run[first : first + 3]) for run in runs if run for first in range(0, len(run), 3)]


def plain_words(text: str) -> str:
    """Return the words of a name that can be searched for without a field."""
    words = [word for word in _WORD.findall(text) if not _UNSAFE.search(word)]
    kept = [word for word in words if word.casefold() not in FUNCTION_WORDS] or words
    return " ".join(kept[:_MAX_WORDS])


def clean_name(name: str) -> str:
    """Return a name as it can stand between quotes, "" where it cannot."""
    text = " ".join(_UNSAFE.sub(" ", name.translate(_GREEK)).split())
    return text if 2 <= len(text) <= 100 else ""


def limits_of(options: ClinfoOptions) -> str:
    """Return the filters of a request as clauses, "" for none."""
    parts: list[str] = []
    if options.date_from or options.date_to:
        first, last = (day.replace("-", "/") for day in (options.date_from or "1700", options.date_to or "3000"))
        parts.append(f'("{first}"[dp] : "{last}"[dp])')
    if options.publication_types:
        parts.append(f"({' OR '.join(f'{_quoted(name)}[pt]' for name in options.publication_types)})")
    return " AND ".join(parts)


def _quoted(name: str) -> str:
    return f'"{name}"'


def with_limits(queries: Sequence[Query], options: ClinfoOptions) -> tuple[Query, ...]:
    limits = limits_of(options)
    return tuple(replace(one, limits=limits) for one in queries)


def given_queries(texts: Sequence[str]) -> tuple[Query, ...]:
    return tuple(Query((), "request", text=text) for text in texts)


def fault_of(query: Query) -> str:
    """Return why a query cannot be sent, "" where it can."""
    inner = query.text or query.term
    if len(inner) > 2 * MAX_TERM:
        return f"it is longer than {2 * MAX_TERM} characters"
    parsed = clauses_of(inner)
    if parsed.uneven or inner.count("(") != inner.count(")"):
        return "a bracket or quote is not closed"
    words = [word for clause in parsed.clauses for word in _WORD.findall(clause.text)]
    if not any(word.casefold() not in FUNCTION_WORDS for word in words):
        return "it has no word to search for"
    return ""


def narrowed(query: Query) -> Query | None:
    """Return a query of any few words with one more of them, None where it has no more."""
    changed = replace(query, any_of=query.any_of + 1)
    return changed if query.any_of and changed.term != query.term else None


def words_to_spell(query: Query) -> tuple[str, ...]:
    """Return the words of a query that may be misspelled: none of a vocabulary, nor of a text of the request."""
    names = [name for one in query.clauses if not one.linked for name in one.names]
    return tuple(dict.fromkeys(word for name in names for word in _LETTERS.findall(name)))


def respelled(query: Query, spellings: Mapping[str, str]) -> Query | None:
    """Return the query with words spelled as the index spells them, None where it has none of these words."""
    if not spellings:
        return None

    def corrected(name: str) -> str:
        return _LETTERS.sub(lambda found: spellings.get(found[0], found[0]), name)

    clauses = tuple(replace(one, names=tuple(dict.fromkeys(map(corrected, one.names)))) for one in query.clauses)
    changed = replace(query, clauses=clauses)
    return changed if changed.term != query.term else None


def broadened(query: Query) -> Query | None:
    """Return the query without fields and phrases, None where it has none."""
    clauses = tuple(dict.fromkeys(one.broad for one in query.clauses))
    changed = replace(query, clauses=clauses)
    return changed if query.clauses and changed.term != query.term else None


def without_rarest(query: Query, counts: Sequence[int]) -> Query | None:
    """Return the query without the clause that finds least; ``counts`` are those of its clauses."""
    if len(query.clauses) < 2:
        return None
    rarest = min(range(len(query.clauses)), key=lambda place: counts[place])
    return replace(query, clauses=tuple(one for place, one in enumerate(query.clauses) if place != rarest))
