"""Build the grammars that restrict a model to well-formed calls, JSON or choices.

Pure text; the engine compiles it. Knows the shape of a call in text, not which calls are allowed: that expression comes
from the call table. What the grammar admits must still be checked when it arrives: ``max_tokens`` can cut a call
anywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from models.engines.base import Tokenizer
from models.errors import GRAMMAR_INVALID, ModelError
from models.types import Grammar

DEFAULT_OPENER = "[https://"
DEFAULT_CLOSER = "]->"
# Pretty-printed JSON has at most so many blanks in a row; without a limit, a weak model writes blanks for ever.
_MAX_BLANKS = 32


def call_grammar(
    call_regex: str, tokenizer: Tokenizer, *, opener: str = DEFAULT_OPENER, closer: str = DEFAULT_CLOSER
) -> Grammar:
    """Build a grammar for free text in which every ``opener`` begins a call that ``call_regex`` matches.

    ``closer`` ends the call. ``call_regex`` matches the text between the opener's bracket and the closer, so each of
    its alternatives must begin with the rest of the opener (``https://``) literally.

    Raises:
        ModelError: an alternative does not begin so.
    """
    return _structural_tag(_free_text_with_calls(call_regex, tokenizer, opener, closer))


def forced_call_grammar(
    call_regex: str, tokenizer: Tokenizer, *, opener: str = DEFAULT_OPENER, closer: str = DEFAULT_CLOSER
) -> Grammar:
    """Build the grammar of ``call_grammar`` for an output that begins with a call."""
    free = _free_text_with_calls(call_regex, tokenizer, opener, closer)
    return _structural_tag({"type": "sequence", "elements": [free["tags"][0], free]})


def json_grammar(schema: Mapping[str, Any], param: str) -> Grammar:
    """Build the grammar of an output that is one JSON value of ``schema``; ``param`` is the request's field."""
    return replace(_structural_tag(json_form(schema)), param=param)


def choice_grammar(choices: Sequence[str], param: str) -> Grammar:
    """Build the grammar of an output that is one of ``choices``."""
    elements = [{"type": "const_string", "value": choice} for choice in choices]
    return replace(_structural_tag({"type": "or", "elements": elements}), param=param)


def json_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": dict(schema), "max_whitespace_cnt": _MAX_BLANKS}


def _free_text_with_calls(call_regex: str, tokenizer: Tokenizer, opener: str, closer: str) -> dict[str, Any]:
    content = {"type": "regex", "pattern": _without_prefix(call_regex, opener[1:])}
    tag = {"type": "tag", "begin": opener, "content": content, "end": _end(tokenizer, closer)}
    return {"type": "triggered_tags", "triggers": [opener], "tags": [tag]}


def _end(tokenizer: Tokenizer, closer: str) -> Any:
    # With a single end token the call stops exactly at the arrow: no larger token can extend beyond it. The id and not
    # the token's text, which vLLM cannot look up when it validates the tag.
    token_id = tokenizer.token_id(closer)
    return closer if token_id is None else {"type": "token", "token": token_id}


def _structural_tag(form: dict[str, Any]) -> Grammar:
    return Grammar("structural_tag", json.dumps({"type": "structural_tag", "format": form}))


def _without_prefix(call_regex: str, prefix: str) -> str:
    """Remove the literal ``prefix``, which the trigger has already written, from every alternative."""
    alternatives = _top_level_alternatives(call_regex)
    if len(alternatives) > 1:
        return "|".join(f"(?:{_without_prefix(a, prefix)})" for a in alternatives)
    inner = _unwrapped(call_regex)
    if inner is not None:
        return _without_prefix(inner, prefix)
    literal = re.compile("".join(rf"\\?{re.escape(char)}" for char in prefix))
    match = literal.match(call_regex)
    if match is None or call_regex[match.end() :][:1] in ("?", "*", "+", "{"):
        raise ModelError(f"the call expression does not begin with {prefix!r}", GRAMMAR_INVALID, param="call_regex")
    return call_regex[match.end() :]


def _unwrapped(pattern: str) -> str | None:
    """Return the content of a group around the whole pattern, or None."""
    opened = re.match(r"\((?:\?:)?(?!\?)", pattern)
    if opened is None or next(end for end, depth in _depths(pattern) if depth == 0) != len(pattern) - 1:
        return None
    return pattern[opened.end() : -1]


def _top_level_alternatives(pattern: str) -> list[str]:
    bars = [at for at, depth in _depths(pattern) if depth == 0 and pattern[at] == "|"]
    edges = [-1, *bars, len(pattern)]
    return [pattern[a + 1 : b] for a, b in pairwise(edges)]


def _depths(pattern: str) -> list[tuple[int, int]]:
    """Return the position, and the group depth after it, of every character that is neither escaped nor in a class."""
    depths, depth, in_class, position = [], 0, False, 0
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            position += 2
            continue
        if in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        else:
            depth += {"(": 1, ")": -1}.get(char, 0)
            depths.append((position, depth))
        position += 1
    return depths
