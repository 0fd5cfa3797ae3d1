"""Save a picture of each screen of the page, filled with what ships and a few documents.

    python scripts/dev/screenshots.py FOLDER [--widths 390 1280] [--scheme light] [--only review source]

A server is started for it. Debian's Chromium and Playwright (extra dev) are needed. Pictures have 64 colours.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "data"))

import chromium
import page_screens
import page_server
import server_process
from PIL import Image
from playwright.sync_api import sync_playwright

from server.auth.authentication import FileKeyStore
from server.auth.keys import NewKey, Scopes

_HEIGHT: Final = 800
# For a machine that does other work too.
_PATIENCE_MS: Final = 300_000
_COLOURS: Final = 64
_KEYED: Final = "admin"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--widths", type=int, nargs="+", default=[390, 1280])
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--only", nargs="+", choices=sorted(page_screens.SCREENS), default=list(page_screens.SCREENS))
    given = parser.parse_args()
    program = chromium.installed()
    if program is None:
        print("there is no Chromium here (Debian: apt install chromium)")
        return 1
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        with server_process.serve(page_server.home_environment(Path(home))) as server:
            page_screens.fill(server.url, browser)
            key = ""
            # From its first key on, the server answers nothing without one: administration comes last.
            for name in sorted(given.only, key=lambda name: name == _KEYED):
                key = key or (make_keys(Path(home)) if name == _KEYED else "")
                for width in given.widths:
                    path = given.folder / f"{name}-{width}.png"
                    context = opened(browser, width, given.scheme, key)
                    path.write_bytes(picture(context, server.url, name))
                    print(path)
        browser.close()
    return 0


def make_keys(home: Path) -> str:
    """Make keys as an institution has them, and return the administrator's secret."""
    store = FileKeyStore(home / "data" / "arrowhead" / "keys.json")
    secret, _ = store.create(NewKey(name="library", scopes=Scopes(may_administer=True)))
    ends = datetime.now(UTC) + timedelta(days=90)
    store.create(NewKey(name="Anna Berg", scopes=Scopes(requests_per_minute=60)))
    store.create(NewKey(name="ward 4", expires=ends, scopes=Scopes(methods=("medrag", "clinfo"), may_change=False)))
    return secret


def opened(browser: Any, width: int, scheme: str, key: str) -> Any:
    """Return a window; with a key, one that is signed in."""
    size = {"width": width, "height": _HEIGHT}
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce", locale="en-GB")
    context.set_default_timeout(_PATIENCE_MS)
    if key:
        context.add_init_script(f"sessionStorage.setItem('arrowhead-key', '{key}')")
    return context


def picture(context: Any, url: str, name: str) -> bytes:
    """Return a screen as a PNG with a palette, and close its window."""
    page = context.new_page()
    page_screens.SCREENS[name](page, url)
    page.wait_for_timeout(300)
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    context.close()
    packed = io.BytesIO()
    shown.quantize(_COLOURS, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return packed.getvalue()


if __name__ == "__main__":
    sys.exit(main())
