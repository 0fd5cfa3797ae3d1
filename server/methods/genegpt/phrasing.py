"""Ask a model that was trained for look-ups alone in the form of words that it was trained on. Pure.

Such a model reads one short question of a known wording. Of a longer message, the sentence that asks is taken; a
question about one gene or variant that says no more than what is asked of it gets the trained wording, from English,
German, Spanish or French. Everything else is asked as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from server.methods.genegpt.outcomes import is_in_scope
from server.methods.genegpt.prompt import COT_TRIGGER, one_line
from server.methods.shared.conversation.follow_ups import standalone
from server.methods.shared.identifiers import identifiers_in

Relation = Literal["", "symbol", "aliases", "coding", "function", "location", "snp_gene", "snp_location"]
_SENTENCE: Final = re.compile(r"(?<=[.?!])[\"'”’)]*\s+")
_SEQUENCE: Final = re.compile(r"(?<![A-Za-z])[ACGTN]{20,}(?![A-Za-z])", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_RS: Final = re.compile(r"rs\d+", re.IGNORECASE)
_ORGANISMS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("mouse", "mice", "maus", "ratón", "raton", "souris"), "mouse"),
    **dict.fromkeys(("rat", "rats", "ratte", "rata"), "rat"),
    "zebrafish": "zebrafish",
}
_FORMS: Final[Mapping[Relation, str]] = {
    "symbol": "What is the official gene symbol of {}?",
    # The record that holds the aliases is found by the symbol.
    "aliases": "What is the official gene symbol of {}?",
    "coding": "Is {} a protein-coding gene?",
    "function": "What does the gene {} do?",
    "location": "Which chromosome is {} gene located on human genome?",
    "snp_gene": "Which gene is SNP {} associated with?",
    "snp_location": "Which chromosome does SNP {} locate on human genome?",
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILLING: Final = _words(
    "a an and the is are of for in on at to by which what where does has have it this that there be s gene genes "
    "genome human humans homo sapiens please tell me give show can you could say know "
    "auf welchem welches welcher welche welchen ist das der die den dem des im zu zum von vom für gen gens bitte beim "
    "menschen es en qué que el la los las del de cuál cual se gen humano los por favor está esta "
    "quel quelle quels quelles est le les du sur gène chez l d homme humain c ce qu"
)
_PLACE: Final = _words(
    "chromosome chromosom chromosomen cromosoma where located location locus lie lies locate wo liegt befindet sich "
    "dónde donde encuentra ubicado ubicada localiza où situé située trouve mapped map maps"
)
_HOLDS: Final = _words("holds hold carries carry contains bears position found")
# What has to be said of each relation, and what may be said beside it.
_SAID: Final[tuple[tuple[Relation, frozenset[str], frozenset[str]], ...]] = (
    (
        "symbol",
        _words("symbol símbolo simbolo symbole gensymbol"),
        _words(
            "official approved name called known also as standard stand stands offizielle offizielles offiziellen "
            "heißt lautet oficial officiel officielle"
        ),
    ),
    (
        "aliases",
        _words("aliases synonyms synonyme aliasnamen sinónimos synonymes"),
        _words("list names other known hat"),
    ),
    (
        "coding",
        _words("protein-coding coding codes code encode encodes proteinkodierend proteinkodierendes"),
        _words("protein proteins ein"),
    ),
    (
        "function",
        _words("function functions do role funktion macht función funcion hace fonction fait rôle"),
        _words("main protein product was tut hat une quelle"),
    ),
    ("location", _PLACE, _HOLDS),
)
_SAID_OF_SNPS: Final[tuple[tuple[Relation, frozenset[str], frozenset[str]], ...]] = (
    ("snp_location", _PLACE, _HOLDS | _words("snp variant variante variation polymorphism")),
    (
        "snp_gene",
        _words("gene gen gène"),
        _words(
            "snp variant variante variation polymorphism associated linked belong belongs with gehört liegt asociado "
            "pertenece associé appartient located name"
        ),
    ),
)


_CAUSES: Final = _words("related associated responsible cause causes causing")
_TRAINED: Final = frozenset().union(
    _FILLING,
    *(needed | further for _, needed, further in (*_SAID, *_SAID_OF_SNPS)),
    _words("alias also called name approved known convert identifier ensembl associated responsible related locations"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold a question as the model is asked it; ``relation`` is what is asked of ``subject``, "" where unknown.

    ``unread`` are words of a question on a name that stand in no wording that the model was trained on: it answers as
    if they were not there. ``num_asked`` counts the questions.
    """

    text: str
    relation: Relation = ""
    subject: str = ""
    unread: tuple[str, ...] = ()
    num_asked: int = 1


