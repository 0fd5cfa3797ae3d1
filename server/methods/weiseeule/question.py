"""Read a question with its marks: keywords, fixed keywords, and the request for articles. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from retrieval.lexical.question_keywords import parse_marked
from server.methods.base import OptionInvalid
from server.methods.weiseeule.library import AskedKeyword
from server.methods.weiseeule.options import WeiseOptions

# "text #34": articles of PubMed's part 34, that is PMIDs from 34 million on.
_ARTICLES: Final = re.compile(r"(?s)(?P<text>[^#\s].*?)\s*(?<!\S)#(?P<part>\d{1,3})\s*")
PMIDS_OF_A_PART: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """Hold a question without its marks.

    ``keywords`` are those of the marks or of the options, () where the extractor has to find them; ``source`` says
    which. ``part`` is that of ``query #n``, None for none.
    """

    text: str
    keywords: tuple[AskedKeyword, ...] = ()
    source: str = ""
    only_fixed: bool = False
    recommend: bool = False
    part: int | None = None


def read_question(text: str, options: WeiseOptions) -> AskedQuestion:
    """Return the question without marks, with its keywords.

    Raises:
        OptionInvalid: the question is empty without its marks, or a fixed keyword is none of the keywords.
    """
    articles = _ARTICLES.fullmatch(text)
    if articles or options.recommend:
        part = int(articles["part"]) if articles else None
        return AskedQuestion(articles["text"] if articles else text, recommend=True, part=part)
    marked = parse_marked(text)
    question = marked.question if marked else text
    if not re.search(r"\w", question):
        raise OptionInvalid("the question has no words", param="messages")
    only_fixed = options.only_fixed or bool(marked and marked.only_fixed)
    found = tuple(AskedKeyword(one.text, one.fixed) for one in marked.keywords) if marked else ()
    source = "marks" if found else ""
    if options.keywords:
        found, source = tuple(AskedKeyword(one) for one in dict.fromkeys(options.keywords)), "options"
    return AskedQuestion(question, with_fixed(found, options) if found else (), source, only_fixed)


def with_fixed(keywords: tuple[AskedKeyword, ...], options: WeiseOptions) -> tuple[AskedKeyword, ...]:
    """Return the keywords with those fixed that the options name.

    Raises:
        OptionInvalid: an option names a keyword that is not there.
    """
    if options.fixed is None:
        return keywords
    if options.fixed in ("all", "none"):
        return tuple(AskedKeyword(one.text, options.fixed == "all") for one in keywords)
    wanted = {one.casefold(): one for one in options.fixed}
    known = {one.text.casefold() for one in keywords}
    if missing := [one for folded, one in wanted.items() if folded not in known]:
        names = ", ".join(one.text for one in keywords)
        raise OptionInvalid(
            f"arrowhead.fixed: {missing[0]!r} is none of the keywords ({names})", param="arrowhead.fixed"
        )
    return tuple(AskedKeyword(one.text, one.text.casefold() in wanted) for one in keywords)
