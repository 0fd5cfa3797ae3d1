"""Which pages and keys come in, by headers alone, and how often."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused_for
from starlette.datastructures import Headers

from server.auth.authentication import ApiKeyLookup, FileKeyStore, Principal
from server.auth.first_key import MAX_TRIES, FirstKey
from server.auth.keys import NewKey, Scopes
from server.auth.rate_limits import LocalRateLimiter
from server.errors import FIRST_KEY_NEEDED, FORBIDDEN_ORIGIN, HOST_INVALID, KEY_FULL, UNAUTHORIZED, RequestError
from server.middleware import SETUP_PATH, AccessControl, host_name, is_same_origin, is_subresource
from server.settings.server import ServerSettings, origin_of

KEY = "a-key-of-the-settings"
HERE = "127.0.0.1:8000"
LISTED = "https://lab.example"


def _door(*keys: str, host: str = "127.0.0.1", origins: tuple[str, ...] = (LISTED,)) -> AccessControl:
    return AccessControl(ServerSettings(host=host, cors_origins=origins), ApiKeyLookup(keys), LocalRateLimiter())


def test_without_any_key_only_the_setup_is_open(tmp_path: Path) -> None:
    """Every other path is told what to do, with and without a key; after ten wrong codes the setup is shut too."""
    key_lookup = ApiKeyLookup((), FileKeyStore(tmp_path / "keys.json"))
    settings = ServerSettings(host="0.0.0.0")
    first = FirstKey(key_lookup)
    access_control = AccessControl(settings, key_lookup, LocalRateLimiter(), first)
    access_control.admit(SETUP_PATH, _headers())
    for headers in (_headers(), _headers(authorization="Bearer ah-of-another-server")):
        with pytest.raises(RequestError, match="this server has no key yet", check=FIRST_KEY_NEEDED.is_of):
            access_control.admit("/v1/models", headers)
    for _ in range(MAX_TRIES):
        with suppress(RequestError):
            first.claim("AAAA")
    with pytest.raises(RequestError, match="10 wrong tries", check=FIRST_KEY_NEEDED.is_of):
        access_control.admit(SETUP_PATH, _headers())


def _headers(**fields: str) -> Headers:
    return Headers({"host": HERE} | {name.replace("_", "-"): value for name, value in fields.items()})


def _raw(*fields: tuple[str, str]) -> Headers:
    return Headers(raw=[(name.encode(), value.encode("latin-1")) for name, value in fields])


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "localhost:8000:80",
        "evil@localhost", "", "0.0.0.0:8000", "[::ffff:127.0.0.1]", "lоcalhost", "127.0.0.1:80x", "2130706433",
    ],
)  # fmt: skip
def test_a_loopback_server_answers_to_its_own_names_only(host: str) -> None:
    """A page that reaches it under another name (DNS rebinding) is refused, with a same-origin header too."""
    for method in ("GET", "POST", "OPTIONS"):
        with refused_for(HOST_INVALID):
            _door(KEY).check_page(method, Headers(raw=[(b"host", host.encode())]))
        with refused_for(HOST_INVALID):
            _door().check_page(method, Headers(raw=[(b"host", host.encode()), (b"origin", f"http://{host}".encode())]))


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:8000", "127.0.0.1", "127.0.0.1:8000", "[::1]:8000", "desk.example:80"]
)
def test_its_own_names_are_known_in_any_case_and_with_a_port(host: str) -> None:
    """And those of server.allowed_hosts."""
    settings = ServerSettings(allowed_hosts=("Desk.example",))
    AccessControl(settings, ApiKeyLookup(()), LocalRateLimiter()).check_page("POST", Headers({"host": host}))


def test_it_answers_to_the_address_it_was_given() -> None:
    """Any of 127.0.0.0/8 is loopback."""
    _door(host="127.0.0.5").check_page("GET", Headers({"host": "127.0.0.5:8000"}))


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "https://evil.example", "null", "", "http://localhost:8000", "http://127.0.0.1:3000",
        "http://127.0.0.1", "https://127.0.0.1", "file://", "chrome-extension://abcdefgh", "http://127.0.0.1:8000.evil.example",
        "http://lab.example", "https://lab.example.evil.example", "https://sub.lab.example", "https://lab.example:444",
        "https://lab.example@evil.example", "http://127.0.0.1:8000/path", "http://127.0.0.1:99999", "*",
        "data://127.0.0.1:8000",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_a_page_of_another_origin_is_refused(origin: str, method: str) -> None:
    """On loopback for every method, with and without keys; the error names the setting."""
    for access_control in (_door(), _door(KEY)):
        with refused_for(FORBIDDEN_ORIGIN) as refused:
            access_control.check_page(method, _headers(origin=origin))
        assert "server.cors_origins" in refused.value.fault.hint
        assert "access-control-allow-origin" not in access_control.cors_headers(method, _headers(origin=origin))
        assert not access_control.is_preflight(method, _headers(origin=origin, access_control_request_method="POST"))


_WILD = st.one_of(
    st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=30),
    st.text("htps:/[]@.*%#?\\127.0localhost:8000", max_size=30),
    st.builds(
        "http://{}:{}".format, st.sampled_from(["127.0.0.1", "localhost", "[::1]", "lab.example"]), st.integers()
    ),
)


@given(_WILD, _WILD)
def test_no_text_in_host_or_origin_is_taken_for_another(host: str, origin: str) -> None:
    """Nothing but the two refusals comes out; what passes is listed, or has the host's own name."""
    try:
        _door().check_page("POST", _raw(("host", host), ("origin", origin)))
    except RequestError:
        return
    assert host_name(host) in ("localhost", "127.0.0.1", "[::1]")
    assert origin_of(origin) == LISTED or origin_of(origin).partition("://")[2] in (host.lower(), host_name(host))


