"""Sanitize text of a model, so that displaying it fetches nothing and its links lead to web pages only.

A chat client that renders Markdown or HTML fetches an image as soon as it is displayed: a URL that contains part of the
conversation brings it to an attacker, e.g. the author of an abstract that the model read. One space makes such a
construct plain text in Markdown, and it stays readable:

    ![x](address)           ! [x](address)       an image becomes a link
    <img src=address>       < img src=address>   also every other element that can have attributes
    [x](javascript:...)     [x] (javascript:...) also URLs of schemes other than http and https
    [x]: data:...           [x] : data:...
    <vbscript:...>          < vbscript:...>

Nothing else is changed, and nothing is removed. A construct is judged by the few characters after its first, so at most
``MAX_LOOKAHEAD`` characters are buffered, and the result does not depend on how the text was split. There is
no I/O.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from server.methods.base import Channel, Done, Event, Evidence, Reference, Step, TextDelta, TranscriptDelta

MAX_LOOKAHEAD: Final = 64
_TRIGGER: Final = re.compile(r"[!<\]]")
_BLANKS: Final = " \t\n\r\f\v"
_WEB: Final = frozenset({"http", "https"})
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
# Elements of HTML and SVG; renderers that accept untrusted HTML drop other names.
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
# Harmful even without attributes.
_BARE: Final = frozenset({"script", "style", "plaintext", "xmp", "textarea", "title", "noscript", "template", "iframe"})


class TextSanitizer:
    """Sanitize a stream of text.

    ``feed`` returns what is decided, ``flush`` the rest. ``place`` maps a position in the input to that of the same
    character in the output.
    """

    def __init__(self) -> None:
        self._buffer = ""
        self._last = ""  # a character that was returned before it could be judged
        self._num_fed = 0
        self._spaces: list[int] = []  # positions in the input before which a space was inserted

    def feed(self, text: str) -> str:
        return self._give(text, ends=False)

    def flush(self) -> str:
        """Return the buffered text, which is decided now."""
        return self._give("", ends=True)

    def place(self, position: int) -> int:
        """Return the position in the output; valid for characters that were already returned."""
        return position + bisect_right(self._spaces, position)

    def _give(self, text: str, *, ends: bool) -> str:
        buffer = self._buffer + text
        start = self._num_fed - len(self._buffer)
        self._num_fed += len(text)
        parts: list[str] = []
        if buffer and self._last:
            if _opens(self._last + buffer[0]):
                self._spaces.append(start)
                parts.append(" ")
            self._last = ""
        at = 0
        while (sign := _TRIGGER.search(buffer, at)) is not None:
            found = sign.start()
            safe = is_safe(buffer[found : found + MAX_LOOKAHEAD], ends=ends)
            if safe is None:
                break
            parts.append(buffer[at : found + 1])
            at = found + 1
            if not safe:
                self._spaces.append(start + at)
                parts.append(" ")
        else:
            found = len(buffer)
        parts.append(buffer[at:found])
        self._buffer = buffer[found:]
        if ends and buffer:
            self._last = buffer[-1]
        return "".join(parts)


def sanitize_text(text: str) -> str:
    """Sanitize a complete text."""
    stream = TextSanitizer()
    return stream.feed(text) + stream.flush()


def is_safe(text: str, *, ends: bool) -> bool | None:
    """Return whether the rest of the text may follow its first character, None if more text is needed.

    ``ends``: nothing is known of what follows, if anything.
    """
    if len(text) == 1:
        return True if ends else None
    if not _opens(text[:2]):
        return True
    if text[0] == "!":
        return False
    decided = _element(text) if text[0] == "<" else _link(text)
    # A construct that is incomplete or too long to judge is no useful link or element.
    return False if decided is None and (ends or len(text) >= MAX_LOOKAHEAD) else decided


def _opens(signs: str) -> bool:
    """Return whether these two characters may begin a construct."""
    return signs in ("![", "](", "]:") or (signs[0] == "<" and signs[1].isascii() and signs[1].isalpha())


def _element(text: str) -> bool | None:
    """Return whether ``<name`` or a URL in angle brackets is safe, None if more text is needed."""
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
    """Return whether ``](address`` or ``]: address`` is safe, None if more text is needed.

    It is safe if nothing but a web scheme precedes the first colon.
    """
    begin = 2
    while begin < len(text) and text[begin] in _BLANKS:
        begin += 1
    is_angled = text[begin : begin + 1] == "<"
    begin += is_angled
    if text[begin : begin + 2] in ("/", "//"):  # protocol-relative: another host, under the scheme of the page
        return None if len(text) == begin + 1 else False
    for place in range(begin, len(text)):
        sign = text[place]
        if sign == ":":
            return text[begin:place].lower() in _WEB
        if sign in "&\\":  # an escape, which may stand for a colon or be part of a scheme
            return False
        if sign in "/?#)>" or (sign in _BLANKS and not (is_angled and sign == "\t")):
            return True
    return None


class EventSanitizer:
    """Sanitize the events of one answer, in order; references still point at their markers."""

    def __init__(self) -> None:
        self._texts: dict[Channel, TextSanitizer] = {"answer": TextSanitizer(), "reasoning": TextSanitizer()}

    def of(self, event: Event) -> Iterator[Event]:
        match event:
            case TextDelta(text=text, channel=channel):
                if channel == "answer":
                    yield from self._rest_of("reasoning")
                safe = self._texts[channel].feed(text)
                if safe or event.logprobs or not text:
                    yield replace(event, text=safe)
            case TranscriptDelta():
                yield event
            case Step(text=text):
                thoughts = self._texts["reasoning"]
                yield Step(thoughts.feed(text) + thoughts.flush())
            case Evidence(references=references):
                yield from self._rest_of("reasoning", "answer")
                yield Evidence(tuple(self._moved(reference) for reference in references))
            case Done(answer=answer):
                yield from self._rest_of("reasoning", "answer")
                yield replace(event, answer=sanitize_text(answer))
            case _:
                yield from self._rest_of("reasoning")
                yield event

    def _rest_of(self, *channels: Channel) -> Iterator[Event]:
        for channel in channels:
            if rest := self._texts[channel].flush():
                yield TextDelta(rest, channel)

    def _moved(self, reference: Reference) -> Reference:
        place = self._texts["answer"].place
        return replace(
            reference,
            start=place(reference.start),
            end=place(reference.end - 1) + 1 if reference.end else 0,
            title=sanitize_text(reference.title),
            text=sanitize_text(reference.text),
        )
