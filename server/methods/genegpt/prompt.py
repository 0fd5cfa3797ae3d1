"""Write what GeneGPT's model is asked: the prompt of the parts that a mask selects, and the question as it was trained.

The parts are those of the paper's Table 1: Dc.1 (E-utilities), Dc.2 (BLAST), Dm.1 alias, Dm.2 SNP, Dm.3 disease, Dm.4
alignment, in this order. The wording is ours, and no demonstration is a question of the benchmark. Demonstrations are
rendered from stored facts, without network access.

A model that was trained for look-ups alone reads one short question of a known wording. Of a longer message, the
sentence that asks is taken. A trained head tells what a question asks of one gene or variant, in English, German,
Spanish or French, also of a gene that is named in words ("the insulin gene"); it then gets the trained wording.
Everything else is asked as it stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, cast

import numpy as np

from models.encoders.relation_head import GENE_HEAD_DIR, OTHER, RelationHead, load_relation_head
from retrieval.ncbi.calls.entrez_spelling import entrez_spelling
from retrieval.ncbi.replies.condense import condense
from retrieval.ncbi.replies.records import (
    BlastHit,
    BlastResult,
    GeneRecord,
    IdList,
    OmimRecord,
    ParsedReply,
    Record,
    RecordList,
    SnpRecord,
)
from retrieval.types import Focus
from server.methods.shared.conversation.follow_ups import ABOUT, about
from server.methods.shared.generation import prompt_text, with_instruction
from server.methods.shared.identifiers import EVERYDAY, identifiers_in

MASKS: Mapping[str, str] = {"full": "111111", "slim": "001001", "none": "000000"}
COT_TRIGGER = "Let's decompose the question to sub-questions and solve them step by step."
_PARTS = ("dc1", "dc2", "dm1", "dm2", "dm3", "dm4")
_DEMO_REPLY_CHARS = 1200
Relation = Literal["", "symbol", "name", "aliases", "coding", "function", "location", "snp_gene", "snp_location"]
# What NCBI's databases hold.
SUBJECT: Final = re.compile(
    r"\b(?:genes?|genetic\w*|genom\w*|snps?|rs\d+|variants?|mutations?|alleles?|diseases?|disorders?|syndromes?|cancers?|"
    r"tumou?rs?|chromosom\w*|loc(?:us|i)|proteins?|enzymes?|receptors?|sequences?|dna|rna|organisms?|species|symbols?|"
    r"alias(?:es)?|ortholog\w*|transcripts?|exons?|pathways?|drugs?|pubmed|articles?|[ACGTN]{20,})\b",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(r"(?<=[.?!])[\"'”’)]*\s+")
_SEQUENCE: Final = re.compile(r"(?<![A-Za-z])[ACGTN]{20,}(?![A-Za-z])", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_ENSEMBL: Final = re.compile(r"\bENSG\d{11}\b", re.IGNORECASE)
_RS: Final = re.compile(r"rs\d+", re.IGNORECASE)
_ORGANISMS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("mouse", "mice", "maus", "ratón", "raton", "souris"), "mouse"),
    **dict.fromkeys(("rat", "rats", "ratte", "rata"), "rat"),
    "zebrafish": "zebrafish",
}
_FORMS: Final[Mapping[Relation, str]] = {
    "symbol": "What is the official gene symbol of {}?",
    # The record that holds the name and the aliases is found by the symbol.
    "name": "What is the official gene symbol of {}?",
    "aliases": "What is the official gene symbol of {}?",
    "coding": "Is {} a protein-coding gene?",
    "function": "What does the gene {} do?",
    "location": "Which chromosome is {} gene located on human genome?",
    "snp_gene": "Which gene is SNP {} associated with?",
    "snp_location": "Which chromosome does SNP {} locate on human genome?",
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The questions of the head of relations were written with these names; they say how something is asked, not of what.
_GENE_STAND_IN: Final = "TP53"
_ENSEMBL_STAND_IN: Final = "ENSG00000141510"
_SNP_STAND_IN: Final = "rs4680"
_NO_VECTOR: Final = np.zeros(0, np.float32)
# Unlike a symbol, what looks like a name, as "hsa-mir-99" and "tp53" do, is one only where something is asked of it.
_LIKE_A_NAME: Final = re.compile(r"(?<![\w.-])(?=\S*\d|\w+[A-Z])[A-Za-z][\w-]{2,}(?:\.\d+)?(?!\w)")
# In small letters, as a worm's genes are; only beside the word "gene", as "type-2" and "day-7" look the same.
_WORM_GENE: Final = re.compile(r"(?<=\bgene )[a-z]{3,4}-\d{1,3}\b|\b[a-z]{3,4}-\d{1,3}(?= gene\b)")
# The name of a disease: words, no further question and no clause.
_GENES_OF: Final = re.compile(
    r"(?:which|what)(?: is| are)?(?: the)?(?: human)? genes?(?: that| which| is| are| can)* "
    r"(?:causes?|causing|caused|responsible for|associated with|related to|linked (?:to|with)|underl(?:ies?|ying)|"
    r"mutated in) (?P<disease>(?:(?!(?:and|or|which|what|in|when|where|how|with)\b)[\w'-]+ ?){1,8}?)\?",
    re.IGNORECASE,
)
_CAUSES: Final = _words("related associated responsible cause causes causing")
# A gene named in words: what stands beside the name, what may stand in it, and what is no name.
_NAME_WORD: Final = re.compile(r"[^\W_](?:[\w'’-]*[^\W_])?")
_GENE: Final = _words("gene gen gène gens gène")
_IN_NAME: Final = _words("protein of for and a b c d e")
_NO_NAME: Final = re.compile(
    r"(?:this|that|these|my|your|our|same|other|any|some|one|each|every|such|associated|related|snp|variant|mutation|"
    r"therapy|editing|expression|transfer|panel|test|knock-?\w+|\w+ed|\w*(?:syndrome|disease|disorder|cancer|trophy|"
    r"osis|itis|emia|oma|pathy|plasia|ataxia|asthma|diabetes))s?",
    re.IGNORECASE,
)
_MAX_NAME_WORDS: Final = 6


def resolve_mask(mask: str) -> str | None:
    """Return the six digits of a mask given by name or as digits, None for anything else."""
    mask = MASKS.get(mask, mask)
    return mask if re.fullmatch("[01]{6}", mask) else None


def one_line(question: str) -> str:
    """Return the question on one line, since line breaks in it would look like the prompt's own.

    Its Greek letters and hyphens are Entrez's: the grammar of calls has no others, and a name must be writable.
    """
    return " ".join(entrez_spelling(question).split())


def question_line(question: str) -> str:
    return f"Question: {one_line(question)}\n"


@dataclass(frozen=True, slots=True)
class Prompt:
    """Hold all parts, rendered once, by name (dc1 … dm4)."""

    instruction: str
    chat_instruction: str
    parts: Mapping[str, str]

    @classmethod
    def load(cls) -> Prompt:
        facts = json.loads(prompt_text("genegpt", "demonstrations.json"))
        parts = {"dc1": prompt_text("genegpt", "dc1_eutils.txt"), "dc2": prompt_text("genegpt", "dc2_blast.txt")}
        parts |= {name: _demonstration(facts[name]) for name in _PARTS[2:]}
        return cls(prompt_text("genegpt", "instruction.txt"), prompt_text("genegpt", "instruction_chat.txt"), parts)

    def header(self, mask: str) -> str:
        """Return instruction, documentation and demonstrations, separated by blank lines; ``mask`` has six digits."""
        chosen = [name for name, digit in zip(_PARTS, mask, strict=True) if digit == "1"]
        docs = [self.parts[name] for name in chosen if name.startswith("dc")]
        demos = [self.parts[name] for name in chosen if name.startswith("dm")]
        blocks = [self.instruction, *docs, *(["Examples:"] if demos else []), *demos]
        return "\n\n".join(blocks)

    def base_form(self, mask: str, question: str) -> str:
        """Return the prompt for a model that continues text.

        Where the mask selects no part, the prompt is the question line alone: the form for models trained on
        transcripts.
        """
        head = "" if mask == MASKS["none"] else self.header(mask) + "\n\n"
        return head + question_line(question)

    def chat_form(self, mask: str, question: str, client_instruction: str = "") -> list[dict[str, str]]:
        """Return the messages for a model with a chat template."""
        system = with_instruction(f"{self.header(mask)}\n\n{self.chat_instruction}", client_instruction)
        return [{"role": "system", "content": system}, {"role": "user", "content": question_line(question).strip()}]


def _demonstration(facts: Mapping[str, Any]) -> str:
    lines = [f"Question: {facts['question']}"]
    for step in facts["steps"]:
        focus = Focus(terms=(step["focus"],) if "focus" in step else ())
        reply = condense(_parsed(step), focus, max_chars=_DEMO_REPLY_CHARS)
        lines.append(f"[{step['url']}]->{reply.text}")
    return "\n".join([*lines, f"Answer: {facts['answer']}"])


def _parsed(step: Mapping[str, Any]) -> ParsedReply:
    if "ids" in step:
        return IdList(step["ids"]["count"], tuple(step["ids"]["ids"]))
    if "blast" in step:
        hits = tuple(BlastHit(**hit) for hit in step["blast"]["hits"])
        return BlastResult(step["blast"]["query_length"], hits)
    builders: Mapping[str, tuple[str, Callable[..., Record]]] = {
        "genes": ("gene", GeneRecord),
        "snps": ("snp", SnpRecord),
        "omim": ("omim", OmimRecord),
    }
    for name, (db, build) in builders.items():
        if name in step:
            return RecordList(db, tuple(build(**_with_tuples(record)) for record in step[name]))
    raise ValueError(f"a demonstration step without facts: {sorted(step)}")


def _with_tuples(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        k: tuple(tuple(x) if isinstance(x, list) else x for x in v) if isinstance(v, list) else v
        for k, v in record.items()
    }


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """Hold a question as the model is asked it; ``relation`` is what is asked of ``subject``, "" where unknown.

    ``unread`` are words of a question on a name that stand in no question that the head of relations was trained on:
    the model answers as if they were not there. ``num_asked`` counts the questions.
    """

    text: str
    relation: Relation = ""
    subject: str = ""
    unread: tuple[str, ...] = ()
    num_questions: int = 1

    @property
    def database(self) -> str:
        """Return NCBI's database of the subject, "" where it is not known."""
        return "" if not self.relation else "snp" if self.relation.startswith("snp") else "gene"


