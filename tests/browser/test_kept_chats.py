"""What the page keeps: each person's chats apart, nothing after signing out, nothing lost in mid-answer."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import page_screens
import pytest
import server_process
from page_server import KEYS
from waiting import wait_until

from server.auth.authentication import FileKeyStore
from server.auth.keys import NewKey, Scopes

TEXTS = json.loads((server_process.ROOT / "server/web/static/en.json").read_text(encoding="utf-8"))
BOX = {"memory": "", "tab": "#key-stays", "browser": "#key-keeps"}
KEPT = """async () => JSON.stringify([(await indexedDB.databases()).map((one) => one.name),
  Object.entries(localStorage), Object.entries(sessionStorage)])"""
MAKE_OLD = """() => new Promise((resolve) => { const open = indexedDB.open("arrowhead", 1);
  open.onupgradeneeded = () => { open.result.createObjectStore("chats", { keyPath: "id" });
    open.result.createObjectStore("turns", { keyPath: ["chat", "place"] }); };
  open.onsuccess = () => { open.result.close(); resolve(); }; })"""
# As in a page over plain HTTP from another machine.
INSECURE = """delete Crypto.prototype.randomUUID;
Object.defineProperty(Navigator.prototype, "locks", { get: () => undefined });"""


def sign_in(page: Any, url: str, key: str, place: str = "memory") -> None:
    page.goto(url)
    page.locator("#key").fill(key)
    if BOX[place]:
        page.locator(BOX[place]).check()
    page.locator("#key").press("Enter")
    page.wait_for_selector(".empty")


def ask(page: Any, question: str, method: str = "direct") -> Any:
    begin(page, question, method)
    page.locator(".turn").last.locator(".answer[aria-busy=false] .tools").wait_for()
    return page.locator(".turn").last


def begin(page: Any, question: str, method: str) -> None:
    if page.locator(".empty").count():
        page_screens.choose(page, method)
    page.locator("#question").fill(question)
    page.locator("#question").press("Enter")


def chats(page: Any) -> list[str]:
    listed: list[str] = page.locator(".history-list a").all_inner_texts()
    return listed


def answer(dialog: Any, told: list[str], *, accepted: bool = False) -> None:
    """Note what the browser asks, and answer it."""
    told.append(dialog.message or dialog.type)
    if accepted:
        dialog.accept()
    else:
        dialog.dismiss()


def asked(page: Any) -> int:
    return sum(url.endswith("/v1/chat/completions") for url in page.seen.requests)


def in_flight(url: str, key: str = "") -> int:
    asking = urllib.request.Request(f"{url}/ready", headers={"Authorization": f"Bearer {key}"} if key else {})
    with urllib.request.urlopen(asking, timeout=60) as reply:
        return int(json.load(reply)["in_flight"])


@pytest.mark.parametrize("place", BOX)
def test_after_signing_out_nothing_is_left_for_the_next_person(guarded: Any, page: Any, place: str) -> None:
    """Wherever the chats were kept: no list, no address that opens one, nothing in the browser's stores."""
    sign_in(page, guarded.url, KEYS[0], place)
    ask(page, "a secret question")
    page.get_by_text(TEXTS[f"history.{place}" if place != "browser" else "history.browser_key"]).wait_for()
    address = page.url
    page.get_by_role("button", name=TEXTS["key.out"]).click()
    page.wait_for_selector("#key")
    left = page.evaluate(KEPT)
    assert json.loads(left) == [[], [], []]
    sign_in(page, guarded.url, KEYS[1])
    assert chats(page) == []
    page.goto(address)
    page.goto(guarded.url)
    sign_in(page, guarded.url, KEYS[0], place)

    assert chats(page) == []
    assert "secret" not in page.locator("body").inner_text()


@pytest.mark.parametrize(("place", "found"), [("memory", []), ("tab", ["mine"])])
def test_chats_go_with_the_key_and_the_tab(guarded: Any, page: Any, place: str, found: list[str]) -> None:
    """A key that stays in the tab has its chats there after a reload; else both are gone. No other tab has them."""
    sign_in(page, guarded.url, KEYS[0], place)
    ask(page, "mine")
    assert json.loads(page.evaluate(KEPT))[0] == []
    page.reload()
    if place == "memory":
        sign_in(page, guarded.url, KEYS[0])
    page.wait_for_selector(".history-head")
    page.locator(".history-list a, .history-body p").first.wait_for()
    assert chats(page) == found
    other = page.context.new_page()
    sign_in(other, guarded.url, KEYS[0])
    assert chats(other) == []


