"""Read a question for a model that was trained for look-ups alone, and put it in the words that the model knows.

Such a model reads one short question of a known wording. Of a longer message, the sentence that asks is taken. Trained
heads tell which gene or disease is named in words ("the insulin gene") and what is asked of a gene, a variant or a
disease, in English, German, Spanish or French; everything else is asked as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal, cast

import numpy as np

from models.encoders.name_tagger import DISEASE, NameTagger, load_name_tagger
from models.encoders.relation_head import GENE_HEAD_DIR, OTHER, AskedRelation, RelationHead, load_relation_head
from retrieval.ncbi.calls.parameter_classes import organism_in
from server.methods.genegpt.prompt import COT_TRIGGER, one_line
from server.methods.shared.choices import asks_yes_or_no, listed_choices
from server.methods.shared.conversation.follow_ups import ABOUT, about
from server.methods.shared.identifiers import EVERYDAY, identifiers_in

Relation = Literal[
    "",
    "symbol",
    "name",
    "aliases",
    "coding",
    "function",
    "location",
    "organism",
    "snp_gene",
    "snp_location",
    "genes_of",
]
# Where a question may be a list of questions; that it is one, the head of relations says.
_CLAUSE: Final = re.compile(r"(?:,\s+|\s+)(?:and|und|y|et)\s+|,\s+", re.IGNORECASE)
# Between two names of a list there is no more than a comma and a word.
_LONGEST_GAP: Final = 7
# Of a message with more, none is the one that asks.
_MOST_QUESTIONS: Final = 8
_SENTENCE: Final = re.compile(r"(?<=[.?!])[\"'”’)]*\s+")
_SEQUENCE: Final = re.compile(r"(?<![A-Za-z])[ACGTN]{20,}(?![A-Za-z])", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_ENSEMBL: Final = re.compile(r"\bENSG\d{11}\b", re.IGNORECASE)
_RS: Final = re.compile(r"rs\d+", re.IGNORECASE)
# The letters of an rs number that stand apart from its digits.
_APART: Final = re.compile(r"\brs[ -](?=\d{3,12}\b)", re.IGNORECASE)
_CHROMOSOME: Final = re.compile(
    r"\b(?:chr|chromosom[ea]? |cromosoma )(?P<behind>\d{1,2}|[XY])\b|\b(?P<before>\d{1,2}|[XY])[ -]chromosome?\b",
    re.IGNORECASE,
)
_ORGANISMS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("mouse", "mice", "maus", "ratón", "raton", "souris"), "mouse"),
    **dict.fromkeys(("rat", "rats", "ratte", "rata"), "rat"),
    "zebrafish": "zebrafish",
}
_FORMS: Final[Mapping[Relation, str]] = {
    "symbol": "What is the official gene symbol of {}?",
    # The record that holds the name, the aliases and the organism is found by the symbol.
    "name": "What is the official gene symbol of {}?",
    "aliases": "What is the official gene symbol of {}?",
    "coding": "Is {} a protein-coding gene?",
    "function": "What does the gene {} do?",
    "location": "Which chromosome is {} gene located on human genome?",
    "organism": "What is the official gene symbol of {}?",
    "snp_gene": "Which gene is SNP {} associated with?",
    "snp_location": "Which chromosome does SNP {} locate on human genome?",
    "genes_of": "What are genes related to {}?",
}
# What is asked where a question names the answer itself: whether this gene is that of the variant or of the disease.
_CLAIMS: Final[Mapping[str, Relation]] = {"claimed_snp_gene": "snp_gene", "claimed_gene_of": "genes_of"}
# The questions of the head of relations were written with these names; they say how something is asked, not of what.
_GENE_STAND_IN: Final = "TP53"
_CLAIM_STAND_IN: Final = "BRCA2"
_ENSEMBL_STAND_IN: Final = "ENSG00000141510"
_SNP_STAND_IN: Final = "rs4680"
_STAND_INS: Final = frozenset((_GENE_STAND_IN.casefold(), "tp", "brca", "rs", "ensg"))
# From this probability on, the name of a disease is none of a gene, and the reverse.
_SURE_KIND: Final = 0.95
_NO_VECTOR: Final = np.zeros(0, np.float32)
# Unlike a symbol, what looks like a name, as "hsa-mir-99" and "tp53" do, is one only where something is asked of it.
_LIKE_A_NAME: Final = re.compile(r"(?<![\w.-])(?=\S*\d|\w+[A-Z])[A-Za-z][\w-]{2,}(?:\.\d+)?(?!\w)")
# In small letters, as a worm's genes are; only beside the word "gene", as "type-2" and "day-7" look the same.
_WORM_GENE: Final = re.compile(r"(?<=\bgene )[a-z]{3,4}-\d{1,3}\b|\b[a-z]{3,4}-\d{1,3}(?= gene\b)")


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """Hold a question as the model is asked it; ``relation`` is what is asked of ``subject``, "" where unknown.

    ``unread`` are words of a question on a name that stand in no question that the head of relations was trained on:
    the model answers as if they were not there. ``asking`` are its words that name nothing. ``is_in_scope``: it has a
    sequence or an identifier, or asks what is looked up of a gene or a disease. ``organism``: the one that is asked
    about, by its common name, "" where the question has none. ``is_of_disease``: it asks for the genes of a disease.
    ``chromosome``: it asks whether the subject is on this one, by its number or letter; of ``parts``, which of them is.
    ``claimed``: it asks whether this gene is the one of the variant or the disease that it names. ``choices``: one of
    these is to be chosen.
    ``parts``: the questions that it is a list of, each of one relation and one subject.
    """

    text: str
    relation: Relation = ""
    subject: str = ""
    unread: tuple[str, ...] = ()
    num_questions: int = 1
    asking: frozenset[str] = frozenset()
    is_in_scope: bool = True
    organism: str = ""
    is_of_disease: bool = False
    chromosome: str = ""
    claimed: str = ""
    choices: tuple[str, ...] = ()
    parts: tuple[ParsedQuestion, ...] = ()

    @property
    def is_plan(self) -> bool:
        """Return whether it says what is looked up of what."""
        return bool(self.relation or self.parts)

    @property
    def is_readable(self) -> bool:
        """Return whether it is in scope, and has no word that the model would not read."""
        return self.is_in_scope and not self.unread

    @property
    def database(self) -> str:
        """Return NCBI's database of the subject, "" where it is not known."""
        return "" if not self.relation else "snp" if self.relation.startswith("snp") else "gene"