def as_trained(question: str) -> ParsedQuestion:
    """Return the question in a form that the model was trained on, its own words where none fits."""
    text = asking_part(question)
    if COT_TRIGGER in text or _SEQUENCE.search(text):
        return ParsedQuestion(text)
    if (found := _GENES_OF.fullmatch(text)) and not any(
        one.kind == "symbol" for one in identifiers_in(found["disease"])
    ):
        return ParsedQuestion(f"What are genes related to {found['disease']}?")
    symbols = [one.text for one in identifiers_in(text) if one.kind == "symbol"]
    named = list(dict.fromkeys(symbols or _WORM_GENE.findall(text) or _ENSEMBL.findall(text) or _like_names(text)))
    bare = re.sub("|".join(map(re.escape, named)) or "$", " ", text.replace(ABOUT, "("))
    words = frozenset(word.casefold() for word in _WORD.findall(bare))
    organisms = {_ORGANISMS[word] for word in words if word in _ORGANISMS}
    if not named and not has_identifier(text) and (name := _gene_in_words(text)):
        named = [name]
    if len(named) != 1 or len(organisms) > 1:
        num_questions = sum(is_in_scope(one) for one in _SENTENCE.split(text) if one.endswith("?"))
        is_read = not named or _of_disease(words)
        return ParsedQuestion(text, unread=() if is_read else _unread(words), num_questions=max(1, num_questions))
    subject = named[0]
    is_snp = _RS.fullmatch(subject) is not None
    if (not is_snp and _of_disease(words)) or re.search(
        rf"[\w./-]{re.escape(subject)}|{re.escape(subject)}(?:[/-]|\.\w)", text
    ):
        # A part of a name, or the abbreviation of a disease.
        return ParsedQuestion(text)
    if relation := _relation(text, subject):
        if _ENSEMBL.fullmatch(subject) and relation == "symbol":
            return ParsedQuestion(f"Convert {subject.upper()} to official gene symbol.", relation, subject.upper())
        return ParsedQuestion(_formed(relation, subject, next(iter(organisms), "")), relation, subject)
    return ParsedQuestion(text, unread=_unread(words) or tuple(sorted(words)))


