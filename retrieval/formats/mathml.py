"""Write MathML as one line of text with the marks of ``notation``: fractions with a slash, powers and indices marked.

Formulas of articles hold numbers above all (p = 3 × 10⁻⁴, 1/2): no digit may change its place in one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final
from xml.etree.ElementTree import Element

# Control characters, which no XML document holds. What a GAP keeps apart must not read as one word or number; a
# NUMBER_GAP keeps two numbers apart alone.
RAISE, LOWER, UNMARK, GAP, NUMBER_GAP = "\x01", "\x02", "\x03", "\x04", "\x05"
_LEFT_OUT: Final = frozenset(("annotation", "annotation-xml", "mphantom", "none", "mprescripts", "malignmark"))
_INVISIBLE: Final = str.maketrans(dict.fromkeys("\u2061\u2062\u2063\u2064", GAP))
_ACCENTS: Final = {"¯": "\u0304", "‾": "\u0304", "_": "\u0304", "^": "\u0302", "ˆ": "\u0302", "~": "\u0303",
                   "˜": "\u0303", "˙": "\u0307", "→": "\u20d7"}  # fmt: skip
_OPERATOR: Final = re.compile(rf"(?<=.)[\s+\-−±×·⋅*/=<>≤≥,;{RAISE}{LOWER}{GAP}]")
_FENCED: Final = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\|[^|]*\|")


def math_text(element: Element) -> str:
    """Return a formula, or a part of one, as text with marks."""
    name = element.tag.rpartition("}")[2]
    if name in _LEFT_OUT:
        return ""
    if name in _WRITERS:
        return _WRITERS[name](element)
    if name == "mtext":
        return element.text or ""
    if len(element):
        return "".join(map(math_text, element))
    return " ".join((element.text or "").split()).translate(_INVISIBLE)


def _bracketed(text: str) -> str:
    """Return the text as one operand."""
    bare = text.strip()
    return f"({bare})" if _OPERATOR.search(bare) and not _FENCED.fullmatch(bare) else bare


def _children(element: Element, count: int) -> list[str]:
    """Return the texts of the first ``count`` children, "" for those that are not there."""
    return [*map(math_text, list(element)[:count]), *[""] * (count - len(element))]


def _fraction(element: Element) -> str:
    above, below = _children(element, 2)
    if re.match(r"\s*0", element.get("linethickness", "")):  # one above the other, as in a binomial coefficient
        return f"{GAP}{above}; {below}{GAP}"
    return f"{GAP}{_bracketed(above)}/{_bracketed(below)}{GAP}"


def _power(element: Element) -> str:
    base, exponent = _children(element, 2)
    return f"{NUMBER_GAP}{_bracketed(base)}{RAISE}{exponent}{UNMARK}"


def _index(element: Element) -> str:
    base, index = _children(element, 2)
    return f"{NUMBER_GAP}{_bracketed(base)}{LOWER}{index}{UNMARK}"


def _index_and_power(element: Element) -> str:
    base, index, exponent = _children(element, 3)
    return f"{NUMBER_GAP}{_bracketed(base)}{LOWER}{index}{UNMARK}{RAISE}{exponent}{UNMARK}"


def _over(element: Element) -> str:
    base, above = _children(element, 2)
    if (accent := _ACCENTS.get(above.strip())) and len(base.strip()) == 1:
        return base.strip() + accent
    return base + above if not any(map(str.isalnum, above)) else f"{base}{RAISE}{above}{UNMARK}"


def _under(element: Element) -> str:
    base, below = _children(element, 2)
    return base if not any(map(str.isalnum, below)) else f"{base}{LOWER}{below}{UNMARK}"


def _square_root(element: Element) -> str:
    return f"√{_bracketed(''.join(map(math_text, element)))}"


def _root(element: Element) -> str:
    base, degree = _children(element, 2)
    return f"{NUMBER_GAP}{_bracketed(base)}{RAISE}1/{degree}{UNMARK}"


def _fence(element: Element) -> str:
    inner = (element.get("separators", ",").strip()[:1]).join(map(math_text, element))
    return f"{element.get('open', '(')}{inner}{element.get('close', ')')}"


def _table(element: Element) -> str:
    rows = [" ".join(map(math_text, row)) for row in element]
    return f"{GAP}{'; '.join(rows)}{GAP}"


def _scripts_around(element: Element) -> str:
    """Write a base with scripts behind it and, after mprescripts, before it, as isotopes have them."""
    names = [child.tag.rpartition("}")[2] for child in element]
    middle = names.index("mprescripts") if "mprescripts" in names else len(names)
    texts = [math_text(child) for child in element]
    base = texts[0] if texts else ""
    return f"{NUMBER_GAP}{_scripts(texts[middle + 1 :])}{base}{_scripts(texts[1:middle])}"


def _scripts(texts: list[str]) -> str:
    marks = (LOWER, RAISE)
    return "".join(f"{marks[at % 2]}{text}{UNMARK}" for at, text in enumerate(texts) if text)


_WRITERS: Final[Mapping[str, Callable[[Element], str]]] = {
    "mfrac": _fraction,
    "msup": _power,
    "msub": _index,
    "msubsup": _index_and_power,
    "mover": _over,
    "munder": _under,
    "munderover": _index_and_power,
    "msqrt": _square_root,
    "mroot": _root,
    "mfenced": _fence,
    "mtable": _table,
    "mmultiscripts": _scripts_around,
    "mspace": lambda _: " ",
    "semantics": lambda element: math_text(element[0]) if len(element) else "",
}
