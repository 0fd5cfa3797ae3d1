"""Calls of a client's tools, read from pieces of text and from tokens."""

from __future__ import annotations

import json
import random

import pytest

from models.decoding.tool_calls import HERMES, LLAMA3, MISTRAL, CallParser, ToolCall, ToolCallReader, ToolFormat
from models.engines.scripted_engine import ByteTokenizer
from models.types import Delta

NAMES = frozenset({"look", "add"})
LOOK = ToolCall("look", '{"gene": "BRCA1"}')
ADD = ToolCall("add", '{"a": 1}')
L, A = '{"name": "look", "arguments": {"gene": "BRCA1"}}', '{"name": "add", "arguments": {"a": 1}}'
P = L.replace("arguments", "parameters")


def read(form: ToolFormat, pieces: list[str]) -> list[str | ToolCall]:
    """What a parser gives for the pieces, with neighbouring texts joined."""
    parser = CallParser(form, NAMES)
    joined: list[str | ToolCall] = []
    for found in [one for piece in pieces for one in parser.feed(piece)] + parser.finish():
        if isinstance(found, str) and joined and isinstance(joined[-1], str):
            joined[-1] += found
        else:
            joined.append(found)
    return joined


CASES: list[tuple[ToolFormat, str, list[str | ToolCall]]] = [
    (HERMES, f"<tool_call>\n{L}\n</tool_call>", [LOOK]),
    (HERMES, f"I look.\n<tool_call>{L}</tool_call>\n<tool_call>{A}</tool_call>\n", ["I look.", LOOK, ADD]),
    (HERMES, "a < b <tool_cal and no more", ["a < b <tool_cal and no more"]),
    (HERMES, "two words \n", ["two words \n"]),
    (HERMES, f"<tool_call>\n{L}", [LOOK]),
    (HERMES, "<tool_call>\n{broken}\n</tool_call> x", ["<tool_call>\n{broken}\n</tool_call> x"]),
    (HERMES, f"<tool_call>{L.replace('look', 'drop_tables')}</tool_call>", None),  # type: ignore[list-item]
    (HERMES, '<tool_call>{"name": ["look"], "arguments": {}}</tool_call>', None),  # type: ignore[list-item]
    (HERMES, '<tool_call>{"name": "look", "arguments": {"a": NaN}}</tool_call>', None),  # type: ignore[list-item]
    (MISTRAL, f"[TOOL_CALLS] [{L}, {A}]", [LOOK, ADD]),
    (MISTRAL, f"So:[TOOL_CALLS][{L}]", ["So:", LOOK]),
    (MISTRAL, '[TOOL_CALLS]look[ARGS]{"gene": "BRCA1"}[TOOL_CALLS]add[ARGS]{"a": 1}', [LOOK, ADD]),
    (MISTRAL, f"[TOOL_CALLS][{L}", None),  # type: ignore[list-item]
    (LLAMA3, f" {P}", [LOOK]),
    (LLAMA3, f"<|python_tag|>{P}; {A}", [LOOK, ADD]),
    (LLAMA3, '{"answer": 4}', ['{"answer": 4}']),
    (LLAMA3, f"Text first {P}", [f"Text first {P}"]),
]


@pytest.mark.parametrize(("form", "text", "expected"), CASES)
def test_calls_are_found_however_the_text_is_cut(
    form: ToolFormat, text: str, expected: list[str | ToolCall] | None
) -> None:
    """Whole, character by character, and in random pieces. None: the whole is text."""
    cuts = random.Random(text)
    expected = [text] if expected is None else expected
    for size in (len(text), 1, *(cuts.randint(2, 9) for _ in range(5))):
        assert read(form, [text[i : i + size] for i in range(0, len(text), size)]) == expected


def test_text_is_not_held_back_longer_than_needed() -> None:
    """What cannot belong to a call is passed on at once."""
    parser = CallParser(HERMES, NAMES)

    assert parser.feed("Some text <to") == ["Some text"]
    assert parser.feed("ken") == [" <token"]


def test_arguments_can_always_be_sent() -> None:
    """JSON can spell half of a surrogate pair, which has no UTF-8."""
    (call,) = read(HERMES, ['<tool_call>{"name": "look", "arguments": {"gene": "\\ud800é"}}</tool_call>'])

    assert isinstance(call, ToolCall) and json.loads(call.arguments) == {"gene": "?é"}
    call.arguments.encode()


class MistralBytes(ByteTokenizer):
    """The bytes, with ``[TOOL_CALLS]`` in place of the special token 258."""

    def special_id(self, token: str) -> int | None:
        return 258 if token == "[TOOL_CALLS]" else None


def test_a_marker_that_is_a_special_token_is_seen() -> None:
    """Its id has no text of its own; deltas may be merged, and the last token is the end token."""
    tokenizer = MistralBytes()
    reader = ToolCallReader(tokenizer, MISTRAL, NAMES, ())
    ids = (*tokenizer.encode("é "), 258, *tokenizer.encode(f"[{L}]"), 257)
    found = reader.feed(Delta(token_ids=ids[:1]))
    found += reader.feed(Delta(token_ids=ids[1:], finish_reason="stop"))

    assert found == ["é", LOOK]


def test_a_stop_string_ends_the_text_here_too() -> None:
    """The ids go beyond a stop string, the text does not."""
    reader = ToolCallReader(ByteTokenizer(), HERMES, NAMES, ("STOP",))
    ids = tuple(ByteTokenizer().encode("one STOP"))

    found = reader.feed(Delta(text="one ", token_ids=ids, finish_reason="stop", stop_reason="STOP"))

    assert "".join(str(piece) for piece in found) == "one "