def test_chats_that_a_person_keeps_are_shown_to_the_same_key_alone(guarded: Any, page: Any) -> None:
    """By choice they outlast the tab; another key does not see them, and signs out without removing them."""
    sign_in(page, guarded.url, KEYS[0], "browser")
    ask(page, "to be kept")
    other = page.context.new_page()
    page.close()
    sign_in(other, guarded.url, KEYS[1])
    assert chats(other) == []
    other.get_by_role("button", name=TEXTS["key.out"]).click()
    other.wait_for_selector("#key")
    sign_in(other, guarded.url, KEYS[0])

    other.locator(".history-list a", has_text="to be kept").wait_for()


def test_signing_out_in_one_tab_signs_out_in_the_other(guarded: Any, page: Any) -> None:
    """Of the same person whose chats this browser keeps."""
    sign_in(page, guarded.url, KEYS[0], "browser")
    other = page.context.new_page()
    sign_in(other, guarded.url, KEYS[0])
    ask(other, "in both")
    page.locator(".history-list a", has_text="in both").wait_for()
    page.get_by_role("button", name=TEXTS["key.out"]).click()
    other.wait_for_selector("#key")

    assert "in both" not in other.locator("body").inner_text()
    assert json.loads(other.evaluate(KEPT)) == [[], [], []]


def test_an_old_store_is_removed_before_anybody_signs_in(guarded: Any, page: Any) -> None:
    """Chats that stand under no key may be anybody's."""
    page.goto(guarded.url)
    page.wait_for_selector("#key")
    page.evaluate(MAKE_OLD)
    assert json.loads(page.evaluate(KEPT))[0] == ["arrowhead"]
    page.reload()
    page.wait_for_selector("#key")
    gone = """async () => { while ((await indexedDB.databases()).length)
      await new Promise((next) => setTimeout(next, 50)); return true; }"""

    assert page.evaluate(gone)


def test_a_key_that_ends_takes_what_was_not_to_be_kept(guarded: Any, keys_file: Path, page: Any) -> None:
    """The page says why it asks for a key, and shows nothing of before."""
    store = FileKeyStore(keys_file)
    secret, record = store.create(NewKey(name="short", scopes=Scopes()))
    sign_in(page, guarded.url, secret, "tab")
    ask(page, "before the end")
    store.revoke(record.id)
    page.get_by_role("link", name=TEXTS["nav.status"]).click()
    page.locator("#key-error", has_text=TEXTS["key.ended"]).wait_for()

    assert "before the end" not in page.locator("body").inner_text()
    assert json.loads(page.evaluate(KEPT)) == [[], [], []]


@pytest.mark.parametrize("secure", [True, False])
def test_a_reload_in_mid_answer_keeps_the_question_and_goes_on(scripted: Any, page: Any, secure: bool) -> None:
    """It is asked again by itself, and its answer comes; also where the browser has no locks."""
    if not secure:
        page.add_init_script(INSECURE)
    held: list[Any] = []
    page.route("**/v1/chat/completions", lambda route: route.continue_() if held else held.append(route))
    page.goto(scripted.url)
    page.wait_for_selector(".empty")
    begin(page, "record", "genegpt")
    page.locator(".turn .spinner").wait_for()
    while not held:
        page.wait_for_timeout(50)
    page.reload()
    turn = page.locator(".turn")
    turn.locator(".answer[aria-busy=false] .tools").wait_for()

    assert turn.locator("h2").all_inner_texts() == ["record"]
    assert "BAD1" in turn.locator(".content").inner_text()
    assert chats(page) == ["record"] and asked(page) == 2


@pytest.mark.parametrize("secure", [True, False])
def test_a_reload_in_mid_answer_goes_on_with_the_same_answer(scripted: Any, page: Any, secure: bool) -> None:
    """The server went on with it: what came before stands there again, then the rest; it is asked for once."""
    if not secure:
        page.add_init_script(INSECURE)
    page.goto(scripted.url)
    page.wait_for_selector(".empty")
    begin(page, "slow", "genegpt")
    page.locator(".step", has_text="esearch gene: SLOW").wait_for(state="attached")
    page.reload()
    turn = page.locator(".turn")
    turn.locator(".answer[aria-busy=false] .tools").wait_for()

    assert turn.locator("h2").all_inner_texts() == ["slow"]
    assert page.locator(".step", has_text="esearch gene: SLOW").count() == 1
    assert "BAD1" in turn.locator(".content").inner_text() and page.locator(".reference").count() == 1
    assert asked(page) == 1


def test_an_answer_of_before_a_reload_can_be_stopped(scripted: Any, page: Any) -> None:
    """The server ends it; what was stopped says what had left, from its record."""
    page.goto(scripted.url)
    page.wait_for_selector(".empty")
    begin(page, "dead", "genegpt")
    page.locator(".step", has_text="esearch gene: DEAD").wait_for(state="attached")
    page.reload()
    page.locator(".step", has_text="esearch gene: DEAD").wait_for(state="attached")
    page.get_by_role("button", name=TEXTS["ask.stop"], exact=True).click()
    page.get_by_text(TEXTS["turn.stopped"], exact=True).wait_for()
    wait_until(lambda: in_flight(scripted.url) == 0)

    assert page.locator(".turn").count() == 1 and asked(page) == 1
    assert page.get_by_text(TEXTS["left.nothing"]).count() == 1