def as_trained(question: str) -> Asked:
    """Return the question in a form that the model was trained on, its own words where none fits."""
    text = asking_part(question)
    if COT_TRIGGER in text or _SEQUENCE.search(text):
        return Asked(text)
    named = list(dict.fromkeys(one.text for one in identifiers_in(text) if one.kind == "symbol"))
    bare = re.sub("|".join(map(re.escape, named)) or "$", " ", text)
    words = frozenset(word.casefold() for word in _WORD.findall(bare))
    organisms = {_ORGANISMS[word] for word in words if word in _ORGANISMS}
    if len(named) != 1 or len(organisms) > 1:
        num_asked = sum(is_in_scope(one) for one in _SENTENCE.split(text) if one.endswith("?"))
        is_read = not named or _of_disease(words)
        return Asked(text, unread=() if is_read else _unread(words), num_asked=max(1, num_asked))
    subject = named[0]
    if re.search(rf"[\w./-]{re.escape(subject)}|{re.escape(subject)}(?:[/-]|\.\w)", text) or _of_disease(words):
        # A part of a name, or the abbreviation of a disease.
        return Asked(text)
    said = _SAID_OF_SNPS if _RS.fullmatch(subject) else _SAID
    for relation, needed, further in said:
        rest = words - needed - further - _FILLING - _ORGANISMS.keys()
        if not rest and words & needed:
            return Asked(_formed(relation, subject, next(iter(organisms), "")), relation, subject)
    return Asked(text, unread=_unread(words))


def _of_disease(words: frozenset[str]) -> bool:
    return not words.isdisjoint({"gene", "genes"}) and not words.isdisjoint(_CAUSES)


def _unread(words: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(words - _TRAINED - _ORGANISMS.keys()))


def _formed(relation: Relation, subject: str, organism: str) -> str:
    text = _FORMS[relation].format(subject)
    return f"{text.rstrip('?').replace(' on human genome', '')} in {organism}?" if organism else text


def asking_part(question: str) -> str:
    """Return the one sentence of a message that asks for something in scope; the whole where there is not just one.

    A name that it refers to ("it", "this gene") is put in from the sentences before it.
    """
    text = one_line(question)
    if COT_TRIGGER in text or _SEQUENCE.search(text):
        return text
    sentences = _SENTENCE.split(text)
    places = [place for place, one in enumerate(sentences) if one.endswith("?")]
    if len(places) > 1:
        places = [place for place in places if is_in_scope(sentences[place])]
    if len(places) != 1 or len(sentences) == 1:
        return text
    asking = sentences[places[0]]
    if any(one.kind == "symbol" for one in identifiers_in(asking)):
        return asking
    # Only what names something can be meant.
    before = [one for one in sentences[: places[0]] if any(found.kind == "symbol" for found in identifiers_in(one))]
    return standalone([before[-1], asking]) if before else asking


_LINE: Final = re.compile(r"^\d+\. (?P<record>.+)$", re.MULTILINE)
_ALIASES: Final = re.compile(r"(?:^|; )aliases ([^;]+)")
_TYPED: Final = re.compile(r"\([^()]*\) (?:protein-coding|pseudogene|ncRNA)\b")
NO_FIELD: Final = "not found"


def field_of(asked: Asked, answer: str, read: str) -> str:
    """Return the answer as it stands in the record, for relations that a field of it answers as a whole.

    A model that copies a few words cannot copy a sentence or a list. The record is the first one that names the
    subject; ``NO_FIELD`` where it has no such field.
    """
    if asked.relation not in ("aliases", "function") or not answer.strip():
        return answer
    named = re.compile(rf"(?<!\w){re.escape(asked.subject)}(?!\w)", re.IGNORECASE)
    record = next((found["record"] for found in _LINE.finditer(read) if named.search(found["record"])), "")
    if asked.relation == "aliases":
        found = _ALIASES.search(record)
        return found[1].strip() if found and "replaced by" not in record else NO_FIELD
    # A summary stands first; without one, the names do.
    first = record.partition("; ")[0].strip()
    if not first.startswith(answer.strip()):
        return answer
    return NO_FIELD if _TYPED.search(first) else first.rstrip(";")
