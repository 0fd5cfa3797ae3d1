"""Read a WeiseEule request: its options, the keywords of its question, and the prompts made of them.

Unknown keys and wrong values are refused by name. Keywords are marked in the question, given, or written by the model
under a JSON schema; the wording of the prompts is ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from models.errors import ArrowheadError
from models.types import GenerateParams, Grammar
from retrieval.corpus.items import date_number
from retrieval.corpus.search.ranking import MAX_K
from retrieval.lexical.question_keywords import Keyword, parse_marked
from server.methods.base import OptionInvalid
from server.methods.shared.generation import Generations, PromptFormatter, prompt_text
from server.methods.shared.options import Flag, Namespaces, NumSentences, refuse, validated
from server.methods.shared.passages import PassageQuery
from server.methods.shared.reading.gate import DEFAULT_SENTENCES
from server.methods.shared.synthesis import Synthesis
from server.methods.weiseeule.library import Matching, Restriction, TextSearch, WeiseRetriever

MAX_KEYWORDS: Final = 32
MAX_ARTICLES: Final = 50
_MAX_KEYWORD: Final = 200
_MAX_TYPES: Final = 100
_PMID: Final = re.compile(r"(?:PMID:\s*)?([1-9]\d{0,8})", re.ASCII)
_LAST: Final = ((10_000, 1231), (100, 31))
_INSTEAD: Final = {
    "compare": "ask once for each retriever; POST /v1/search shows what each finds",
    "egress": "search is local, so nothing leaves and there is nothing to set",
    "extractor": "mark the keywords in the question, or send them as keywords",
}
# "text #34": articles of PubMed's part 34, that is PMIDs from 34 million on.
_ARTICLES: Final = re.compile(r"(?s)(?P<text>[^#\s].*?)\s*(?<!\S)#(?P<part>\d{1,3})\s*")
PMIDS_OF_A_PART: Final = 1_000_000
MAX_WRITTEN: Final = 8
_MAX_TOKENS: Final = 200
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "keywords": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 80},
            "minItems": 1,
            "maxItems": MAX_WRITTEN,
        }
    },
    "required": ["keywords"],
    "additionalProperties": False,
}


def _line(value: str) -> str:
    if not value.strip() or len(value) > _MAX_KEYWORD or not value.isprintable():
        raise ValueError(f"must be one line of at most {_MAX_KEYWORD} characters")
    return " ".join(value.split())


def _pmid(value: Any) -> Any:
    found = None if isinstance(value, bool) else _PMID.fullmatch(str(value).strip())
    if found is None:
        raise ValueError("must be a PMID")
    return found[1]


def _first_day(value: Any) -> int:
    number = date_number(value) if isinstance(value, str) else 0
    if number <= 0:
        raise ValueError("must be a day, a month or a year: 2020-01-31, 2020-01, 2020")
    return number


def _last_day(value: Any) -> int:
    number = _first_day(value)
    return next((number + last for part, last in _LAST if number % part == 0), number)


def _each_once(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


_Text = Annotated[str, AfterValidator(_line)]
_Pmid = Annotated[str, BeforeValidator(_pmid)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeiseOptions:
    """Hold the options of a request.

    - ``keywords``: () reads them from the question: its marks, else those that the model or names and counts choose.
    - ``papers``: PMIDs to which the search is restricted (``articles``).
    - ``recommend``: recommend articles instead of answering.
    - ``synthesis``, ``sentences``: as for MedRAG.
    """

    namespaces: Namespaces = ()
    retriever: WeiseRetriever = "pes2"
    matching: Matching = "variants"
    keywords: Annotated[tuple[_Text, ...], Field(min_length=1, max_length=MAX_KEYWORDS)] = ()
    k: Annotated[int, Field(strict=True, ge=1, le=MAX_K)] = 10
    articles: Annotated[
        tuple[_Pmid, ...], Field(min_length=1, max_length=MAX_ARTICLES), AfterValidator(_each_once)
    ] = ()
    date_from: Annotated[int, BeforeValidator(_first_day)] = 0
    date_to: Annotated[int, BeforeValidator(_last_day)] = 0
    types: Annotated[tuple[_Text, ...], Field(min_length=1, max_length=_MAX_TYPES)] = ()
    recommend: Flag = False
    references: Flag = True
    synthesis: Synthesis | None = None
    sentences: NumSentences = DEFAULT_SENTENCES

    @property
    def where(self) -> Restriction:
        return Restriction(self.date_from, self.date_to, self.types, self.articles)

    def text_search(self, query: str, retriever: WeiseRetriever, k: int) -> TextSearch:
        """Return the search of a text within the limits of the request."""
        return TextSearch(query=query, retriever=retriever, namespaces=self.namespaces, k=k, where=self.where)

    @property
    def passage_query(self) -> PassageQuery:
        """Return what the namespaces check before any work."""
        return PassageQuery(namespaces=self.namespaces, k=self.k)


def parse_options(values: Mapping[str, Any]) -> WeiseOptions:
    """Return the validated options.

    Raises:
        OptionInvalid: ``param`` names the key.
    """
    options = validated(WeiseOptions, values, why_none=_INSTEAD)
    if options.date_to and options.date_from > options.date_to:
        refuse("date_from", "lies after date_to")
    return options


@dataclass(frozen=True, slots=True)
class KeywordQuestion:
    """Hold a question without its marks.

    ``keywords`` are those of the marks or of the options, () where they have to be found; ``source`` says
    which. ``part`` is that of ``query #n``, None for none.
    """

    text: str
    keywords: tuple[Keyword, ...] = ()
    source: str = ""
    only_fixed: bool = False
    recommend: bool = False
    part: int | None = None


def read_question(text: str, options: WeiseOptions) -> KeywordQuestion:
    """Return the question without marks, with its keywords.

    Raises:
        OptionInvalid: the question is empty without its marks.
    """
    articles = _ARTICLES.fullmatch(text)
    if articles or options.recommend:
        part = int(articles["part"]) if articles else None
        return KeywordQuestion(articles["text"] if articles else text, recommend=True, part=part)
    marked = parse_marked(text)
    question = marked.question if marked else text
    if not re.search(r"\w", question):
        raise OptionInvalid("the question has no words", param="messages")
    only_fixed = bool(marked and marked.only_fixed)
    found = marked.keywords if marked else ()
    source = "marks" if found else ""
    if options.keywords:
        found, source = tuple(Keyword(one) for one in dict.fromkeys(options.keywords)), "options"
    return KeywordQuestion(question, found, source, only_fixed)


@dataclass(frozen=True, slots=True)
class WrittenKeywords:
    """Hold what the model wrote; ``fault`` says why it cannot be used, "" where it can."""

    keywords: tuple[Keyword, ...] = ()
    fault: str = ""


async def written_keywords(
    generations: Generations, layout: PromptFormatter, prompts: tuple[str, str], question: str, cache_salt: str | None
) -> WrittenKeywords:
    """Return the keywords that the model chooses, those alone that the question has.

    ``prompts`` are the system's part and the instruction. A model that fails, or writes something else, is reported.
    """
    system, how = prompts
    params = GenerateParams(
        max_tokens=_MAX_TOKENS,
        temperature=0.0,
        cache_salt=cache_salt,
        grammar=Grammar("json_schema", json.dumps(_SCHEMA)),
        stop_on_repetition=True,
    )
    try:
        prompt = await layout.prompt(system, f"Question: {question}\n\n{how}")
        written = await generations.write(prompt, params)
    except ArrowheadError as error:
        return WrittenKeywords(fault=error.message)
    return read_keywords(written.text, question)


def read_keywords(written: str, question: str) -> WrittenKeywords:
    """Parse what the model wrote; nothing of it is evaluated. Keywords that the question does not have are dropped."""
    try:
        found = json.loads(written)["keywords"]
        words = [" ".join(str(one).split()) for one in found if isinstance(one, str)]
    except (ValueError, KeyError, TypeError):
        return WrittenKeywords(fault="it wrote no list of keywords")
    asked = _bare(question)
    kept = tuple(Keyword(one) for one in dict.fromkeys(words) if one and _bare(one) in asked)[:MAX_WRITTEN]
    return WrittenKeywords(kept) if kept else WrittenKeywords(fault="it wrote no keyword of the question")


def _bare(text: str) -> str:
    words = re.findall(r"[^\W_]+", text.casefold())
    return f" {' '.join(words)} "


@dataclass(frozen=True, slots=True)
class Prompts:
    """Hold the instructions, read once."""

    system: str
    answer: str
    keywords_system: str
    keywords: str
    summary_system: str
    summary: str

    @classmethod
    def load(cls) -> Prompts:
        return cls(*(prompt_text("weiseeule", f"{field.name}.txt") for field in fields(cls)))

    def user(self, question: str, context: str) -> str:
        """Return the user's part of an answer's prompt; text that many questions share comes first."""
        return f"Passages:\n{context}\n\nQuestion: {question}\n\n{self.answer}"

    def summary_user(self, text: str, context: str, most: int) -> str:
        """Return the user's part of the prompt for an article's summary."""
        return f"Passages:\n{context}\n\nText: {text}\n\n{self.summary.format(most=most)}"
