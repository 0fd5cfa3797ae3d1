"""Settings: where values come from, which are refused, and that each refusal names its variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.egress.policy import EgressPolicy
from server.settings.egress import EgressSettings
from server.settings.loading import SettingsInvalid, load_settings
from server.settings.server import is_loopback
from server.types import key_id


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("ARROWHEAD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))


def test_flags_win_over_environment_over_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each source fills what the stronger ones left open, field by field within one group."""
    file = tmp_path / "config.toml"
    file.write_text('[server]\nhost = "127.0.0.2"\nport = 1\nmax_waiting = 3\n')
    monkeypatch.setenv("ARROWHEAD_CONFIG", str(file))
    monkeypatch.setenv("ARROWHEAD_SERVER__PORT", "2")
    monkeypatch.setenv("ARROWHEAD_SERVER__MAX_WAITING", "4")

    server = load_settings({"server": {"port": "5"}}).server

    assert (server.host, server.port, server.max_waiting) == ("127.0.0.2", 5, 4)


def test_the_file_in_the_xdg_folder_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a flag or variable the user's own file counts."""
    (tmp_path / "arrowhead").mkdir()
    (tmp_path / "arrowhead" / "config.toml").write_text("[loop]\nmax_calls = 7\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    assert load_settings().loop.max_calls == 7


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("ARROWHEAD_SERVER__PORT", "http", "ARROWHEAD_SERVER__PORT (server.port)"),
        ("ARROWHEAD_SERVER__PORT", "70000", "ARROWHEAD_SERVER__PORT (server.port)"),
        ("ARROWHEAD_NCBI__EMIAL", "a@b", "ARROWHEAD_NCBI__EMIAL (ncbi.emial): there is no such setting"),
        ("ARROWHEAD_NCBY__EMAIL", "a@b", "ARROWHEAD_NCBY__EMAIL: there is no group ncby"),
        ("ARROWHEAD_MODEL", "x", "ARROWHEAD_MODEL"),
        ("ARROWHEAD_EGRESS__MODE", "on", "'off', 'local-first' or 'ncbi'"),
        ("ARROWHEAD_EGRESS__MODE", "local-first", "ARROWHEAD_NCBI__EMAIL (ncbi.email)"),
        ("ARROWHEAD_EGRESS__PROFILE", "clinic", "ARROWHEAD_EGRESS__PROFILE (egress.profile)"),
        ("ARROWHEAD_EGRESS__ALLOW", "id,prose", "ARROWHEAD_EGRESS__ALLOW (egress.allow)"),
        ("ARROWHEAD_EGRESS__KEY_MODES", "a-secret-key=off", "ARROWHEAD_EGRESS__KEY_MODES (egress.key_modes): a key id"),
        ("ARROWHEAD_EGRESS__KEY_MODES", "1a2b3c4d=on", "ARROWHEAD_EGRESS__KEY_MODES"),
        ("ARROWHEAD_EGRESS__KEY_MODES", "1a2b3c4d=ncbi", "above egress.mode off"),
        ("ARROWHEAD_EGRESS__KEY_MODES", "1a2b3c4d=off", "no key has the id 1a2b3c4d"),
        ("ARROWHEAD_AUDIT__LEVEL", "all", "ARROWHEAD_AUDIT__LEVEL (audit.level)"),
        ("ARROWHEAD_AUDIT__ON_FAILURE", "ignore", "ARROWHEAD_AUDIT__ON_FAILURE (audit.on_failure)"),
        ("ARROWHEAD_AUDIT__MAX_BYTES", "10", "ARROWHEAD_AUDIT__MAX_BYTES (audit.max_bytes)"),
        ("ARROWHEAD_SERVER__CORS_ORIGINS", "*", "(server.cors_origins): '*' is no origin"),
        ("ARROWHEAD_SERVER__CORS_ORIGINS", "https://lab.example/page", "is no origin"),
        ("ARROWHEAD_SERVER__API_KEYS", "short", "ARROWHEAD_SERVER__API_KEYS"),
        ("ARROWHEAD_EGRESS__MODE", "ncbi", "ARROWHEAD_NCBI__EMAIL (ncbi.email)"),
        ("ARROWHEAD_MODEL__ENGINE", "scripted", "ARROWHEAD_MODEL__SCRIPT (model.script)"),
        ("ARROWHEAD_MODEL__ENGINE", "remote", "ARROWHEAD_MODEL__URL (model.url): the engine 'remote' needs"),
        ("ARROWHEAD_MODEL__URL", "http://127.0.0.1:8000", "ARROWHEAD_MODEL__URL (model.url): the engine 'remote'"),
        ("ARROWHEAD_MODEL__URL", "http://10.0.0.1/v1", "ARROWHEAD_MODEL__URL (model.url): an address without a path"),
        ("ARROWHEAD_MODEL__URL", "http://a:1,http://b", "ARROWHEAD_MODEL__URL (model.url): one address; put a router"),
        ("ARROWHEAD_MODEL__URLS", "http://a:1", "(model.urls): there is one address now, model.url"),
        ("ARROWHEAD_RETRIEVAL__ENCODER", "minilm", "(retrieval.encoder): name it first in retrieval.encoders"),
        ("ARROWHEAD_RETRIEVAL__ENCODERS", "", "ARROWHEAD_RETRIEVAL__ENCODERS (retrieval.encoders)"),
        ("ARROWHEAD_SERVER__ORGANISATION", "lab", "write server.cache_salt as organisation:NAME"),
        ("ARROWHEAD_SERVER__CACHE_SALT", "organisation", "ARROWHEAD_SERVER__CACHE_SALT (server.cache_salt)"),
        ("ARROWHEAD_VERIFIER__DEVICE", "cpu", "retrieval.device is of encoders and verifier"),
        ("ARROWHEAD_NCBI__EUTILS_URL", "ftp://127.0.0.1", "ARROWHEAD_NCBI__EUTILS_URL"),
        ("ARROWHEAD_NCBI__EUTILS_URL", "http://user@127.0.0.1", "no user name"),
        ("ARROWHEAD_CONFIG", "/nonexistent/config.toml", "ARROWHEAD_CONFIG"),
    ],
)
def test_a_bad_value_is_refused_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    """Start-up stops with the name that has to be changed."""
    monkeypatch.setenv(variable, value)

    with pytest.raises(SettingsInvalid) as refused:
        load_settings()

    assert said in refused.value.message
    assert "my-secret-key" not in refused.value.message


