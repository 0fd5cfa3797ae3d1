"""The addresses of a server's own passages, as its clients can open them."""

from __future__ import annotations

import pytest
from starlette.requests import HTTPConnection

from server.api.answers.rendering import EventAddresses, own_address
from server.methods.base import Event, Evidence, Reference, TextDelta

BASE = "https://ask.example"


def _request(headers: dict[str, str], *, scheme: str = "http", root: str = "", port: int = 8000) -> HTTPConnection:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "headers": raw, "scheme": scheme, "root_path": root, "server": ("127.0.0.1", port)}
    return HTTPConnection(scope)


@pytest.mark.parametrize(
    ("headers", "address"),
    [
        ({"Host": "127.0.0.1:8000"}, "http://127.0.0.1:8000"),
        ({"Host": "[::1]:8000"}, "http://[::1]:8000"),
        ({"Host": "gpu-box:8000"}, "http://gpu-box:8000"),
        ({"Host": "ask.example"}, "http://ask.example"),
        ({"Host": "127.0.0.1", "X-Forwarded-Host": "ask.example"}, "http://ask.example"),
        # Proxies that are not trusted, or say too little.
        ({"Host": "127.0.0.1"}, ""),
        ({"Host": "127.0.0.1:8000", "X-Forwarded-Host": "evil.example"}, ""),
        ({"Host": "127.0.0.1:8000", "Forwarded": "host=ask.example"}, ""),
        ({"Host": "a) [x](javascript:alert(1)"}, ""),
        ({}, ""),
    ],
)
def test_the_address_is_the_one_under_which_the_client_came(headers: dict[str, str], address: str) -> None:
    """A path that cannot be completed for sure stays a path: a wrong host would be worse."""
    assert own_address(_request(headers), ("ask.example",)) == address


def test_scheme_and_root_path_belong_to_the_address() -> None:
    """Of a server below a path, over TLS."""
    request = _request({"Host": "ask.example"}, scheme="https", root="/arrowhead/")
    assert own_address(request, ("ask.example",)) == "https://ask.example/arrowhead"
    assert own_address(_request({"Host": "ask.example"}, root="/a b)"), ("ask.example",)) == ""


def _completed(base: str, events: list[Event]) -> tuple[str, tuple[Reference, ...]]:
    addresses = EventAddresses(base)
    done = [one for event in events for one in addresses.of(event)]
    text = "".join(one.text for one in done if isinstance(one, TextDelta) and one.channel == "answer")
    return text, next(one.references for one in done if isinstance(one, Evidence))


@pytest.mark.parametrize("base", ["", BASE])
def test_links_and_references_of_own_passages_are_completed(base: str) -> None:
    """Others are not, and each marker is where its reference says."""
    head, listed = (
        "Protamine [1].",
        "\n\n[1] [Heparin](/v1/passages/notes/7)\n[2] [A](https://x/1)\n[3] [B](/v1/passages/n/8)",
    )
    places = [(head + listed).index(f"\n[{n}]") + 1 for n in (1, 2, 3)]
    urls = ["/v1/passages/notes/7", "https://x/1", "/v1/passages/n/8"]
    references = tuple(
        Reference(n, "t", url, at, at + 3) for n, (at, url) in enumerate(zip(places, urls, strict=True), 1)
    )
    text, moved = _completed(base, [TextDelta(head), TextDelta(listed, is_ours=True), Evidence(references)])
    assert [text[one.start : one.end] for one in moved] == ["[1]", "[2]", "[3]"]
    assert [one.url for one in moved] == [f"{base}{urls[0]}", urls[1], f"{base}{urls[2]}"]
    assert f"[Heparin]({base}/v1/passages/notes/7)" in text and "[A](https://x/1)" in text
