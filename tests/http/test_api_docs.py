"""``/docs``, ``/openapi.json`` and ``/version`` of a real server with a key."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from openapi_spec_validator import validate

KEY = "reading-the-docs-1"


@pytest.fixture(scope="module")
def guarded(serve_with: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    with serve_with({"ARROWHEAD_SERVER__API_KEYS": KEY}) as server:
        yield server


def _get(url: str, key: str = "") -> tuple[int, Any, bytes]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


@pytest.mark.parametrize(
    ("path", "kind"), [("/docs", "text/html"), ("/docs/page.js", "text/javascript"), ("/docs/page.css", "text/css")]
)
def test_the_page_is_open_and_bound_to_this_server(guarded: Any, path: str, kind: str) -> None:
    """Its policy lets nothing in from elsewhere."""
    status, headers, body = _get(guarded.url + path)

    assert status == 200 and headers["Content-Type"].startswith(kind) and body
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/docs/", "/docs/page.html", "/docs/..%2f..%2fguard.py", "/openapi.json", "/docs/x"])
def test_all_else_needs_the_key(guarded: Any, path: str) -> None:
    """What looks like the page's files too."""
    assert _get(guarded.url + path)[0] == 401
    assert _get(guarded.url + path, KEY)[0] in {200, 307, 404}


def test_the_document_and_the_version_tell_what_runs(guarded: Any) -> None:
    """A valid document whose routes need a key; the version with engine and model."""
    document = json.loads(_get(f"{guarded.url}/openapi.json", KEY)[2])
    version = json.loads(_get(f"{guarded.url}/version", KEY)[2])

    validate(document)
    assert document["security"] == [{"bearer": []}]
    assert version["engine"] == "scripted" and version["model"] == "scripted"
    assert document["info"]["version"] == version["version"]
    assert "commit" in version