def test_two_origins_are_none() -> None:
    """One of them may be a lie."""
    with refused_for(FORBIDDEN_ORIGIN):
        _door().check_page("POST", _raw(("host", HERE), ("origin", LISTED), ("origin", "http://evil.example")))


@pytest.mark.parametrize("origin", [LISTED, "HTTPS://LAB.example", "https://lab.example:443", f"http://{HERE}"])
def test_a_page_of_its_own_or_of_the_list_may(origin: str) -> None:
    """As browsers write it, or not."""
    _door().check_page("POST", _headers(origin=origin))


def test_programs_that_are_no_browser_may() -> None:
    """They send neither Origin nor Sec-Fetch-Site."""
    _door().check_page("POST", _headers())


@pytest.mark.parametrize(
    ("site", "mode", "destination", "refused"),
    [
        ("cross-site", "no-cors", "image", True),
        ("cross-site", "no-cors", "script", True),
        ("same-site", "no-cors", "empty", True),
        ("cross-site", "navigate", "iframe", True),
        ("cross-site", "navigate", "document", False),
        ("same-origin", "cors", "empty", False),
        ("none", "navigate", "document", False),
        ("", "", "", False),
    ],
)
def test_another_page_does_not_load_it_as_a_part(site: str, mode: str, destination: str, refused: bool) -> None:
    """A GET without Origin, as for an image, is told by Sec-Fetch; a link that somebody follows is not refused."""
    headers = _headers(sec_fetch_site=site, sec_fetch_mode=mode, sec_fetch_dest=destination)
    assert is_subresource(site, mode, destination) is refused
    if refused:
        with refused_for(FORBIDDEN_ORIGIN):
            _door().check_page("GET", headers)
    else:
        _door().check_page("GET", headers)


def test_a_reachable_server_refuses_changes_of_other_pages() -> None:
    """There every route has a key; who reads with one is told nothing that his page could read."""
    access_control = _door(KEY, host="0.0.0.0")
    foreign = Headers({"host": "arrow.example", "origin": "http://evil.example"})
    access_control.check_page("GET", foreign)
    assert access_control.cors_headers("GET", foreign) == {"vary": "Origin"}
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        with refused_for(FORBIDDEN_ORIGIN):
            access_control.check_page(method, foreign)
    access_control.check_page("POST", Headers({"host": "arrow.example", "origin": "https://arrow.example"}))
    access_control.check_page("POST", Headers({"host": "arrow.example:8443", "origin": "https://arrow.example:8443"}))
    with refused_for(FORBIDDEN_ORIGIN):
        access_control.check_page("POST", Headers({"host": "arrow.example:8443", "origin": "https://arrow.example"}))


