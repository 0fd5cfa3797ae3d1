"""Write the grammar of free text with calls as Lark of which llguidance computes masks quickly.

llguidance walks over all tokens of a vocabulary, but those of a slice, an expression whose texts may all follow. It
finds that out for what is repeated and for the first letter of an alternative, and never beside a lazy terminal. So
free text is an expression of its own, with an alternative for the narrower slice at each place inside an opener.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

# That of calls in text; what begins otherwise is left to xgrammar.
_OPENER: Final = "[https://"
_RULES: Final = """%llguidance {{}}
start: {first}(opened)* TEXT
opened: HEAD CALL {end}
HEAD: TEXT {opener}
TEXT: /{text}/
CALL: /{call}/
"""


def slices() -> list[str]:
    """Return expressions of tokens that may follow at most places of free text, the narrower one first."""
    free = _unlike(_OPENER[0])
    return [f"{_unlike(_OPENER)}{free}*", f"{free}+"]


def calls_as_lark(spec: str) -> str | None:
    """Return the Lark of a structural tag that ``models.decoding.grammar`` builds for calls, None for any other."""
    try:
        form = json.loads(spec)["format"]
        first, free = form["elements"] if form["type"] == "sequence" else (None, form)
        (tag,) = free["tags"]
        is_call = tag["begin"] == _OPENER and tag["content"]["type"] == "regex" and first in (None, tag)
        if is_call and free == {"type": "triggered_tags", "triggers": [_OPENER], "tags": [tag]}:
            return _rules(tag, is_first=first is not None)
    except (ValueError, LookupError, TypeError, AttributeError):
        pass  # xgrammar says what is wrong with it
    return None


def _rules(tag: Mapping[str, Any], *, is_first: bool) -> str:
    opener, end = json.dumps(_OPENER), tag["end"]
    end = json.dumps(end) if isinstance(end, str) else f"<[{end['token']}]>"
    return _RULES.format(
        first=f"{opener} CALL {end} " if is_first else "",
        end=end,
        opener=opener,
        text=_in_slashes(_text_without(_OPENER)),
        call=_in_slashes(tag["content"]["pattern"]),
    )


def _text_without(opener: str) -> str:
    """Return the expression of texts without the opener, whose first letter stands in it once."""
    free, begun = _unlike(opener[0]) + "*", ""
    for letter in reversed(opener[1:]):
        others = re.escape("".join(sorted(set(opener[1:]) - {letter})))
        goes_on = f"{re.escape(letter)}{begun}|" if begun else ""
        # An alternative of nothing, as behind a "?" the library looks for no slices.
        begun = f"({_unlike(opener)}{free}|[{others}]{free}|{goes_on})"
    return f"{free}({re.escape(opener[0])}{begun})*"


def _unlike(letters: str) -> str:
    return f"[^{re.escape(letters)}]"


def _in_slashes(pattern: str) -> str:
    """Escape the slashes of a regular expression that are not escaped yet."""
    return re.sub(r"(\\.)|/", lambda found: found[1] or "\\/", pattern, flags=re.DOTALL)