def test_signing_out_stops_what_the_server_would_go_on_with(guarded: Any, page: Any) -> None:
    """And an answer whose chat is in memory is not gone on with at all, as nothing could find it again."""
    for place in BOX:
        sign_in(page, guarded.url, KEYS[0], place)
        begin(page, "dead", "genegpt")
        page.locator(".step", has_text="esearch gene: DEAD").wait_for(state="attached")
        page.get_by_role("button", name=TEXTS["key.out"]).click()
        page.wait_for_selector("#key")
        wait_until(lambda: in_flight(guarded.url, KEYS[0]) == 0)


def test_an_answer_that_ended_unseen_is_read_from_its_record(scripted: Any, page: Any) -> None:
    """It is not asked for twice."""
    page.goto(scripted.url)
    page.wait_for_selector(".empty")
    ask(page, "record", "genegpt")
    unseen = """async () => { const store = await import("/web/store.js"); const chat = location.hash.split("/").at(-1);
      const [turn] = await store.getTurns(chat);
      await store.putTurn({ ...turn, state: "running", content: "", references: [], told: null, trace: null }); }"""
    page.evaluate(unseen)
    before = asked(page)
    page.reload()
    page.locator(".answer[aria-busy=false] .tools").wait_for()

    assert "BAD1" in page.locator(".content").inner_text() and page.locator(".reference").count() == 1
    assert asked(page) == before


def test_another_screen_does_not_stop_an_answer(scripted: Any, page: Any) -> None:
    """Back in the chat, it is still waited for; and asked for once."""
    page.goto(scripted.url)
    page.wait_for_selector(".empty")
    begin(page, "dead", "genegpt")
    page.locator(".step", has_text="esearch gene: DEAD").wait_for(state="attached")
    page.get_by_role("link", name=TEXTS["nav.status"]).click()
    page.locator(".status-card").first.wait_for()
    page.get_by_role("link", name=TEXTS["nav.chat"]).click()
    page.locator(".history-list a").click()
    page.locator(".step", has_text="esearch gene: DEAD").wait_for(state="attached")
    page.get_by_role("button", name=TEXTS["ask.stop"], exact=True).click()
    page.get_by_text(TEXTS["turn.stopped"], exact=True).wait_for()

    assert asked(page) == 1


def test_a_review_goes_on_after_a_reload(shipped: Any, page: Any) -> None:
    """Its address names it from the beginning; it runs at the server."""
    page.goto(f"{shipped.url}/#/literature")
    page.locator("#l-question").fill(TEXTS["literature.placeholder"])
    page.locator("#l-question").press("Enter")
    page.locator(".job").wait_for()
    page.reload()
    page.locator(".evidence tbody tr").first.wait_for(timeout=90_000)

    assert page.locator(".turn h2").inner_text() == TEXTS["literature.placeholder"]


def test_a_second_tab_sees_the_chats_of_the_first(scripted: Any, page: Any) -> None:
    """As they come: in the list, and in the chat that is open in both; what runs in one is not asked by the other."""
    # Locks that come late are what a busy machine gives to the tab that asks.
    page.add_init_script("""const real = navigator.locks.request.bind(navigator.locks);
      navigator.locks.request = (...all) => new Promise((done) => setTimeout(done, 500)).then(() => real(...all));""")
    page.goto(scripted.url)
    page.wait_for_selector(".empty")
    other = page.context.new_page()
    requests: list[str] = []
    other.on("request", lambda one: requests.append(one.url))
    other.goto(scripted.url)
    other.wait_for_selector(".empty")
    ask(page, "seen")
    other.locator(".history-list a", has_text="seen").click()
    other.locator(".turn .content", has_text="A plain answer.").wait_for()
    page.locator("#question").fill("and then")
    page.locator("#question").press("Enter")
    other.locator(".turn", has_text="and then").locator(".answer[aria-busy=false] .tools").wait_for()

    assert other.locator(".turn h2").all_inner_texts() == ["seen", "and then"]
    assert not any(url.endswith("/v1/chat/completions") for url in requests)


def test_an_answer_whose_tab_was_closed_goes_on_in_the_other(scripted: Any, page: Any) -> None:
    page.goto(scripted.url)
    page.wait_for_selector(".empty")
    other = page.context.new_page()
    begin(page, "dead", "genegpt")
    page.locator(".step", has_text="esearch gene: DEAD").wait_for(state="attached")
    other.goto(page.url)
    other.locator(".turn h2", has_text="dead").wait_for()
    assert other.get_by_role("button", name=TEXTS["ask.stop"], exact=True).count() == 0
    page.close()

    other.get_by_role("button", name=TEXTS["ask.stop"], exact=True).click()
    other.get_by_text(TEXTS["turn.stopped"], exact=True).wait_for()


