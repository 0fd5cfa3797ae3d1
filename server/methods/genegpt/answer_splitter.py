"""Part the answer from what a model writes before it, as its text comes. Pure."""

from __future__ import annotations

from typing import Final

from server.methods.base import TextDelta

MARK: Final = "Answer:"
CALL_OPENER: Final = "[https://"


def extract_answer(text: str) -> str:
    """Return the text after the last ``Answer:``, all of it where there is no such mark."""
    return text.rpartition(MARK)[2].strip()


class AnswerSplitter:
    """Turn sampled text and calls, fed in order, into text deltas and the final ``answer``.

    With ``multi_hop`` every ``Answer:`` may belong to a sub-question, so the answer is emitted at the end. Without it,
    the answer streams from the first ``Answer:`` on. Text that may become a call is buffered until that is decided.
    """

    def __init__(self, *, multi_hop: bool) -> None:
        self._multi_hop = multi_hop
        self._buffer = ""
        self._pending: str | None = None  # text since the last mark; None before the first
        self._since_call = ""
        self._sent_answer = ""

    @property
    def answer(self) -> str:
        """Return the answer so far; it is final after ``finish``."""
        return (self._pending if self._pending is not None else extract_answer(self._since_call)).strip()

    def feed(self, text: str) -> list[TextDelta]:
        self._buffer += text
        keep = _undecided(self._buffer)
        ready, self._buffer = self._buffer[:keep], self._buffer[keep:]
        return self._release(ready)

    def discard_call(self) -> list[TextDelta]:
        """Discard the buffered text, which was a call, and release what precedes the call as reasoning.

        Text between the last mark and the call was not the final answer.
        """
        before, _, _ = self._buffer.rpartition(CALL_OPENER)
        self._buffer = ""
        deltas = self._release(before)
        deltas += self._drop_pending()
        self._since_call = ""
        return deltas

    def finish(self) -> list[TextDelta]:
        rest, self._buffer = self._buffer, ""
        deltas = self._release(rest)
        if self._pending is None or self._multi_hop or not self._sent_answer:
            deltas += self._answer_delta(self.answer)
        return deltas

    def _release(self, text: str) -> list[TextDelta]:
        self._since_call += text
        deltas: list[TextDelta] = []
        while MARK in text:
            before, _, text = text.partition(MARK)
            deltas += self._plain(before)
            deltas += self._drop_pending()
            self._pending = ""
        return deltas + self._plain(text)

    def _plain(self, text: str) -> list[TextDelta]:
        if not text:
            return []
        if self._pending is None:
            return [TextDelta(text, "reasoning")]
        self._pending += text
        if self._multi_hop:
            return []
        # Trailing white space is withheld: the answer may end here, and it is stripped.
        answer = self._pending.strip()
        return self._grow(answer)

    def _grow(self, answer: str) -> list[TextDelta]:
        new = answer[len(self._sent_answer) :]
        self._sent_answer = answer
        return self._answer_delta(new)

    def _drop_pending(self) -> list[TextDelta]:
        """Drop the text after the last mark as the final answer.

        It belongs to a sub-question, or a call follows it.
        """
        if self._pending is None:
            return []
        text, self._pending = self._pending, None
        if self._multi_hop:
            return [TextDelta(f"{MARK}{text}", "reasoning")]
        sent, self._sent_answer = self._sent_answer, ""
        # That text has been sent already, so the next answer starts on a new line.
        return [TextDelta("\n", "answer")] if sent else []

    def _answer_delta(self, text: str) -> list[TextDelta]:
        return [TextDelta(text, "answer")] if text else []


def _undecided(text: str) -> int:
    """Return the offset of the suffix that may still become a call or a mark, or the text's length if there is none."""
    opener = text.rfind(CALL_OPENER)
    if opener >= 0 and "\n" not in text[opener:]:
        return opener
    cuts = [len(text) - n for word in (CALL_OPENER, MARK) for n in range(1, len(word)) if text.endswith(word[:n])]
    return min(cuts, default=len(text))
