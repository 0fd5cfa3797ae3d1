"""Text of others is shown, not obeyed: on a terminal, in JSON, in a log line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.printable import for_json, for_log, for_terminal

OBEYED = {
    "clear screen": "\x1b[2J",
    "title": "\x1b]0;x\x07",
    "CSI in one byte": "\x9b2J",
    "carriage return": "\r",
    "backspace": "\x08",
    "null": "\x00",
    "delete": "\x7f",
    "next line": "\x85",
    "line separator": "\u2028",
    "right-to-left override": "\u202e",
    "isolate": "\u2066",
    "surrogate": "\udc80",
    "tag": "\U000e0041",
}
_TEXTS = st.text(st.characters(), max_size=30)


@pytest.mark.parametrize("sign", OBEYED.values(), ids=OBEYED)
def test_what_a_terminal_obeys_is_escaped(sign: str) -> None:
    """In all three forms; the JSON text has the same value."""
    text = f"a{sign}b"
    shown = for_terminal(text), for_log(text, 100)
    assert all(sign[0] not in form and "\\" in form for form in shown)
    written = json.dumps(text, ensure_ascii=False)
    assert sign[0] not in for_json(written) and json.loads(for_json(written)) == text


@given(_TEXTS)
def test_reading_stays(text: str) -> None:
    """JSON keeps its value, a log line is one visible line, a terminal gets nothing to obey but lines and tabs."""
    assert json.loads(for_json(json.dumps([text], ensure_ascii=False, indent=1))) == [text]
    assert for_log(text, 1000).isprintable()
    assert not [sign for sign in for_terminal(text) if sign not in "\n\t" and (sign < " " or "\x7f" <= sign <= "\x9f")]


def test_ordinary_text_stays_as_it_is() -> None:
    """Letters of all scripts, symbols, lines and tabs."""
    text = "β-catenin\t中文 עברית 👩‍🔬 5'→3'\nnext"
    assert for_terminal(text) == text and for_json(text) == text
    assert for_log("β-catenin 中文", 50) == "β-catenin 中文"


def test_a_long_text_is_cut() -> None:
    """With the number of characters that are left out."""
    assert for_log("x" * 1_000_000, 10) == "xxxxxxxxxx… (999990 characters more)"
