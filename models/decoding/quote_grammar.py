"""Build the grammar of an answer that consists of verbatim quotes from numbered passages.

Pure text; the engine compiles it. Each line of the output is a whole quotable text of one passage, followed by that
passage's number, so that no quote can be changed, cut, or stand under another number. What may be quoted, from where to
where, is the caller's choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from models.errors import GrammarInvalid
from models.types import Grammar

MAX_PASSAGES: Final = 64
MAX_CHARS: Final = 60_000
_MARK: Final = "> "
# What stands as it is in a string of both libraries' Lark. vLLM also looks for "::=" and "//" in the whole text.
_PLAIN: Final = frozenset(" abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,;-()%+<>[]'")


def quote_line(text: str, number: int) -> str:
    """Return the line by which ``text`` is quoted from passage ``number``."""
    return f"{_MARK}{text} [{number}]"


def quote_grammar(
    quotable: Mapping[int, Sequence[str]], *, most: int, endings: Sequence[str] = (), nothing: str
) -> Grammar:
    """Build the grammar of one to ``most`` lines of quotes and then one of ``endings``, if any; or of ``nothing``.

    ``quotable`` has the texts of each passage by its number; texts and endings are single lines.

    Raises:
        GrammarInvalid: there is nothing to quote, a text is not one line, or there are too many passages or characters.
    """
    # xgrammar copies a rule of strings alone to each place that refers to it, and computes the masks of each copy: the
    # rule of all texts is referred to once, by one that is not copied.
    lines = [quote_line(text, number) for number, texts in quotable.items() for text in texts]
    _check(quotable, [*lines, *endings, nothing])
    quotes = f'line ("\\n" line){{0,{most - 1}}}' if most > 1 else "line"
    rules = [
        f"start: NOTHING | {quotes}" + (' "\\n" ENDING' if endings else ""),
        f"NOTHING: {_string(nothing)}",
        "line: MARK QUOTE",
        f"MARK: {_string(_MARK)}",
        f"QUOTE: {_either(line.removeprefix(_MARK) for line in lines)}",
        *([f"ENDING: {_either(endings)}"] if endings else []),
    ]
    return Grammar("lark", "\n".join(rules) + "\n", param="synthesis")


def _check(quotable: Mapping[int, Sequence[str]], lines: Sequence[str]) -> None:
    if not any(quotable.values()):
        raise GrammarInvalid("there is nothing to quote", param="synthesis")
    if len(quotable) > MAX_PASSAGES or sum(map(len, lines)) > MAX_CHARS:
        raise GrammarInvalid(
            f"quotes are taken from at most {MAX_PASSAGES} passages of {MAX_CHARS} characters together",
            param="synthesis",
        )
    if any(not line.isprintable() for line in lines):
        raise GrammarInvalid("a quote is one line of printable text", param="synthesis")


def _either(texts: Iterable[str]) -> str:
    return "\n    | ".join(_string(text) for text in dict.fromkeys(texts))


def _string(text: str) -> str:
    return '"' + "".join(char if char in _PLAIN else _escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    """Return a JSON escape: a letter of another script may carry marks of direction that a lexer refuses."""
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