def _like_names(text: str) -> list[str]:
    """Return the one word that looks like a name and of which something is asked that only genes have."""
    named = {one for one in _LIKE_A_NAME.findall(text) if one.upper() not in EVERYDAY}
    return [one for one in named if len(named) == 1 and _relation(text, one) in ("symbol", "aliases", "coding")]


@cache
def _head() -> RelationHead:
    return load_relation_head(GENE_HEAD_DIR)


@cache
def _known_words() -> frozenset[str]:
    """Return the words of the questions that the head was trained on and that ask for a relation."""
    return frozenset().union(*_head().words.values())


def _relation(text: str, subject: str) -> Relation:
    """Return what a question asks of its subject, "" for anything else and for what is not sure."""
    is_number = _ENSEMBL.fullmatch(subject)
    stand_in = _SNP_STAND_IN if _RS.fullmatch(subject) else _ENSEMBL_STAND_IN if is_number else _GENE_STAND_IN
    asking = _WORD.sub(lambda found: "human" if found[0].casefold() in _ORGANISMS else found[0], text)
    read = _head().read(asking.replace(subject, stand_in), _NO_VECTOR)
    words = {word.casefold() for word in _WORD.findall(text.replace(subject, " "))}
    is_read = read.name != OTHER and (read.is_sure or not _unread(words))
    return cast(Relation, read.name) if is_read else ""


