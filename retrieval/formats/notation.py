"""Write powers, indices and fractions of marked-up text as plain text, in one way for all readers.

Without their markup 10<sup>6</sup> would read as 106, which is another number. Readers mark what stands raised or
lowered (``raised``, ``lowered``) while they collect a text, and ``plain`` decides, from what stands around each mark:

    10<sup>6</sup>, m<sup>2</sup>   10⁶, m²      Unicode's own characters where all have one
    10<sup>x</sup>, 5<sup>a</sup>   10^(x), 5^(a)    else in brackets, behind ^ or _
    CO<sub>2</sub>, V<sub>max</sub> CO2, Vmax    an index of letters is joined, as chemists write it
    <sup>18</sup>F, Ca<sup>2+</sup> 18F, Ca2+    isotopes, charges, CD4+ and 4th too

Digits never meet that markup kept apart: log<sub>2</sub>5 is log₂5, SO<sub>4</sub><sup>2-</sup> is SO4²⁻.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element

from retrieval.formats.mathml import GAP, LOWER, NUMBER_GAP, RAISE, UNMARK, math_text

_MARKS: Final = re.compile(f"([{RAISE}{LOWER}{UNMARK}])")
_ALL_MARKS: Final = re.compile(f"[{RAISE}{LOWER}{UNMARK}{GAP}{NUMBER_GAP}]")
# A sign and its number may be raised one by one.
_SPLIT_SIGN: Final = re.compile(f"{RAISE}([+\\-−–‐‑])\\s*{UNMARK}{RAISE}")
_NEEDED_GAP: Final = re.compile(
    rf"(?<=[\w)\]]){NUMBER_GAP}*{GAP}[{GAP}{NUMBER_GAP}]*(?=[\w(\[√])|(?<=\d){NUMBER_GAP}+(?=\d)"
)
_RAISED: Final = str.maketrans("0123456789+-−–‐‑=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻⁻⁻⁼⁽⁾ⁿ")
_LOWERED: Final = str.maketrans("0123456789+-−–‐‑=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₋₋₋₌₍₎")
# A second one beside it is another number.
_RAISED_CHARS: Final = frozenset(map(chr, _RAISED.values()))
_LOWERED_CHARS: Final = frozenset(map(chr, _LOWERED.values()))
_TYPED: Final = re.compile(r"(?<=[0-9])([⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
_HAS_RAISED: Final = re.compile(r"[+\-−–‐‑=]?(?:[0-9]+|n|[0-9]+[+\-−–‐‑])")
_HAS_LOWERED: Final = re.compile(r"[+\-−–‐‑=]?[0-9]+")
# Pages set a sign apart from its number.
_SIGN_GAP: Final = re.compile(r"(?<=[0-9]) (?=[+−-]$)|(?<=^[+−-]) (?=[0-9])")
_SIGN: Final = re.compile(r"[+\-−–‐‑]")
_CHARGE: Final = re.compile(r"[0-9]{0,2}[+\-−–‐‑]")
_ISOTOPE: Final = re.compile(r"[0-9]{1,3}m?")
_BEFORE_ISOTOPE: Final = re.compile(rf"(?:^|[\s(\[{{{GAP}{NUMBER_GAP}]|[^\W\d_][-/–])$")
_ELEMENT: Final = re.compile(r"[A-Z][a-z]?(?![A-Za-z])")
_ORDINALS: Final = frozenset(("st", "nd", "rd", "th"))
_PURE_NUMBER: Final = re.compile(r"(?:^|[^\w.,])[0-9][0-9.,]*$")
# The e of 2e5 is part of a number.
_NAME: Final = re.compile(r"(?:[^\W\d_]|[)\]])$")
_EXPONENT_LETTER: Final = re.compile(r"[0-9][eE]$")
_INDEX: Final = re.compile(r"\w+(?:[,./]\w+)*|[0-9]+[-–][0-9∞a-z]+")
_CONTEXT: Final = 24


def raised(text: str) -> str:
    return f"{RAISE}{text}{UNMARK}"


def lowered(text: str) -> str:
    return f"{LOWER}{text}{UNMARK}"


def without_marks(text: str) -> str:
    """Return a text from elsewhere without the control characters that are marks here."""
    return _ALL_MARKS.sub("", text)


def typed_powers(text: str) -> str:
    """Return a text with the raised numbers behind digits as typed: 10^6 for 10⁶, which NFKC would make 106."""
    return _TYPED.sub(r"^\1", text)


def marked(element: Element, own: str) -> str | None:
    """Return the text of a child whose form carries meaning, given its text ``own`` with marks; None for others.

    These are sup, sub and TEI's hi; formulas in MathML have ``math_text``.
    """
    name = element.tag.rpartition("}")[2]
    place = element.get("rend", "") if name == "hi" else name
    if place in ("sup", "superscript"):
        return raised(own)
    return lowered(own) if place in ("sub", "subscript") else None


def marked_text(element: Element) -> str:
    """Return all text within an element, with marks, for ``plain``."""
    return "".join(_pieces(element))


def _pieces(element: Element) -> Iterator[str]:
    if element.text:
        yield element.text
    for child in element:
        if child.tag.rpartition("}")[2] == "math":
            yield math_text(child)
        else:
            own = marked_text(child)
            found = marked(child, own)
            yield own if found is None else found
        if child.tail:
            yield child.tail


def text_of(element: Element | None) -> str:
    """Return all text within an element as plain text, with runs of white space collapsed."""
    if element is None:
        return ""
    text = plain(marked_text(element)) if len(element) else element.text or ""
    return " ".join(text.split())


def plain(text: str) -> str:
    """Return a text with its marks resolved; one without marks is unchanged."""
    if _ALL_MARKS.search(text) is None:
        return text
    parts = _MARKS.split(_SPLIT_SIGN.sub(rf"{RAISE}\1", text))
    frames: list[tuple[str, list[str]]] = [("", [])]
    for at, part in enumerate(parts):
        if part in (RAISE, LOWER) and part:
            frames.append((part, []))
        elif part == UNMARK and len(frames) > 1:
            mark, inner = frames.pop()
            out = frames[-1][1]
            out.append(_written(mark, ("".join(out[-_CONTEXT:])[-_CONTEXT:], "".join(inner), parts[at + 1])))
        elif part:
            frames[-1][1].append(part)
    whole = "".join(piece for _, pieces in frames for piece in pieces)
    return _ALL_MARKS.sub("", _NEEDED_GAP.sub(" ", whole))


def _written(mark: str, parts: tuple[str, str, str]) -> str:
    """Return what stands raised or lowered, between what is before and after it."""
    before, inner, after = parts
    text = _SIGN_GAP.sub("", inner.strip())
    end = " " if inner[-1:].isspace() else ""
    if not text:
        return end
    after = end + after
    return (_raised(before, text, after) if mark == RAISE else _lowered(before, text, after)) + end


def _raised(before: str, text: str, after: str) -> str:
    if not any(map(str.isalnum, text)):
        is_power = _SIGN.fullmatch(text) and _PURE_NUMBER.search(before)
        return text.translate(_RAISED) if is_power else text
    if text.startswith("[") and text.endswith("]"):  # a citation
        return text
    if text in _ORDINALS and before[-1:].isdigit():
        return text
    if _ISOTOPE.fullmatch(text) and _BEFORE_ISOTOPE.search(before) and _ELEMENT.match(after):
        return text
    if _CHARGE.fullmatch(text) and _is_name(before) and not after[:1].isdigit():
        return text
    has_form = _HAS_RAISED.fullmatch(text) and before[-1:] not in _RAISED_CHARS
    return text.translate(_RAISED) if has_form else f"^({text})"


def _lowered(before: str, text: str, after: str) -> str:
    if not any(map(str.isalnum, text)):
        return text
    meets_digit = after[:1].isdigit()
    if _is_name(before) and _INDEX.fullmatch(text) and not (meets_digit and text[-1].isdigit()):
        return text
    if before[-1:].isdigit() and text.isalpha() and text not in "eE" and not meets_digit:
        return text
    has_form = _HAS_LOWERED.fullmatch(text) and before[-1:] not in _LOWERED_CHARS
    return text.translate(_LOWERED) if has_form else f"_({text})"


def _is_name(before: str) -> bool:
    return _NAME.search(before) is not None and _EXPONENT_LETTER.search(before) is None
