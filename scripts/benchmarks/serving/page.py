"""Measure the page in Chromium: weight, first paint, and how soon a chat of 2,000 turns opens.

    python scripts/benchmarks/serving/page.py [--loads 10] [--language en]

A server over a scripted model is started for it; each load has an empty cache. Debian's Chromium and Playwright (extra
dev) are needed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "data"))

import chromium
import page_screens
import page_server
import server_process
from playwright.sync_api import sync_playwright

from server.middleware import WEB_FILES

_PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
_CHATS: Final = 5
# For a machine that does other work too.
_PATIENCE_MS: Final = 300_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=int, default=10)
    parser.add_argument("--language", default="en")
    given = parser.parse_args()
    program = chromium.installed()
    if program is None:
        print("there is no Chromium here (Debian: apt install chromium)")
        return 1
    with tempfile.TemporaryDirectory() as home, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        with server_process.serve(page_server.scripted_environment(Path(home), "http://127.0.0.1:9")) as server:
            loads = [first_visit(browser, server.url, given.language) for _ in range(given.loads)]
            chats = [long_chat(browser, server.url) for _ in range(_CHATS)]
            weight = sum(len(content(browser, server.url, name, given.language)) for name in ("", *shown_files()))
        browser.close()
    paints = [paint for paint, _ in loads]
    print(f"load of the machine: {os.getloadavg()[0]:.1f} over {os.cpu_count()} cores")
    print(f"first paint, ms: median {statistics.median(paints):.0f}, {min(paints):.0f} to {max(paints):.0f}")
    print(f"first screen: {sum(loads[0][1].values()):,} bytes in {len(loads[0][1])} files")
    print(f"all files, one language: {weight:,} bytes")
    print(
        f"a chat of 2,000 turns opens, ms: median {statistics.median(chats):.0f}, {min(chats):.0f} to {max(chats):.0f}"
    )
    return 0


def shown_files() -> list[str]:
    return [f"web/{name}" for name in sorted(WEB_FILES) if not name.endswith(".txt")]


def first_visit(browser: Any, url: str, language: str) -> tuple[float, dict[str, int]]:
    """Return the first paint in ms, and the bytes of each file that was asked for until a question can be asked."""
    context = browser.new_context(locale=language)
    context.set_default_timeout(_PATIENCE_MS)
    page = context.new_page()
    sizes: dict[str, int] = {}
    page.on("response", lambda reply: sizes.update({reply.url: int(reply.headers.get("content-length", 0))}))
    page.goto(url)
    page.wait_for_selector(".empty")
    paint = page.evaluate(_PAINT)
    context.close()
    return paint, sizes


def long_chat(browser: Any, url: str) -> float:
    """Return the ms from the address of a chat of 2,000 turns to its last turn."""
    context = browser.new_context()
    context.set_default_timeout(_PATIENCE_MS)
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector(".empty")
    page.evaluate(page_screens.LONG_CHAT, 2000)
    began = page.evaluate("performance.now()")
    page.evaluate("location.hash = '#/chat/long'")
    page.locator(".turn h2", has_text="Question 1999").wait_for()
    took = page.evaluate("performance.now()") - began
    context.close()
    return float(took)


def content(browser: Any, url: str, name: str, language: str) -> bytes:
    context = browser.new_context(locale=language)
    body = context.request.get(f"{url}/{name}").body()
    context.close()
    return bytes(body)


if __name__ == "__main__":
    sys.exit(main())