def _gene_in_words(text: str) -> str:
    """Return the one gene that is named in words, "" where there is none."""
    tokens = list(_NAME_WORD.finditer(text))
    words = [token[0].casefold() for token in tokens]
    genes = [place for place, word in enumerate(words) if word in _GENE]
    known = _known_words() | _ORGANISMS.keys()
    places = [place for place, word in enumerate(words) if word not in known]
    if len(genes) != 1 or not places:
        return ""
    first, last = places[0], places[-1]
    if last < genes[0]:
        last = genes[0] - 1
        first -= first > 0 and words[first - 1] == "protein"
    name = words[first : last + 1]
    is_name = len(name) <= _MAX_NAME_WORDS and all(word in _IN_NAME or word not in known for word in name)
    if not is_name or any(_NO_NAME.fullmatch(word) for word in name):
        return ""
    return text[tokens[first].start() : tokens[last].end()]


def _of_disease(words: frozenset[str]) -> bool:
    return not words.isdisjoint({"gene", "genes"}) and not words.isdisjoint(_CAUSES)


def _unread(words: Set[str]) -> tuple[str, ...]:
    return tuple(sorted(words - _known_words() - _ORGANISMS.keys()))


def _formed(relation: Relation, subject: str, organism: str) -> str:
    text = _FORMS[relation].format(subject)
    return f"{text.rstrip('?').replace(' on human genome', '')} in {organism}?" if organism else text


def is_in_scope(question: str) -> bool:
    """Return whether a question names anything that NCBI's databases hold."""
    return SUBJECT.search(question) is not None or has_identifier(question)


def has_identifier(question: str) -> bool:
    """Return whether a question has a symbol, a number of a record, a position or their like."""
    return any(identifiers_in(question))


def asking_part(question: str) -> str:
    """Return the one sentence of a message that asks for something in scope; the whole where there is not just one.

    Where it names no gene, those of the sentence before it stand behind it.
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
    named = [[found.text for found in identifiers_in(one) if found.kind == "symbol"] for one in sentences[: places[0]]]
    return about(asking, next(filter(None, reversed(named)), []))
