"""Put ``[n]`` behind each sentence of an answer that stands in a record, while the answer is being written."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from server.methods.shared.call_lines import MAX_REFERENCES

Page = tuple[str, str]
_CLOSED: Final = r"[.?!]+[\"'”’)\]]*"
# Between two sentences or lines; a full stop within a number or before a small letter ends none.
_BETWEEN: Final = re.compile(rf"(?:{_CLOSED})?\s*\n\s*(?=\S)|{_CLOSED}\s+(?=[\"'“‘(\[*#-]*[A-Z0-9])")
_OPEN: Final = re.compile(rf"(?:{_CLOSED})?\s*[\"'“‘(\[*#-]*$")


class InlineCitations:
    """Number the records of an answer in the order in which its sentences cite them.

    ``standing`` returns the title and address of the records in which a part of a text stands, best first. The result
    does not depend on where the pieces of the text are cut.
    """

    def __init__(self, standing: Callable[[str], list[Page]]) -> None:
        self._standing = standing
        self._sentence = ""
        self._held = ""
        self.cited: list[Page] = []

    def feed(self, text: str) -> str:
        """Return the text that can be shown now: what may end a sentence is held back."""
        text, self._held, shown = self._held + text, "", ""
        while found := _BETWEEN.search(text):
            shown += text[: found.start()] + self._mark(text[: found.start()]) + found[0]
            self._sentence, text = "", text[found.end() :]
        held = _OPEN.search(text)
        place = held.start() if held else len(text)
        self._sentence += text[:place]
        self._held = text[place:]
        return shown + text[:place]

    def finish(self, *, cites: bool = True) -> str:
        """Return the rest, with the mark of the last sentence where it ``cites``."""
        rest, self._held = self._held, ""
        marked = (self._mark("") if cites else "") + rest
        self._sentence = ""
        return marked

    def _mark(self, rest: str) -> str:
        sentence = (self._sentence + rest).strip()
        if not sentence:
            return ""
        for page in self._standing(sentence):
            if page not in self.cited and len(self.cited) < MAX_REFERENCES:
                self.cited.append(page)
        numbers = [self.cited.index(page) + 1 for page in self._standing(sentence) if page in self.cited]
        return f" [{', '.join(map(str, sorted(numbers)))}]" if numbers else ""
