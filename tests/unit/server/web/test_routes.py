"""The files of the page: all there, named once, with the headers that keep the page to itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from server.middleware import OPEN_PATHS, WEB_FILES
from server.web.routes import INDEX, STYLES, page_file

STATIC = Path(__file__).parents[4] / "server" / "web" / "static"


def test_the_files_that_need_no_key_are_those_of_the_page() -> None:
    """A new file has to be named, and one that is gone is not."""
    assert {path.name for path in STATIC.iterdir()} == WEB_FILES | {INDEX, *STYLES}
    assert "/" in OPEN_PATHS


def test_a_file_of_another_name_is_none() -> None:
    """Nothing outside of the folder can be read."""
    for name in ("../routes.py", "gone.js", "", "index.html/", "%2e%2e/x"):
        with pytest.raises(KeyError):
            page_file(name)


def test_the_page_may_load_its_own_files_alone() -> None:
    """The policy names this server, what stands inline by its digest alone, and no other origin."""
    policy = page_file(INDEX).headers()["Content-Security-Policy"]

    assert re.search(
        r"default-src 'none'; script-src 'self' 'sha256-[\w+/]{43}='; style-src 'sha256-[\w+/]{43}=';", policy
    )
    assert "unsafe" not in policy and "http" not in policy
    assert "require-trusted-types-for 'script'" in policy


def test_no_file_names_another_host() -> None:
    """Neither a content delivery network nor a counter; addresses of namespaces of XML are no requests."""
    for name in sorted(WEB_FILES | {INDEX, *STYLES}):
        if name.endswith((".woff2", ".txt")):
            continue
        text = (STATIC / name).read_text(encoding="utf-8")
        found = set(re.findall(r"https?://[\w.-]+", text)) - {"http://www.w3.org"}
        assert found == set(), name


def test_markup_is_set_in_one_place() -> None:
    """All other text goes in as text."""
    setters = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser")
    places = [
        (path.name, number)
        for path in sorted(STATIC.glob("*.js"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if setters.search(line)
    ]
    assert [name for name, _ in places] == ["dom.js"]
    assert "style=" not in (STATIC / INDEX).read_text()


def test_the_first_reply_is_enough_for_a_first_sight() -> None:
    """It has the styles and the words of the header; no other style sheet is waited for."""
    page = page_file(INDEX).content.decode()

    assert all((STATIC / name).read_text(encoding="utf-8") in page for name in STYLES)
    assert ">Knowledge base</a>" in page and not re.search(r"\{[a-z.]+\}", page.split("</style>")[1])
    assert "stylesheet" not in page