def test_answers_to_a_listed_page_can_be_read_by_it() -> None:
    """By it alone, never with credentials; what its browser asks first is answered."""
    access_control = _door(KEY)
    told = access_control.cors_headers("POST", _headers(origin=LISTED))
    assert (told["access-control-allow-origin"], told["vary"]) == (LISTED, "Origin")
    assert "x-ratelimit-remaining-requests" in told["access-control-expose-headers"]
    asked = _headers(
        origin=LISTED, access_control_request_method="POST", access_control_request_private_network="true",
        access_control_request_headers="authorization,x-stainless-os",
    )  # fmt: skip
    assert access_control.is_preflight("OPTIONS", asked) and not access_control.is_preflight("POST", asked)
    told = access_control.cors_headers("OPTIONS", asked)
    assert told["access-control-allow-headers"] == "authorization,x-stainless-os"
    assert told["access-control-allow-private-network"] == "true"
    assert "access-control-allow-credentials" not in told and "*" not in "".join(told.values())
    split = _headers(origin=LISTED, access_control_request_method="POST", access_control_request_headers="a\r\nb: c")
    assert access_control.cors_headers("OPTIONS", split)["access-control-allow-headers"] == "authorization"
    assert _door(KEY, origins=()).cors_headers("GET", _headers(origin=LISTED)) == {}


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://Lab.example/", "https://lab.example"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://lab.example:80", "http://lab.example"),
        ("https://[::1]:8443", "https://[::1]:8443"),
        ("app://obsidian.md", "app://obsidian.md"),
    ],
)
def test_origins_have_one_form(text: str, origin: str) -> None:
    """That of browsers."""
    assert origin_of(text) == origin


def test_names_of_hosts_and_pages_are_compared_whole() -> None:
    """Ports count, but those that go without saying."""
    assert [host_name(host) for host in ("A:1", "[::1]:1", "[::1]", "a")] == ["a", "[::1]", "[::1]", "a"]
    assert is_same_origin("http://a", "a:80") and is_same_origin("https://a", "a") and is_same_origin("http://A", "a")
    assert not is_same_origin("http://a:81", "a") and not is_same_origin("null", "null")


@pytest.mark.parametrize("header", [f"Bearer {KEY}", f"bearer {KEY}", f"BEARER   {KEY} "])
def test_a_bearer_token_is_taken(header: str) -> None:
    """The scheme in any case, as HTTP has it."""
    assert _door(KEY).admit("/v1/models", _headers(authorization=header)).is_operator


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"authorization": ""}, {"authorization": "Bearer"}, {"authorization": "Bearer "}, {"authorization": KEY},
        {"authorization": f"Basic {KEY}"}, {"authorization": f"Bearer{KEY}"}, {"authorization": f"Bearer {KEY}x"},
        {"authorization": f"Bearer {KEY[:-1]}"}, {"authorization": f"Bearer {KEY.upper()}"},
        {"authorization": f"Bearer {KEY},{KEY}"}, {"authorization": f"Bearer {KEY}, Bearer {KEY}"},
        {"authorization": "Bearer " + "x" * 60_000}, {"authorization": "Bearer ключ"}, {"x-api-key": KEY},
        {"api-key": KEY}, {"cookie": f"key={KEY}; authorization=Bearer {KEY}"},
        {"proxy-authorization": f"Bearer {KEY}"}, {"authorization": f"Token {KEY}"},
        {"authorization": f"Bearer\t{KEY}"},
    ],
)  # fmt: skip
def test_nothing_else_is(headers: dict[str, str]) -> None:
    """Whatever the header and its form."""
    raw = Headers(raw=[(name.encode(), value.encode("utf-8")) for name, value in headers.items()])
    with pytest.raises(RequestError, check=UNAUTHORIZED.is_of):
        _door(KEY).admit("/v1/models", raw)


