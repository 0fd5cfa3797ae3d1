r"""Sanitize text of a model, so that displaying it fetches nothing and its links lead to web pages only.

A chat client that renders Markdown or HTML fetches an image as soon as it is displayed: a URL that contains part of the
conversation brings it to an attacker, e.g. the author of an abstract that the model read. One space makes such a
construct plain text in Markdown, and it stays readable:

    ![x](address)           ! [x](address)       an image becomes a link
    <img src=address>       < img src=address>   also every element but plain ``_FORMATTING``
    </svg>, <!--, <?xml     < /svg>, < !--, < ?xml
    [x](javascript:...)     [x] (javascript:...) also URLs of schemes other than http and https
    [x]: data:...           [x] : data:...
    <vbscript:...>          < vbscript:...>
    \href{...}             \ href{...}            also the other commands of KaTeX and MathJax that make links or HTML

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
_TRIGGER: Final = re.compile(r"[!<\]\\]")
_BLANKS: Final = " \t\n\r\f\v"
_WEB: Final = frozenset({"http", "https"})
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
# Elements that only format text. Without attributes they load nothing and lead nowhere.
_FORMATTING_NAMES: Final = (
    "b blockquote br caption cite code dd del dl dt em h1 h2 h3 h4 h5 h6 hr i ins kbd li mark ol p q s samp small "
    "strong sub sup table tbody td tfoot th thead tr u ul var"
)
_FORMATTING: Final = frozenset(_FORMATTING_NAMES.split())
_EMPTY: Final = frozenset({"br", "hr"})
_OPENING: Final = _FORMATTING | _WEB
# A control word is the longest run of letters. Beside those of KaTeX that need its "trust" option, those of MathJax,
# and what builds or loads a command by its name.
_WORD: Final = re.compile(r"[A-Za-z@]*")
_COMMAND_NAMES: Final = "href url includegraphics class cssid style data require csname unicode mmltoken action texttip"
_COMMANDS: Final = frozenset(_COMMAND_NAMES.split())
_COMMAND_PREFIX: Final = "html"


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
    match text[0]:
        case "!":
            decided: bool | None = False
        case "<":
            decided = _element(text)
        case "\\":
            decided = _command(text)
        case _:
            decided = _link(text)
    # A construct that is incomplete or too long to judge is no useful link or element.
    return False if decided is None and (ends or len(text) >= MAX_LOOKAHEAD) else decided


def _opens(signs: str) -> bool:
    """Return whether these two characters may begin a construct."""
    first, second = signs[0], signs[1]
    is_letter = second.isascii() and second.isalpha()
    if first == "<":
        return is_letter or second in "/!?"
    return (first == "\\" and is_letter) or signs in ("![", "](", "]:")


def _element(text: str) -> bool | None:
    """Return whether ``<name``, ``</name`` or a URL in angle brackets is safe, None if more text is needed."""
    if text[1] in "!?":
        return False
    is_end = text[1] == "/"
    if is_end and len(text) == 2:
        return None
    name = _NAME.match(text, 1 + is_end)
    if name is None:
        return False
    word, rest = name[0].lower(), text[name.end() : name.end() + 3]
    if not rest:
        return None if any(known.startswith(word) for known in _OPENING) else False
    if rest[0] == ":":
        return word in _WEB and not is_end
    if rest[0] == ">":
        return word in _FORMATTING
    if word in _EMPTY and not is_end and rest in ("/", " ", " /"):
        return None
    return word in _EMPTY and not is_end and (rest[:2] == "/>" or rest == " />")


def _command(text: str) -> bool | None:
    """Return whether a backslash with a word is safe, None if more text is needed."""
    found = _WORD.match(text, 1)
    assert found is not None
    word = found[0].lower()
    if word.startswith(_COMMAND_PREFIX):
        return False
    if found.end() < len(text):
        return word not in _COMMANDS
    return None if any(known.startswith(word) for known in (*_COMMANDS, _COMMAND_PREFIX)) else True


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
                yield replace(event, text=thoughts.feed(text) + thoughts.flush())
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
