"""Text that a model wrote, so that showing it fetches nothing and its links lead to web pages only. Pure.

A chat client that renders Markdown or HTML fetches an image as soon as it is shown: an address with something of the
conversation in it is then on its way to whoever wrote it, perhaps into an abstract that the model read. One space is
enough to make such a construct plain text in Markdown, and it stays readable:

    ![x](address)           ! [x](address)       an image becomes a link
    <img src=address>       < img src=address>   so does every element that can have attributes
    [x](javascript:...)     [x] (javascript:...) and addresses of other kinds than http and https
    [x]: data:...           [x] : data:...
    <vbscript:...>          < vbscript:...>

Nothing else is changed, and nothing removed. A construct is judged by the few characters behind its first, so text is
held back for no more than ``MOST_HELD`` of them, and how the text was cut into pieces makes no difference.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

MOST_HELD: Final = 64
_TRIGGER: Final = re.compile(r"[!<\]]")
_BLANKS: Final = " \t\n\r\f\v"
_WEB: Final = frozenset({"http", "https"})
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
# What HTML and SVG know; other names are dropped by whoever shows HTML of others at all.
_ELEMENT_NAMES: Final = (
    "a abbr address animate applet area article aside audio b base bdi bdo bgsound big blink blockquote body br "
    "button canvas caption center circle cite code col colgroup data datalist dd defs del desc details dfn dialog "
    "dir div dl dt ellipse em embed feimage fieldset figcaption figure filter font footer foreignobject form "
    "frame frameset g h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe image img input ins isindex kbd "
    "keygen label legend li line link listing main map mark marquee mask math menu menuitem meta meter mpath nav "
    "nobr noembed noframes noscript object ol optgroup option output p param path pattern picture plaintext "
    "polygon polyline portal pre progress q rect rp rt ruby s samp script section select set slot small source "
    "span strike strong style sub summary sup svg symbol table tbody td template text textarea tfoot th thead "
    "time title tr track tspan tt u ul use var video view wbr xmp "
)
_ELEMENTS: Final = frozenset(_ELEMENT_NAMES.split())
# These do harm without attributes, too.
_BARE: Final = frozenset({"script", "style", "plaintext", "xmp", "textarea", "title", "noscript", "template", "iframe"})


class SafeText:
    """A stream of text: ``feed`` gives what is decided, ``flush`` the rest. ``place`` leads from a character in what
    was fed to the same character in what was given."""

    def __init__(self) -> None:
        self._held = ""
        self._last = ""  # a sign that was given before it could be judged
        self._num_fed = 0
        self._spaces: list[int] = []  # positions in what was fed before which there is a space now

    def feed(self, text: str) -> str:
        return self._give(text, ends=False)

    def flush(self) -> str:
        """What is held back, which must be decided now."""
        return self._give("", ends=True)

    def place(self, position: int) -> int:
        """Right for what was given."""
        return position + bisect_right(self._spaces, position)

    def _give(self, text: str, *, ends: bool) -> str:
        held = self._held + text
        start = self._num_fed - len(self._held)
        self._num_fed += len(text)
        given: list[str] = []
        if held and self._last:
            if _opens(self._last + held[0]):
                self._spaces.append(start)
                given.append(" ")
            self._last = ""
        at = 0
        while (sign := _TRIGGER.search(held, at)) is not None:
            found = sign.start()
            safe = is_safe(held[found : found + MOST_HELD], ends=ends)
            if safe is None:
                break
            given.append(held[at : found + 1])
            at = found + 1
            if not safe:
                self._spaces.append(start + at)
                given.append(" ")
        else:
            found = len(held)
        given.append(held[at:found])
        self._held = held[found:]
        if ends and held:
            self._last = held[-1]
        return "".join(given)


def safe_text(text: str) -> str:
    """The whole of it at once."""
    stream = SafeText()
    return stream.feed(text) + stream.flush()


def is_safe(text: str, *, ends: bool) -> bool | None:
    """Whether the sign at the beginning may be followed by what follows it; None where more must be seen. ``ends``:
    nothing is known of what follows, if anything."""
    if len(text) == 1:
        return True if ends else None
    if not _opens(text[:2]):
        return True
    if text[0] == "!":
        return False
    decided = _element(text) if text[0] == "<" else _link(text)
    # What has no end in sight is no link or element that anybody would miss.
    return False if decided is None and (ends or len(text) >= MOST_HELD) else decided


def _opens(signs: str) -> bool:
    """Whether these two may begin something."""
    return signs in ("![", "](", "]:") or (signs[0] == "<" and signs[1].isascii() and signs[1].isalpha())


def _element(text: str) -> bool | None:
    """``<name``, or an address in angle brackets."""
    name = _NAME.match(text, 1)
    assert name is not None
    if name.end() == len(text):
        return None
    behind, word = text[name.end()], name[0].lower()
    if behind == ":":
        return word in _WEB
    if behind == ">":
        return word not in _BARE
    return behind not in "/" + _BLANKS or word not in _ELEMENTS


def _link(text: str) -> bool | None:
    """``](address`` or ``]: address``: nothing before the first colon but a web scheme."""
    begin = 2
    while begin < len(text) and text[begin] in _BLANKS:
        begin += 1
    is_angled = text[begin : begin + 1] == "<"
    begin += is_angled
    if text[begin : begin + 2] in ("/", "//"):  # of another host, by the scheme of whatever page shows it
        return None if len(text) == begin + 1 else False
    for place in range(begin, len(text)):
        sign = text[place]
        if sign == ":":
            return text[begin:place].lower() in _WEB
        if sign in "&\\":  # they may stand for a colon, or hide in a scheme's name
            return False
        if sign in "/?#)>" or (sign in _BLANKS and not (is_angled and sign == "\t")):
            return True
    return None