def test_prompts_go_unencrypted_to_private_addresses_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """To another one with TLS."""
    monkeypatch.setenv("ARROWHEAD_MODEL__ENGINE", "remote")
    for url in ("http://10.0.0.7:8000", "https://8.8.8.8", "http://router:8000"):
        monkeypatch.setenv("ARROWHEAD_MODEL__URL", url)
        assert load_settings().model.url == url
    monkeypatch.setenv("ARROWHEAD_MODEL__URL", "http://8.8.8.8:8000")
    with pytest.raises(SettingsInvalid, match=r"ARROWHEAD_MODEL__URL .*unencrypted.*https"):
        load_settings()


def test_modes_of_keys_come_as_text_or_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By the key's id, which the key itself cannot be read from."""
    name = key_id("first-key-0")
    file = tmp_path / "config.toml"
    file.write_text(f'[egress]\nmode = "ncbi"\n[egress.key_modes]\n"{name}" = "off"\n[ncbi]\nemail = "a@b.example"\n')
    monkeypatch.setenv("ARROWHEAD_SERVER__API_KEYS", "first-key-0,second-key-0")

    assert load_settings(config=file).egress.key_modes == {name: "off"}
    monkeypatch.setenv("ARROWHEAD_EGRESS__KEY_MODES", f" {name} = local-first ")
    assert load_settings(config=file).egress.key_modes == {name: "local-first"}
    assert len(name) == 8 and "first-key" not in name


@pytest.mark.parametrize(
    ("settings", "profile", "allowed"),
    [
        ({"mode": "ncbi"}, "open", ("id", "symbol", "term", "free_text", "coordinates", "sequence")),
        ({"mode": "ncbi", "profile": "hospital"}, "hospital", ("id", "symbol", "term")),
        ({"mode": "local-first"}, "hospital", ("id", "symbol", "term")),
        ({"mode": "local-first", "allow": "sequence, id"}, "listed", ("id", "sequence")),
        ({"mode": "ncbi", "allow": ""}, "listed", ()),
    ],
)
def test_the_list_of_what_may_leave(settings: dict[str, str], profile: str, allowed: tuple[str, ...]) -> None:
    """By the mode's own profile, by name, or class by class; an empty list lets nothing out."""
    policy = EgressPolicy.of(EgressSettings.model_validate(settings))

    assert (policy.profile, policy.allowed) == (profile, allowed)


