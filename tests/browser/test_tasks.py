"""Twelve tasks of three people, each done from the start page in four presses at most (docs/web.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import corpus_files
import page_server
import pytest
import server_process
from http_calls import Site, snippets

from server.auth.authentication import FileKeyStore
from server.auth.keys import NewKey, Scopes

TEXTS = json.loads((server_process.ROOT / "server/web/static/en.json").read_text(encoding="utf-8"))
PDF = corpus_files.pdf("Protamine reverses heparin at once.", title="Heparin")
MOST = 4
GUIDE = (server_process.ROOT / "docs/web.md").read_text(encoding="utf-8").partition("\n## Tasks\n")[2]
# The presses of each task, in the order of the guide, which is that of the tests.
TOLD = [int(number) for number in re.findall(r"^\|.*\| (\d+) \|$", GUIDE.partition("\n## ")[0], re.MULTILINE)]


@dataclass
class Person:
    """Somebody at the start page. A press is a click, or Enter after something was typed; typing is none."""

    page: Any
    presses: int = 0

    def press(self, node: Any) -> None:
        self.presses += 1
        node.click()

    def send(self, node: Any, text: str) -> None:
        node.fill(text)
        self.presses += 1
        node.press("Enter")

    def button(self, key: str) -> None:
        self.press(self.page.get_by_role("button", name=TEXTS[key], exact=True).last)

    def screen(self, key: str) -> None:
        self.press(self.page.locator("#nav a", has_text=TEXTS[key]))

    def tab(self, key: str) -> None:
        self.press(self.page.get_by_role("tab", name=TEXTS[key]))

    def ask(self, question: str) -> Any:
        self.send(self.page.locator("#question"), question)
        return self.answered()

    def answered(self) -> Any:
        turn = self.page.locator(".turn").last
        turn.locator(".answer[aria-busy=false] .tools").wait_for()
        return turn


@dataclass(frozen=True)
class Institution:
    """A server with keys, and a collection of this name."""

    url: str
    key: str
    other: str


@pytest.fixture(scope="module")
def institution(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Institution]:
    environment = page_server.home_environment(tmp_path_factory.mktemp("institution"))
    store = FileKeyStore(Path(environment["XDG_DATA_HOME"]) / "arrowhead" / "keys.json")
    key, _ = store.create(NewKey(name="head", scopes=Scopes(may_administer=True)))
    other, _ = store.create(NewKey(name="anna"))
    with server_process.serve(environment) as server:
        site = Site(server.url, key)
        site.create("heparin")
        site.done(site.upload("heparin", "heparin.pdf", PDF))
        yield Institution(server.url, key, other)


@pytest.fixture
def person(institution: Institution, page: Any, request: pytest.FixtureRequest) -> Iterator[Person]:
    """Signed in, before anything else was pressed; what was pressed at the end is what the guide says."""
    page.set_default_timeout(300_000)  # a review beside other work takes minutes
    page.goto(institution.url)
    page.locator("#key").fill(institution.key)
    page.locator("#key").press("Enter")
    page.locator(".empty").wait_for()
    page.seen.complaints.clear()  # of the sign-in: the requests without a key
    somebody = Person(page)
    yield somebody
    tasks = [name for name in vars(request.module) if name.startswith("test_a")]
    assert len(tasks) == len(TOLD) == 12
    assert somebody.presses == TOLD[tasks.index(request.node.name)] <= MOST
    assert page.seen.complaints == []


def downloaded(person: Person, key: str) -> str:
    with person.page.expect_download() as download:
        person.button(key)
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_a_librarian_makes_a_collection(person: Person, institution: Institution) -> None:
    person.screen("nav.library")
    person.button("library.create")
    person.send(person.page.locator("#ns-name"), "Ströke trials")
    person.page.locator(".library-head h2", has_text="Ströke trials").wait_for()
    names = [one["name"] for one in Site(institution.url, institution.key).call("GET", "/v1/namespaces")[1]["data"]]
    Site(institution.url, institution.key).call("DELETE", f"/v1/namespaces/{next(n for n in names if 'troke' in n)}")


def test_a_librarian_adds_a_document(person: Person) -> None:
    person.screen("nav.library")
    person.press(person.page.locator(".name", has_text="heparin"))
    person.tab("library.tab.add")
    person.presses += 1  # the button that opens the system's choice of files
    file = {"name": "more.pdf", "mimeType": "application/pdf", "buffer": corpus_files.pdf("Aspirin is a drug.")}
    person.page.locator("input[type=file]").first.set_input_files(file)
    person.page.locator(".job", has_text="more.pdf").wait_for()


def test_a_librarian_searches_a_collection(person: Person) -> None:
    person.screen("nav.library")
    person.press(person.page.locator(".name", has_text="heparin"))
    person.tab("library.tab.search")
    person.send(person.page.get_by_label(TEXTS["search.placeholder"]), "Which drug reverses heparin?")
    person.page.locator(".hit", has_text="Protamine").first.wait_for()


def test_a_librarian_takes_the_table_of_a_review(person: Person) -> None:
    person.screen("nav.literature")
    person.send(person.page.locator("#l-question"), TEXTS["literature.placeholder"])
    person.answered()
    assert "PMID" in downloaded(person, "export.csv")


def test_a_biologist_asks_without_a_choice(person: Person) -> None:
    turn = person.ask("Which compounds treat multiple sclerosis?")
    turn.locator(".reference, .cite").first.wait_for()


def test_a_biologist_reads_what_an_answer_rests_on(person: Person) -> None:
    turn = person.ask("Which drug reverses heparin?")
    person.press(turn.locator(".cite").first)
    person.page.locator(".panel .passage", has_text="rotamine").wait_for()


def test_a_biologist_looks_a_gene_up(person: Person) -> None:
    person.button("sources.genegpt")
    turn = person.ask(TEXTS["example.genegpt.1"])
    assert turn.locator(".byline").inner_text().startswith(TEXTS["method.genegpt"])


def test_a_biologist_shares_an_answer(person: Person) -> None:
    person.ask("Which drug reverses heparin?")
    person.press(person.page.locator(".menu summary", has_text=TEXTS["export.menu"]))
    assert "<!doctype html>" in downloaded(person, "export.page").lower()


def test_an_administrator_makes_a_key(person: Person, institution: Institution) -> None:
    person.screen("nav.admin")
    person.button("admin.key.new")
    person.send(person.page.locator("#key-name"), "ben")
    secret = person.page.locator("dialog .secret").inner_text()
    assert Site(institution.url, secret).call("GET", "/v1/permissions")[0] == 200


def test_an_administrator_revokes_a_key(person: Person, institution: Institution) -> None:
    made = Site(institution.url, institution.key).call("POST", "/v1/admin/keys", {"name": "gone"})[1]
    person.screen("nav.admin")
    person.press(person.page.get_by_role("button", name=f"{TEXTS['admin.key.revoke']}: gone"))
    person.button("admin.key.revoke")
    person.page.locator("details summary", has_text="ended").wait_for()
    assert Site(institution.url, made["secret"]).call("GET", "/v1/permissions")[0] == 401


def test_an_administrator_sees_what_left_and_what_is_stored(person: Person) -> None:
    person.screen("nav.admin")
    person.page.locator("tr", has_text="anna").get_by_text(TEXTS["left.nothing"]).wait_for()
    person.page.locator(".card", has_text=TEXTS["admin.storage.free"]).wait_for()
    person.page.locator(".card", has_text=TEXTS["admin.hosts.none"]).wait_for()


def test_an_administrator_stops_a_job_of_another_key(person: Person, institution: Institution) -> None:
    anna = Site(institution.url, institution.other)
    anna.create("annas")
    status, job = anna.upload("annas", "book.jsonl", snippets(0, 20_000))
    assert status == 202
    person.screen("nav.admin")
    person.press(person.page.get_by_role("button", name="annas"))
    assert anna.ended((202, job))["state"] == "cancelled"
    anna.call("DELETE", "/v1/namespaces/annas")