def test_two_authorizations_are_none() -> None:
    """A proxy and the server might each take another one."""
    for other in (KEY, "other"):
        with pytest.raises(RequestError, check=UNAUTHORIZED.is_of):
            _door(KEY).admit(
                "/v1/models", _raw(("authorization", f"Bearer {KEY}"), ("authorization", f"Bearer {other}"))
            )


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_anthropics_routes_take_anthropics_header(path: str) -> None:
    """Its clients send the bare key there unless they are told otherwise."""
    assert _door(KEY).admit(path, _headers(x_api_key=f"{KEY} ")).is_operator
    assert _door(KEY).admit(path, _headers(authorization=f"Bearer {KEY}")).is_operator


@pytest.mark.parametrize(
    "fields",
    [
        (("x-api-key", "other"),), (("x-api-key", ""),), (("x-api-key", f"Bearer {KEY}"),),
        (("x-api-key", KEY), ("x-api-key", KEY)), (("x-api-key", KEY), ("authorization", f"Bearer {KEY}")),
        (("x-api-key", KEY), ("authorization", "Bearer other")), (("x-api-key", "other"), ("authorization", KEY)),
    ],
)  # fmt: skip
def test_anthropics_header_is_one_good_key_alone(fields: tuple[tuple[str, str], ...]) -> None:
    """A second way in is no way around the first."""
    with pytest.raises(RequestError, check=UNAUTHORIZED.is_of):
        _door(KEY).admit("/v1/messages", _raw(*fields))


def test_a_reachable_server_without_keys_answers_nobody() -> None:
    """It is not started like this; if it were, it would be shut."""
    with pytest.raises(RequestError, check=UNAUTHORIZED.is_of):
        _door(host="0.0.0.0").admit("/v1/models", _headers())


def test_only_health_and_the_files_of_the_pages_are_open() -> None:
    """By their exact paths; the files have no data of the server."""
    access_control = _door(KEY)
    for path in ("/health", "/", "/web/app.js"):
        assert access_control.admit(path, _headers()).owner == ""
    for path in (
        "/ready",
        "/health/",
        "//health",
        "/health/../v1/models",
        "/Health",
        "/healthz",
        "/version",
        "/web/",
        "/web/x",
    ):
        with pytest.raises(RequestError, check=UNAUTHORIZED.is_of):
            access_control.admit(path, _headers())


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _grant(**rates: int) -> Principal:
    return Principal(owner="a" * 64, scopes=Scopes(**rates))  # type: ignore[arg-type]


async def test_keys_do_not_share_a_rate_and_buckets_are_bounded() -> None:
    """One that is not limited has no headers."""
    rates = LocalRateLimiter(Clock())
    for number in range(5000):
        await rates.take(Principal(owner=f"{number:064}", scopes=Scopes(requests_per_minute=1)))
    assert len(rates._buckets) <= 4096
    assert rates.headers(_grant()) == {}
    await rates.take(_grant())


@pytest.mark.parametrize(("seconds_left", "told"), [(0.25, "250ms"), (7.0, "7s"), (60.0, "1m0s")])
def test_times_are_told_as_openai_does(seconds_left: float, told: str) -> None:
    """Rounded up."""
    clock = Clock()
    rates, principal = LocalRateLimiter(clock), _grant(tokens_per_minute=6000)
    rates.spend(principal, int(seconds_left * 100))
    assert rates.headers(principal)["x-ratelimit-reset-tokens"] == told


async def test_a_limited_key_is_known_at_the_door(tmp_path: Path) -> None:
    """With its scopes."""
    store = FileKeyStore(tmp_path / "keys.json", lambda: datetime(2026, 1, 1, tzinfo=UTC))
    secret, made = store.create(NewKey(name="anna", scopes=Scopes(requests_per_minute=1)))
    access_control = AccessControl(ServerSettings(), ApiKeyLookup((), store), LocalRateLimiter())
    principal = access_control.admit("/v1/models", _headers(authorization=f"Bearer {secret}"))
    assert (principal.key_id, principal.is_operator) == (made.id, False)
    await access_control.take(principal)
    with pytest.raises(RequestError, check=KEY_FULL.is_of):
        await access_control.take(principal)