def test_a_profile_and_a_list_exclude_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of them would count is not left to chance."""
    monkeypatch.setenv("ARROWHEAD_EGRESS__PROFILE", "open")
    monkeypatch.setenv("ARROWHEAD_EGRESS__ALLOW", "id")

    with pytest.raises(SettingsInvalid, match=r"ARROWHEAD_EGRESS__ALLOW \(egress\.allow\): egress\.profile is set"):
        load_settings()


def test_a_remote_address_needs_egress(monkeypatch: pytest.MonkeyPatch) -> None:
    """With egress off, NCBI's own address is refused with what to do; with egress on it is taken."""
    monkeypatch.setenv("ARROWHEAD_NCBI__EUTILS_URL", "https://eutils.ncbi.nlm.nih.gov/entrez/eutils")

    with pytest.raises(SettingsInvalid, match=r"egress\.mode is off: set egress\.mode to ncbi"):
        load_settings()

    monkeypatch.setenv("ARROWHEAD_EGRESS__MODE", "ncbi")
    monkeypatch.setenv("ARROWHEAD_NCBI__EMAIL", "someone@example.org")
    assert load_settings().egress.mode == "ncbi"


@pytest.mark.parametrize("url", ["http://127.0.0.1:7001", "http://127.0.0.1:7001/entrez/eutils/"])
def test_a_loopback_address_works_with_egress_off(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """The folder of the functions may be left out."""
    monkeypatch.setenv("ARROWHEAD_NCBI__EUTILS_URL", url)
    monkeypatch.setenv("ARROWHEAD_NCBI__BLAST_URL", "http://127.0.0.1:7001")

    ncbi = load_settings().ncbi

    assert ncbi.eutils_url == "http://127.0.0.1:7001/entrez/eutils"
    assert ncbi.blast_url == "http://127.0.0.1:7001/blast/Blast.cgi"


def test_a_reachable_address_is_fine_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys come as one comma-separated text and do not show in the settings' text."""
    monkeypatch.setenv("ARROWHEAD_SERVER__HOST", "0.0.0.0")
    monkeypatch.setenv("ARROWHEAD_SERVER__API_KEYS", "first-key-0, second-key-0")

    settings = load_settings()

    assert [key.get_secret_value() for key in settings.server.api_keys] == ["first-key-0", "second-key-0"]
    assert "first-key" not in repr(settings)


@pytest.mark.parametrize("text", ["[server", f"x = {'[' * 9999}", f"x = {'9' * 5000}", 'audit.path = "a\\u0000"'])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    """Not TOML: the message has the path; a path that cannot be: the field."""
    (file := tmp_path / "config.toml").write_text(text)
    with pytest.raises(SettingsInvalid, match=rf"{file}|\(audit.path\): has a NUL"):
        load_settings(config=file)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("127.0.0.9", True), ("::1", True), ("[::1]", True), ("0.0.0.0", False), ("evil.org", False)],
)
def test_loopback_is_judged_by_the_name_alone(host: str, expected: bool) -> None:
    """No name is resolved: only addresses and localhost count."""
    assert is_loopback(host) is expected


def test_blast_folders_come_as_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARROWHEAD_GATEWAY__BLASTDB_DIRS", "/db/a, /db/b")
    assert load_settings().gateway.blastdb_dirs == (Path("/db/a"), Path("/db/b"))


def test_adapters_are_names_with_folders() -> None:
    """From a variable or flag as one text, from the file as a list."""
    model = load_settings({"model": {"lora_adapters": "notes=/a, lab/x=/b=c"}}).model
    assert model.lora_folders == {"notes": Path("/a"), "lab/x": Path("/b=c")}
    assert load_settings({}).model.lora_folders == {}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("notes", "not name=folder"),
        ("a:b=/x", "not name=folder"),
        ("=/x", "not name=folder"),
        ("a=/x,a=/y", "two adapters are called 'a'"),
    ],
)
def test_adapters_of_another_form_are_refused(value: str, said: str) -> None:
    """A colon in a name would be read as a method."""
    with pytest.raises(SettingsInvalid, match=rf"ARROWHEAD_MODEL__LORA_ADAPTERS.*{said}"):
        load_settings({"model": {"lora_adapters": value}})


@pytest.mark.parametrize("share", ["0", "1.1", "x"])
def test_a_share_of_the_gpu_is_above_0_and_at_most_1(share: str) -> None:
    with pytest.raises(SettingsInvalid, match="ARROWHEAD_MODEL__GPU_MEMORY_UTILIZATION"):
        load_settings({"model": {"gpu_memory_utilization": share}})
