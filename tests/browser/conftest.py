"""A real browser on a real server: Debian's Chromium driven by Playwright; without either, these tests are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import chromium
import page_server
import pytest
import server_process

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (extra dev)")
_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@dataclass
class Seen:
    """What the browser reported: complaints of scripts and policy, and the addresses that it asked for."""

    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def hosts(self) -> set[str]:
        return {urlsplit(url).netloc for url in self.requests if url.startswith("http")}


# Of a module and no longer: Playwright runs an event loop in this thread, beside which no asynchronous test can run.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = chromium.installed()
    if program is None:
        pytest.skip("there is no Chromium here (Debian: apt install chromium)")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=list(_FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    made = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True, locale="en-GB")
    made.set_default_timeout(120_000)  # a bound, for a machine that does other work too
    yield made
    made.close()


@pytest.fixture
def page(context: Any) -> Any:
    """A tab; ``page.seen`` has what it reported."""
    opened = context.new_page()
    opened.seen = Seen()
    opened.on("console", lambda one: one.type in ("error", "warning") and opened.seen.complaints.append(one.text))
    opened.on("pageerror", lambda error: opened.seen.complaints.append(str(error)))
    opened.on("request", lambda one: opened.seen.requests.append(one.url))
    return opened


@pytest.fixture(scope="package")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server_process.Running]:
    """The server as it ships: embedded model, sample data, nothing leaves."""
    environment = page_server.home_environment(tmp_path_factory.mktemp("shipped"))
    with server_process.serve(environment) as server:
        yield server


@pytest.fixture(scope="session")
def ncbi() -> Iterator[str]:
    with page_server.hostile_ncbi() as url:
        yield url


@pytest.fixture(scope="session")
def scripted_environment(tmp_path_factory: pytest.TempPathFactory, ncbi: str) -> dict[str, str]:
    return page_server.scripted_environment(tmp_path_factory.mktemp("scripted"), ncbi)


@pytest.fixture(scope="package")
def scripted(scripted_environment: dict[str, str]) -> Iterator[server_process.Running]:
    """A server over a scripted model and a hostile NCBI."""
    with server_process.serve(scripted_environment) as server:
        yield server


@pytest.fixture(scope="package")
def keys_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.json"


@pytest.fixture(scope="package")
def guarded(scripted_environment: dict[str, str], keys_file: Path) -> Iterator[server_process.Running]:
    own = {
        "ARROWHEAD_SERVER__API_KEYS": ",".join(page_server.KEYS),
        "ARROWHEAD_SERVER__KEYS_FILE": str(keys_file),
        # The server without keys uses the folder of the environment.
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(keys_file.parent / "namespaces"),
    }
    with server_process.serve(scripted_environment | own) as server:
        yield server


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, which is no part of this repository."""
    path = Path(__file__).parents[2] / "build" / "axe.min.js"
    if not path.exists():
        pytest.skip("axe-core is not here: npm pack axe-core, its axe.min.js in build/")
    return path.read_text(encoding="utf-8")