def has_identifier(question: str) -> bool:
    """Return whether a question has a symbol, a number of a record, a position or their like."""
    return any(identifiers_in(question))


@dataclass(frozen=True, slots=True)
class QuestionReader:
    """Read questions by the heads that ship: of what is asked, and of names in words."""

    relations: RelationHead
    tagger: NameTagger
    known: frozenset[str]

    @classmethod
    def load(cls) -> QuestionReader:
        """Load the heads.

        Raises:
            ModelNotFound: this installation lacks them.
        """
        relations = load_relation_head(GENE_HEAD_DIR)
        return cls(relations, load_name_tagger(), frozenset().union(*relations.words.values(), _ORGANISMS))

    def read(self, question: str) -> ParsedQuestion:
        """Return the question in a form that the model was trained on, its own words where none fits."""
        choices, stem = listed_choices(question)
        asked = self._read_all(stem) if choices else ParsedQuestion(question)
        has_plan = bool(asked.relation or asked.is_of_disease)
        return replace(asked, choices=choices) if has_plan else self._read_all(question)

    def _read_all(self, question: str) -> ParsedQuestion:
        text = _APART.sub("rs", question)
        asked = one_line(text)
        parsed = self._read(asked)
        # A list of questions is read as a whole.
        if not parsed.parts and (part := self.asking_part(text)) != asked:
            asked, parsed = part, self._read(part)
        parsed = self._completed(parsed, asked)
        passed = [one for one in _SENTENCE.split(one_line(text)) if one.endswith("?") and one not in asked]
        return replace(parsed, num_questions=parsed.num_questions + sum(map(self._asks, passed[:_MOST_QUESTIONS])))

    def _asks(self, sentence: str) -> bool:
        """Return whether a sentence without a name asks what is looked up of one: "On which chromosome is it?"."""
        read = self._asked(about(sentence, [_GENE_STAND_IN]), _GENE_STAND_IN)
        return read.is_sure and read.name in _FORMS and not self._unread(sentence)

    def _completed(self, parsed: ParsedQuestion, asked: str) -> ParsedQuestion:
        parts = tuple(self._completed(one, asked) for one in parsed.parts)
        organisms = _organisms(asked)
        organism = organisms.pop() if len(organisms) == 1 else ""
        is_of_place = all(one.relation.endswith("location") for one in parts or (parsed,))
        chromosome = _chromosome(asked) if is_of_place and (parts or asks_yes_or_no(asked)) else ""
        known = (self.known - _words(parsed.subject) - _STAND_INS).intersection(_words(parsed.text))
        return replace(parsed, asking=known, organism=organism, chromosome=chromosome, parts=parts)

    def _read(self, text: str) -> ParsedQuestion:
        if COT_TRIGGER in text or _SEQUENCE.search(text):
            return ParsedQuestion(text)
        named = self._names(text)
        if not named:
            return self._read_in_words(text)
        if claim := self._claim(text, named):
            return claim
        if parts := self._parts(text, named):
            return ParsedQuestion(text, parts=parts)
        bare = _without(named, text)
        # Where nothing is read, that words are known says nothing.
        unread = self._unread(bare) or tuple(sorted(_words(bare)))
        if len(named) > 1 or len(_organisms(bare)) > 1:
            is_read = self._relation(text, named[0]) == "genes_of"
            return ParsedQuestion(text, unread=() if is_read else unread)
        subject = named[0]
        relation = self._relation(text, subject)
        found = None if relation else self.tagger.find(text)
        if relation == "genes_of" or (found and subject in found.text and found.text != subject):
            # The abbreviation of a disease, or a part of a name in words.
            return self._read_in_words(text)
        if re.search(rf"[\w./-]{re.escape(subject)}|{re.escape(subject)}(?:[/-]|\.\w)", text):
            return ParsedQuestion(text)
        if relation == "symbol" and _ENSEMBL.fullmatch(subject):
            return ParsedQuestion(f"Convert {subject.upper()} to official gene symbol.", relation, subject.upper())
        if relation:
            return _formed(relation, subject, _organisms(bare))
        return ParsedQuestion(text, unread=unread)

    def _claim(self, text: str, named: list[str]) -> ParsedQuestion | None:
        """Return the question whether a gene is that of a variant or of a disease, None where a text is no such one."""
        genes = [one for one in named if not _RS.fullmatch(one)]
        found = None if len(named) > 1 else self.tagger.find(text)
        is_disease = found is not None and found.kind == DISEASE and found.probability >= _SURE_KIND
        variants = [found.text] if found and is_disease else [one for one in named if one not in genes]
        if len(genes) != 1 or len(variants) != 1 or genes[0] in variants[0]:
            return None
        read = self._asked(text.replace(genes[0], _CLAIM_STAND_IN), variants[0])
        if read.name not in _CLAIMS or not read.is_sure:
            return None
        return replace(_formed(_CLAIMS[read.name], variants[0], set()), claimed=genes[0])

    def _parts(self, text: str, named: list[str]) -> tuple[ParsedQuestion, ...]:
        """Return the questions that a text is a list of: of one name in each clause, or the same of each name.

        () where it is none, or where not every one is read.
        """
        sentences = [one for one in _SENTENCE.split(text) if one.endswith("?")]
        clauses = sentences if len(sentences) > 1 else _CLAUSE.split(text)
        if max(len(named), len(clauses)) > _MOST_QUESTIONS:
            return ()
        if len(named) == 1 and len(clauses) > 1:
            asked = [one if named[0] in one else about(one, named) for one in clauses]
        elif len(named) > 1:
            asked = sentences if len(sentences) > 1 else _of_each(text, named)
        else:
            asked = []
        bare = [_without(named, one) for one in asked]
        # A name alone asks for nothing.
        if not all(map(_words, bare)) or (len(named) == 1 and any(map(self._unread, bare))):
            return ()
        read = [self._read(one) for one in asked]
        parts = [part for one in read for part in one.parts or (one,)]
        kinds = {(one.relation, one.subject) for one in parts}
        # A name that no part is about stands in a sentence that would be passed over.
        is_whole = {one.subject.casefold() for one in parts} >= {one.casefold() for one in named}
        is_read = is_whole and len(kinds) == len(parts) and all(one.relation for one in parts)
        return tuple(parts) if is_read and 1 < len(parts) <= _MOST_QUESTIONS else ()

    def asking_part(self, question: str) -> str:
        """Return the one sentence of a message that asks for something in scope; the whole where there is not just one.

        Where it names no gene, those of the sentence before it stand behind it, or that sentence before it.
        """
        text = one_line(question)
        if COT_TRIGGER in text or _SEQUENCE.search(text):
            return text
        sentences = _SENTENCE.split(text)
        places = [place for place, one in enumerate(sentences) if one.endswith("?")]
        if len(places) > _MOST_QUESTIONS:
            return text
        if len(places) > 1:
            places = [place for place in places if self._is_in_scope(sentences[place])]
        if len(places) != 1 or len(sentences) == 1:
            return text
        asking = sentences[places[0]]
        if _symbols(asking):
            return asking
        named = next(filter(None, (_symbols(one) for one in reversed(sentences[: places[0]]))), [])
        asked = about(asking, named)
        # "TP53 is a pseudogene. True or false?" asks what its sentences say together.
        return (
            asked
            if not named or self._relation(asked, named[0])
            else " ".join(sentences[places[0] - 1 : places[0] + 1])
        )

    def _read_in_words(self, text: str) -> ParsedQuestion:
        """Read a question of a gene or a disease that is named in words."""
        found = self.tagger.find(text)
        if found is None:
            # "That SNP" is no name, and the question is one for this method all the same.
            asks = self.relations.read(_of_human(text), _NO_VECTOR).name in _FORMS
            return ParsedQuestion(text, is_in_scope=asks or has_identifier(text))
        name, bare = found.text, f"{text[: found.start]} {text[found.end :]}"
        asked = self._asked(text, name)
        # A name alone asks for nothing.
        is_read = asked.is_sure and asked.name in _FORMS and bare.strip(" ?.!") and not self._unread(bare)
        relation = cast(Relation, asked.name) if is_read else ""
        organisms = _organisms(bare)
        is_of_kind = (relation == "genes_of") == (found.kind == DISEASE) or found.probability < _SURE_KIND
        if not relation or relation.startswith("snp") or not is_of_kind or len(organisms) > 1:
            return ParsedQuestion(text, is_in_scope=has_identifier(text) or asked.name != OTHER)
        return _formed(relation, name, organisms)

    def _names(self, text: str) -> list[str]:
        """Return what is a name by its form: symbols, worm genes, Ensembl's numbers, and what looks like one."""
        named = _symbols(text) or _WORM_GENE.findall(text) or _ENSEMBL.findall(text) or self._like_names(text)
        return list(dict.fromkeys(named))

    def _like_names(self, text: str) -> list[str]:
        """Return the one word that looks like a name and of which something is asked that only genes have."""
        named = {one for one in _LIKE_A_NAME.findall(text) if one.upper() not in EVERYDAY}
        return [
            one
            for one in named
            if len(named) == 1 and self._relation(text, one) in ("symbol", "aliases", "coding", "organism")
        ]

    def _relation(self, text: str, subject: str) -> Relation:
        """Return what a question asks of its subject, "" for anything else and for what is not sure."""
        read = self._asked(text, subject)
        is_read = read.name in _FORMS and (read.is_sure or not self._unread(text.replace(subject, " ")))
        return cast(Relation, read.name) if is_read else ""

    def _asked(self, text: str, subject: str) -> AskedRelation:
        is_number = _ENSEMBL.fullmatch(subject)
        stand_in = _SNP_STAND_IN if _RS.fullmatch(subject) else _ENSEMBL_STAND_IN if is_number else _GENE_STAND_IN
        return self.relations.read(_of_human(text).replace(subject, stand_in), _NO_VECTOR)

    def _unread(self, text: str) -> tuple[str, ...]:
        return tuple(sorted(_words(text) - self.known))

    def _is_in_scope(self, sentence: str) -> bool:
        return has_identifier(sentence) or self.tagger.find(sentence) is not None


