"""Parse Entrez query text to a tree, and write the tree as Entrez's translation.

Knows nothing of the store. Operators are AND, OR, NOT in capitals, applied from left to right; parentheses group;
adjacent words are AND-ed; a run of words before a [tag] is one term; quotes make a phrase. As in Entrez, missing
brackets are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from retrieval.gateway.store.reader import STOPWORDS, words_of

Operator = Literal["AND", "OR", "NOT"]
MAX_TERM_CHARS: Final = 10_000
MAX_TERMS: Final = 300
MAX_DEPTH: Final = 40


class QueryTooComplexError(ValueError):
    """Signal more text, terms or nesting than a query may have; the message says which."""


@dataclass(frozen=True, slots=True)
class Term:
    """Hold one search term; ``tag`` as written, without brackets ("" for none)."""

    text: str
    tag: str = ""
    quoted: bool = False

    @property
    def written(self) -> str:
        text = f'"{self.text}"' if self.quoted else self.text
        return f"{text}[{self.tag}]" if self.tag else text


@dataclass(frozen=True, slots=True)
class Run:
    """Hold adjacent words, all of which must match."""

    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Combination:
    """Combine two subtrees with an operator."""

    operator: Operator
    left: Node
    right: Node


Node = Term | Run | Combination


@dataclass(frozen=True, slots=True)
class Query:
    """Hold a parsed query.

    ``tree`` is None if nothing is left to search for; ``ignored`` are the stop words left out, in order.
    """

    tree: Node | None
    ignored: tuple[str, ...]


_LEXEME: Final = re.compile(
    r'\s*(?:(?P<open>\()|(?P<close>\))|"(?P<quoted>[^"]*)"?|\[(?P<tag>[^\]]*)\]?|(?P<word>[^\s()\[\]"]+))'
)
_OPERATORS: Final[dict[str, Operator]] = {"AND": "AND", "OR": "OR", "NOT": "NOT"}


@dataclass(frozen=True, slots=True)
class _Lexeme:
    kind: str
    text: str


_RANGE: Final = re.compile(r'"?([\w/.-]+)"?\s*(?:\[([^\]]*)\])?\s*:\s*"?([\w/.-]+)"?\s*\[([^\]]*)\]')


def parse_query(text: str) -> Query:
    """Parse a query; any text within the limits is accepted.

    Raises:
        QueryTooComplexError: the text exceeds a limit.
    """
    if len(text) > MAX_TERM_CHARS:
        raise QueryTooComplexError(f"the term has {len(text)} characters, {MAX_TERM_CHARS} are allowed")
    # A range is one term, however it is written: 2010:2015[dp], "2010"[Date] : "2015"[Date].
    text = _RANGE.sub(r"\1:\3[\4]", text)
    lexemes = list(_lexemes(text))
    if sum(lexeme.kind in ("word", "quoted") for lexeme in lexemes) > MAX_TERMS:
        raise QueryTooComplexError(f"the term has more than {MAX_TERMS} words")
    parser = _Parser(lexemes)
    return Query(parser.parse(), tuple(parser.ignored))


def _lexemes(text: str) -> Iterator[_Lexeme]:
    for match in _LEXEME.finditer(text):
        kind = match.lastgroup
        text = (match[kind] or "").strip() if kind is not None else ""
        if kind is not None and (text or kind != "tag"):  # an empty tag has no meaning
            yield _Lexeme(kind, text)


class _Parser:
    def __init__(self, lexemes: list[_Lexeme]) -> None:
        self._lexemes = lexemes
        self._at = 0
        self.ignored: list[str] = []

    def parse(self) -> Node | None:
        tree = self._expression(0)
        while self._at < len(self._lexemes):  # a stray ")" ended the expression: continue after it
            self._at += 1
            tree = _joined("AND", tree, self._expression(0))
        return tree

    def _expression(self, depth: int) -> Node | None:
        if depth > MAX_DEPTH:
            raise QueryTooComplexError(f"parentheses are nested more than {MAX_DEPTH} deep")
        tree: Node | None = None
        operator: Operator = "AND"
        while (lexeme := self._peek()) is not None and lexeme.kind != "close":
            if lexeme.kind == "word" and lexeme.text in _OPERATORS:
                operator = _OPERATORS[lexeme.text]
                self._at += 1
                continue
            tree = _joined(operator, tree, self._operand(depth))
            operator = "AND"
        return tree

    def _operand(self, depth: int) -> Node | None:
        lexeme = self._lexemes[self._at]
        if lexeme.kind != "open":
            return self._run()
        self._at += 1
        inner = self._expression(depth + 1)
        self._at += 1  # the closing bracket, or the end
        return inner

    def _run(self) -> Node | None:
        """Parse words up to an operator or bracket; each [tag] closes one term."""
        terms: list[Term] = []
        pending: list[Term] = []
        while (lexeme := self._peek()) is not None and lexeme.kind in ("word", "quoted", "tag"):
            if lexeme.kind == "word" and lexeme.text in _OPERATORS:
                break
            self._at += 1
            if lexeme.kind == "tag":
                terms += _tagged(pending, lexeme.text)
                pending = []
            else:
                pending.append(Term(lexeme.text, quoted=lexeme.kind == "quoted"))
        terms += (term for term in pending if _searchable(term))
        self.ignored += (term.text for term in pending if not _searchable(term))
        if not terms:
            return None
        return terms[0] if len(terms) == 1 else Run(tuple(terms))

    def _peek(self) -> _Lexeme | None:
        return self._lexemes[self._at] if self._at < len(self._lexemes) else None


def _searchable(term: Term) -> bool:
    words = words_of(term.text)
    return bool(words) and (term.quoted or not set(words) <= STOPWORDS)


def _tagged(pending: list[Term], tag: str) -> list[Term]:
    text = " ".join(term.text for term in pending if term.text)
    quoted = any(term.quoted for term in pending)
    return [Term(text, tag, quoted)] if words_of(text) else []


def _joined(operator: Operator, left: Node | None, right: Node | None) -> Node | None:
    if left is None or right is None:
        return left or right
    return Combination(operator, left, right)


def terms_of(node: Node) -> Iterator[Term]:
    """Yield all terms, left to right."""
    if isinstance(node, Term):
        yield node
    elif isinstance(node, Run):
        yield from node.terms
    else:
        yield from terms_of(node.left)
        yield from terms_of(node.right)


def translation(node: Node, render: Callable[[Term], str]) -> str:
    """Return Entrez's query translation; ``render`` writes one term with its field."""
    if isinstance(node, Term):
        return render(node)
    if isinstance(node, Run):
        return " AND ".join(map(render, node.terms))
    left, right = _wrapped(node.left, node.operator, render), _wrapped(node.right, "", render)
    return f"{left} {node.operator} {right}"


def _wrapped(node: Node, operator: str, render: Callable[[Term], str]) -> str:
    text = translation(node, render)
    plain = isinstance(node, Term) or (isinstance(node, Combination) and node.operator == operator)
    return text if plain else f"({text})"


def postfix(node: Node, top: bool = True) -> Iterator[Term | str]:
    """Yield Entrez's translation stack: terms and operators in postfix order."""
    if isinstance(node, Term):
        yield node
        if top:
            yield "GROUP"
    elif isinstance(node, Run):
        for index, term in enumerate(node.terms):
            yield term
            if index:
                yield "AND"
        yield "GROUP"
    else:
        yield from postfix(node.left, top=False)
        yield from postfix(node.right, top=False)
        yield node.operator
