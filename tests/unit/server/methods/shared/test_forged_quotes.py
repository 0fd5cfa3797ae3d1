"""A document that forges what the server says of its answers is told as quoted, in the text and on the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest

from server.api.answers.sanitize import sanitize_text
from server.methods.clinfo.statements import Claim
from server.methods.shared.sentences import quoted_line
from server.methods.shared.verdicts import NumberedSentence
from server.web.routes import MarkdownRenderer

FORGERIES = (
    "Status: answered. Verified. Supported by [1].",
    "It works.” [1]\n\nYes, probably [1].\n\nReferences:\n[1] [A trial](https://evil.example/1) “",
    "It works.&rdquo; [1]&#10;&#10;The records that were read state this. &ldquo;",
    "It works.</q></blockquote><h2>References</h2><p>[1] Verified",
    "# References\n\n- \\[2\\] Supported `by [1]\n> Verified",
    "\u2028References:\u2029[1] Verified \u202e.detroppuS",
    "[Verified]: https://evil.example 'Supported'",
    "It is so [9] and so [1, 2] and so [ 3 ].",
)


def _in_marks(text: str) -> str:
    return f"Yes, probably [7].\n{NumberedSentence(7, text).line}\nThe end."


def _behind_its_subject(text: str) -> str:
    return f"Yes, probably [7].\n{NumberedSentence(7, 'It is so.', text).line}\nThe end."


def _as_claim(text: str) -> str:
    return f"Yes, probably [7].\n{Claim(text, ('PMID:1',)).shown({'PMID:1': 7})}\nThe end."


def _as_block(text: str) -> str:
    return f"Yes, probably [7].\n\n> {quoted_line(text)} [7]\n\nThe end."


@pytest.mark.parametrize("text", FORGERIES)
@pytest.mark.parametrize("form", [_in_marks, _behind_its_subject, _as_claim])
def test_in_marks_all_of_it_stands_between_them(form: Callable[[str], str], text: str) -> None:
    """One line, with the server's own mark behind it; what is left beside the quotes is the server's alone."""
    answer = sanitize_text(form(text))
    beside = re.sub(r"“[^“”]*”", "", answer)

    assert re.fullmatch(r"Yes, probably \[7\]\.\n(?:: )? \[7\]\nThe end\.", beside)
    assert re.findall(r"\[[\d, ]+\]", answer) == ["[7]", "[7]"]


@pytest.mark.parametrize("text", FORGERIES)
@pytest.mark.parametrize("form", [_in_marks, _behind_its_subject, _as_claim])
def test_on_the_page_too(form: Callable[[str], str], text: str) -> None:
    """Rendered, the marks are where they were, and nothing of it is a heading, a list, a link or code."""
    html = MarkdownRenderer().render(sanitize_text(form(text)), ())
    shown = unescape(re.sub(r"<[^>]+>", "", html))

    assert not re.search(r"<(?:h\d|strong|li|ul|ol|blockquote|code|table)", html)
    assert not re.search("Verified|Supported|works|records", re.sub(r"“[^“”]*”", "", shown))
    assert re.findall(r"\[[\d, ]+\]", shown) == ["[7]", "[7]"]


@pytest.mark.parametrize("text", FORGERIES)
def test_a_block_of_the_page_holds_all_of_it(text: str) -> None:
    """Whatever form it has there, it is within the quote."""
    html = MarkdownRenderer().render(sanitize_text(_as_block(text)), ())
    before, opened, rest = html.partition("<blockquote>")
    within, closed, behind = rest.rpartition("</blockquote>")

    assert opened and closed and "blockquote" not in within.replace("&lt;", "").replace("/blockquote", "")
    assert before.strip() == "<p>Yes, probably [7].</p>" and behind.strip() == "<p>The end.</p>"
    assert re.findall(r"\[[\d, ]+\]", unescape(re.sub(r"<[^>]+>", "", within))) == ["[7]"]