def _words(text: str) -> Set[str]:
    # Not the "s" of "what's".
    return {word.casefold() for word in _WORD.findall(text)} - {"s"}


def _of_human(text: str) -> str:
    """Return the text with "human" for the name of another organism, which the head of relations does not know."""
    return _WORD.sub(lambda found: "human" if found[0].casefold() in _ORGANISMS else found[0], text)


def _organisms(text: str) -> set[str]:
    return {_ORGANISMS[word] for word in _words(text) if word in _ORGANISMS} | ({organism_in(text)} - {"", "human"})


def _without(named: list[str], text: str) -> str:
    return re.sub("|".join(map(re.escape, named)), " ", text.replace(ABOUT, "("))


def _of_each(text: str, named: list[str]) -> list[str]:
    """Return the text with each name of a list in the list's place, [] where the names are no list."""
    found = [re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", text) for one in named]
    places = sorted((one.start(), one.end()) for one in found if one)
    gaps = [after[0] - before[1] for before, after in pairwise(places)]
    if len(places) < len(named) or max(gaps) > _LONGEST_GAP:
        return []
    begin, end = places[0][0], places[-1][1]
    return [f"{text[:begin]}{text[start:stop]}{text[end:]}" for start, stop in places]


def _chromosome(text: str) -> str:
    """Return the one chromosome that a text names, "" where there is none or more."""
    named = {(one["behind"] or one["before"]).upper() for one in _CHROMOSOME.finditer(text)}
    return named.pop() if len(named) == 1 else ""


def _symbols(text: str) -> list[str]:
    return [one.text for one in identifiers_in(text) if one.kind == "symbol"]


def _formed(relation: Relation, subject: str, organisms: Set[str]) -> ParsedQuestion:
    text = _FORMS[relation].format(subject)
    if relation == "genes_of":
        # The model was trained to search for the name by itself.
        return ParsedQuestion(text, is_of_disease=True)
    for organism in organisms:
        text = f"{text.rstrip('?').replace(' on human genome', '')} in {organism}?"
    return ParsedQuestion(text, relation, subject)