def test_a_chat_that_is_forgotten_in_mid_answer_stays_forgotten(scripted: Any, page: Any) -> None:
    """Its answer, which ends later, is written nowhere."""
    page.goto(scripted.url)
    page.wait_for_selector(".empty")
    begin(page, "dead", "genegpt")
    page.locator(".step", has_text="esearch gene: DEAD").wait_for(state="attached")
    page.locator(".history-list button").click()
    page.wait_for_selector(".empty")
    page.wait_for_timeout(1000)
    count = """() => new Promise((resolve) => { const open = indexedDB.open("arrowhead", 1); open.onsuccess = () => {
      const asked = open.result.transaction("turns").objectStore("turns").count();
      asked.onsuccess = () => resolve(asked.result); }; })"""

    assert page.evaluate(count) == 0 and chats(page) == []


def test_files_that_are_not_sent_are_asked_about_and_go_on_on_other_screens(shipped: Any, page: Any) -> None:
    """The browser asks before the tab is closed; another screen stops nothing, and back here they are shown."""
    held: list[Any] = []
    going: list[bool] = []
    page.route("**/files?filename=*", lambda route: route.continue_() if going else held.append(route))
    page.goto(f"{shipped.url}/#/library")
    page.get_by_role("button", name=TEXTS["library.create"]).last.click()
    page.locator("#ns-name").fill("slow")
    page.locator("#ns-name").press("Enter")
    files = [{"name": f"{n}.txt", "mimeType": "text/plain", "buffer": f"Note {n}.".encode()} for n in range(4)]
    page.locator("#files").set_input_files(files=files)
    page.locator(".job", has_text="3.txt").get_by_role("button", name=TEXTS["add.cancel"]).click()
    page.locator(".job.bad", has_text="3.txt").get_by_text(TEXTS["error.stopped"]).wait_for()
    told: list[str] = []
    page.on("dialog", lambda one: answer(one, told))
    page.close(run_before_unload=True)
    page.wait_for_timeout(500)
    assert told == ["beforeunload"]
    page.get_by_role("link", name=TEXTS["nav.status"]).click()
    page.locator(".status-card").first.wait_for()
    page.goto(f"{shipped.url}/#/library/slow")
    page.locator(".job").nth(2).wait_for()
    going.append(True)
    for route in held:
        route.continue_()

    for n in range(3):
        page.locator(".job", has_text=f"{n}.txt").get_by_text("1 document added").wait_for()
    with page.expect_event("close"):
        page.close(run_before_unload=True)
    assert told == ["beforeunload"]


def test_signing_out_asks_about_files_that_are_not_sent(guarded: Any, page: Any) -> None:
    """They are given up with the key, or stay with it."""
    sign_in(page, guarded.url, KEYS[0])
    page.route("**/files?filename=*", lambda route: None)
    page.get_by_role("link", name=TEXTS["nav.library"]).click()
    page.get_by_role("button", name=TEXTS["library.create"]).last.click()
    page.locator("#ns-name").fill("unsent")
    page.locator("#ns-name").press("Enter")
    page.locator("#files").set_input_files(files=[{"name": "a.txt", "mimeType": "text/plain", "buffer": b"A."}])
    page.locator(".job").wait_for()
    answers = [False, True]
    told: list[str] = []
    page.on("dialog", lambda one: answer(one, told, accepted=answers.pop(0)))
    page.get_by_role("button", name=TEXTS["key.out"]).click()
    assert page.locator(".job").is_visible()
    page.get_by_role("button", name=TEXTS["key.out"]).click()
    page.wait_for_selector("#key")

    assert told == [TEXTS["add.unsent.one"].format(n=1)] * 2


def test_an_answer_of_a_chat_in_memory_is_asked_about(guarded: Any, page: Any) -> None:
    """A reload would lose it; without an answer under way, the person was told so when signing in."""
    sign_in(page, guarded.url, KEYS[0])
    begin(page, "dead", "genegpt")
    page.locator(".step", has_text="esearch gene: DEAD").wait_for(state="attached")
    told: list[str] = []
    page.on("dialog", lambda one: answer(one, told))
    page.close(run_before_unload=True)
    page.wait_for_timeout(500)
    page.get_by_role("button", name=TEXTS["ask.stop"], exact=True).click()
    page.get_by_text(TEXTS["turn.stopped"], exact=True).wait_for()
    with page.expect_event("close"):
        page.close(run_before_unload=True)

    assert told == ["beforeunload"]
