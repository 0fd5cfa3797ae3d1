"""The files of the page: all there, named once, with the headers that keep the page to itself."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from server.middleware import OPEN_PATHS, WEB_FILES
from server.web.files import INDEX, STYLES, TEXTS, PageFiles, chosen_language, language_of, page_files

STATIC = Path(__file__).parents[4] / "server" / "web" / "static"


def test_the_files_that_need_no_key_are_those_of_the_page() -> None:
    """A new file has to be named, and one that is gone is not; the words of all languages are sent under one name."""
    languages = {f"{one}.json" for one in page_files().languages}
    assert {path.name for path in STATIC.iterdir()} == WEB_FILES - {TEXTS} | {INDEX, *STYLES} | languages
    assert "/" in OPEN_PATHS


def test_a_file_of_another_name_is_none() -> None:
    """Nothing outside of the folder can be read."""
    for name in ("../routes.py", "gone.js", "en.json", "", "index.html/", "%2e%2e/x"):
        with pytest.raises(KeyError):
            page_files().get(name)


def test_the_page_may_load_its_own_files_alone() -> None:
    """The policy names this server, what stands inline by its digest alone, and no other origin."""
    policy = page_files().get(INDEX).headers()["Content-Security-Policy"]

    assert re.search(
        r"default-src 'none'; script-src 'self' 'sha256-[\w+/]{43}='; style-src 'sha256-[\w+/]{43}=';", policy
    )
    assert "unsafe" not in policy and "http" not in policy
    assert "require-trusted-types-for 'script'" in policy


def test_no_file_names_another_host() -> None:
    """Neither a content delivery network nor a counter; addresses of namespaces of XML are no requests."""
    for name in sorted(path.name for path in STATIC.iterdir()):
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
    page = page_files().get(INDEX).content.decode()

    assert all((STATIC / name).read_text(encoding="utf-8") in page for name in STYLES)
    assert ">Collections</a>" in page and not re.search(r"\{[a-z.]+\}", page.split("</style>")[1])
    assert "stylesheet" not in page


def test_another_language_is_one_more_file(tmp_path: Path) -> None:
    """Its words are in the page and in the catalogue; what it lacks is in English."""
    folder = tmp_path / "static"
    shutil.copytree(STATIC, folder)
    own = {"language": "he", "language.direction": "rtl", "nav.chat": "שיחה <b>"}
    (folder / "he.json").write_text(json.dumps(own), encoding="utf-8")
    pages = PageFiles(folder)

    assert pages.languages == {"en", "he"} | page_files().languages
    page, words = pages.get(INDEX, "he"), json.loads(pages.get(TEXTS, "he").content)
    assert (
        '<html lang="he" dir="rtl" data-languages="de en es fr he">' in page.content.decode()
        and ">שיחה &lt;b&gt;</a>" in page.content.decode()
    )
    assert words["nav.chat"] == own["nav.chat"] and words["nav.status"] == "Status"
    assert json.loads(pages.get(TEXTS).content) == json.loads((STATIC / "en.json").read_text(encoding="utf-8"))
    assert page.etag != pages.get(INDEX).etag and page.headers()["Vary"] == "Accept-Language, Cookie"
    assert pages.get("app.js", "he") is pages.get("app.js")


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("", "en"),
        ("de", "de"),
        ("de-AT,de;q=0.9,en;q=0.8", "de"),
        ("fr-CH, fr;q=0.9, EN;q=0.8, de;q=0.7", "en"),
        ("fr;q=0.5, de;q=0.4", "de"),
        ("en;q=0.2, de;q=0.3", "de"),
        ("de;q=0", "en"),
        ("*", "en"),
        ("../../de, de\x00, ;q=", "en"),
    ],
)
def test_the_language_is_the_one_that_the_browser_likes_best(accepted: str, language: str) -> None:
    """Of those that the page has; English otherwise."""
    assert chosen_language(accepted, {"en", "de"}) == language


@pytest.mark.parametrize(
    ("chosen", "language"), [("de", "de"), ("en", "en"), ("", "fr"), ("xx", "fr"), ("../de", "fr")]
)
def test_a_language_that_was_chosen_goes_before_the_browsers(chosen: str, language: str) -> None:
    """One that the page does not have is none."""
    assert language_of(chosen, "fr, en;q=0.5", {"de", "en", "fr"}) == language


def test_the_page_is_light_and_its_scripts_are_sent_without_comments() -> None:
    """All files with one language are at most 350 kB; what the code says stays, line by line."""
    sent = {name: page_files().get(name).content for name in (*WEB_FILES, INDEX) if not name.endswith(".txt")}
    script = sent["store.js"].decode()
    written = (STATIC / "store.js").read_text(encoding="utf-8")

    assert sum(map(len, sent.values())) <= 350_000
    assert "/**" not in script and not re.search(r"^\s*//|^ ", script, re.MULTILINE)
    code = [line.strip() for line in written.splitlines() if not re.match(r"\s*(//|/?\*)", line)]
    assert [line for line in script.splitlines() if line] == [line for line in code if line]
