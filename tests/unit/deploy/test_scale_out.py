"""Several servers with Compose, HAProxy and Kubernetes: one account of addresses, times, secrets and commands."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from scale_out_files import EXAMPLE, FOLDER, MANIFESTS, compose, container, manifest, pod, server_environment

from server.api.http_io import KEEPALIVE_S
from server.jobs.queue import JobLimits
from server.middleware import OPEN_PATHS
from server.serving.run import FLUSH_S
from server.settings.loading import load_settings
from server.settings.schema import Settings

ROOT = Path(__file__).parents[3]
SERVERS, REPLICAS = ("server-1", "server-2"), ("replica-1", "replica-2")
ROUTER = MANIFESTS / "router.cfg"
SECRET = re.compile(r"(api_?keys?|token|passw|secret|credential)", re.IGNORECASE)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(compose()["services"])


def _settings(variables: Mapping[str, str], config: str, folder: Path, patch: pytest.MonkeyPatch) -> Settings:
    (folder / "config.toml").write_text(config)
    for name, value in variables.items():
        patch.setenv(name, value)
    return load_settings(config=folder / "config.toml")


def _example(name: str) -> str:
    """A file of the example of secrets, filled in."""
    (found,) = [one for one in yaml.safe_load_all(EXAMPLE.read_text()) if name in one["stringData"]]
    return re.sub(r"REPLACE: [^\"\n]*", "0123456789abcdef", found["stringData"][name])


@pytest.fixture(params=["compose", "kubernetes"])
def settings(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What a server gets to see, from both ways to deploy it."""
    config = _example("config.toml")
    if request.param == "kubernetes":
        variables = dict(manifest("ConfigMap", "server-settings")["data"])
    else:
        variables = server_environment()
        (text,) = re.findall(r"```toml\n(\[server\].*?)```", (ROOT / "docs" / "scale-out.md").read_text(), re.DOTALL)
        config = text.replace("…", "0123456789abcdef")
    return _settings(variables, config, tmp_path, monkeypatch)


def test_a_server_takes_its_settings(settings: Settings) -> None:
    """Environment and secret file together: the router, a database, the operator's key, no way out."""
    assert settings.model.engine == "remote" and settings.model.url == "http://router:8000"
    assert settings.model.api_key and settings.state.url and settings.server.api_keys
    assert settings.egress.mode == "off"


def test_servers_share_their_namespaces(settings: Settings) -> None:
    """Else one that is built on a server is not found by a request that reaches the other."""
    assert settings.retrieval.storage == "postgresql"


def test_the_database_of_shared_namespaces_has_pgvector(services: dict[str, Any]) -> None:
    """Of a version that is new enough and named, with the tools of the same PostgreSQL for backups."""
    image = services["postgres"]["image"]
    name, _, tag = image.partition(":")
    (version,) = re.findall(r"^(\d+\.\d+)\.\d+-pg\d+$", tag)
    cluster = (FOLDER / "kubernetes" / "kustomization.yaml").read_text()

    assert name == "pgvector/pgvector" and tuple(map(int, version.split("."))) >= (0, 8)
    assert services["state-tool"]["image"] == image
    assert "PostgreSQL with TLS and pgvector 0.8 or newer" in cluster


def test_no_answer_outlasts_a_drain(settings: Settings) -> None:
    """The grace is longer than the longest answer, so an update loses none; what stops the process waits longer."""
    server = settings.server
    drain_s = server.drain_notice_s + server.shutdown_grace_s + FLUSH_S + JobLimits().grace_s
    before_s = container("server")["lifecycle"]["preStop"]["sleep"]["seconds"]

    assert server.shutdown_grace_s > server.request_timeout_s
    assert pod("server")["terminationGracePeriodSeconds"] > drain_s + before_s
    for name in SERVERS:
        assert int(compose()["services"][name]["stop_grace_period"].rstrip("s")) > drain_s
    assert (ROOT / "docs" / "operations.md").read_text().count(f"| {drain_s:g} s |") == 1


def test_servers_share_the_places_of_the_replicas(settings: Settings) -> None:
    """Each counts only its own sequences: together no more than vLLM decodes by default, 256 each."""
    assert settings.model.max_num_seqs == 256 * len(REPLICAS) // len(SERVERS)


def test_the_proxy_is_the_only_way_in(services: dict[str, Any]) -> None:
    """One port of this machine's loopback address; only its network is not internal."""
    networks = compose()["networks"]
    reach_out = {name for name, one in networks.items() if not (one or {}).get("internal")}

    assert {name for name, one in services.items() if "ports" in one} == {"haproxy"}
    assert services["haproxy"]["ports"] == ["127.0.0.1:8000:8080"]
    assert reach_out == {"edge"}
    assert {name for name, one in services.items() if "edge" in one.get("networks", ())} == {"haproxy"}
    assert services["postgres"]["network_mode"] == "none"
    assert all("replicas" not in services[name]["networks"] for name in ("haproxy",))


def test_every_service_has_as_little_as_it_needs(services: dict[str, Any]) -> None:
    """No root, no capabilities, bounds of memory, a restart where it is a service; no secret in its environment."""
    for name, each in services.items():
        assert each["read_only"] is True and each["cap_drop"] == ["ALL"], name
        assert each["security_opt"] == ["no-new-privileges:true"] and not each["user"].startswith("0"), name
        assert each["deploy"]["resources"]["limits"]["memory"], name
        assert each.get("restart") == "unless-stopped" or each.get("profiles") == ["tools"], name
        words = {word for word in each.get("environment", ()) if SECRET.search(word)}
        assert all(word.endswith("_FILE") for word in words), name
        assert each.get("secrets") or name == "router", name
    assert all(one["file"] for one in compose()["secrets"].values())


def test_each_server_has_its_own_folder_and_only_replicas_have_gpus(services: dict[str, Any]) -> None:
    folders = [
        volume.partition(":")[0]
        for name in SERVERS
        for volume in services[name]["volumes"]
        if volume.endswith(":/data")
    ]
    devices = {
        name: each["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
        for name, each in services.items()
        if "reservations" in each["deploy"]["resources"]
    }

    assert folders == list(SERVERS)
    assert devices == {"replica-1": ["0"], "replica-2": ["1"]}


def test_the_servers_name_the_router_and_it_the_replicas(services: dict[str, Any]) -> None:
    """By the names that Docker gives the containers on the internal network that they share."""
    url = urlsplit(server_environment()["ARROWHEAD_MODEL__URL"])
    (template,) = re.findall(r"^  server-template \S+ \d+ (\S+):8000 ", ROUTER.read_text(), re.MULTILINE)

    assert (url.hostname, url.port) == ("router", 8000) and "bind :8000" in ROUTER.read_text()
    assert all(services[name]["networks"] == {"replicas": {"aliases": [template]}} for name in REPLICAS)
    assert all("replicas" in services[name]["networks"] for name in ("router", *SERVERS))
    assert services["router"]["volumes"] == [f"./{ROUTER.relative_to(FOLDER)}:{services['router']['command'][-1]}:ro"]
    assert compose()["networks"]["replicas"] == {"internal": True}


def _vllm_commands() -> Iterator[tuple[list[str], list[str], Mapping[str, str]]]:
    """How each deployment runs a replica: its entry point, its arguments, and its servers' environment."""
    service = compose()["services"]["replica-1"]
    yield [word.replace("$$", "$") for word in service["entrypoint"]], service["command"], server_environment()
    the = container("replica")
    yield the["command"], the["args"], manifest("ConfigMap", "server-settings")["data"]


def test_replicas_serve_what_the_servers_ask_for() -> None:
    """The same model under the same name, with what the remote engine needs; the key comes from a file."""
    for entry, arguments, environment in _vllm_commands():
        assert arguments[0] == environment["ARROWHEAD_MODEL__NAME"]
        assert f"--served-model-name={environment['ARROWHEAD_MODEL__SERVED_NAME']}" in arguments
        assert {"--enable-scale-out", "--enable-prompt-tokens-details", "--scheduling-policy=priority"} <= set(
            arguments
        )
        assert not any(word.startswith("--api-key") for word in arguments)
        assert entry[:2] == ["/bin/sh", "-c"] and "/opt/arrowhead/.venv/bin/vllm serve" in entry[2]


def test_the_entry_point_of_a_replica_takes_its_key_from_the_file(tmp_path: Path) -> None:
    """It runs as written, but for where things lie; arguments arrive as they are."""
    for number, (entry, arguments, _) in enumerate(_vllm_commands()):
        key, program = tmp_path / f"key{number}", tmp_path / f"vllm{number}"
        key.write_text("the-key\n")
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$VLLM_API_KEY" "$@"\n')
        program.chmod(0o755)
        script = re.sub(r"/run/secrets/\S*key", str(key), entry[2]).replace(
            "/opt/arrowhead/.venv/bin/vllm", str(program)
        )
        done = subprocess.run(
            ["/bin/sh", "-c", script, entry[3], *arguments], capture_output=True, text=True, timeout=10
        )
        assert done.stdout.splitlines() == ["the-key", "serve", *arguments], done.stderr


@pytest.mark.vllm
@pytest.mark.slow
def test_vllm_takes_the_arguments_of_the_replicas() -> None:
    """By its own parser, each as it is written."""
    pytest.importorskip("vllm", reason="the vLLM package is not installed")
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser())
    for _, arguments, _ in _vllm_commands():
        parsed = parser.parse_args(arguments)
        assert parsed.enable_scale_out and parsed.scheduling_policy == "priority"
        assert parsed.served_model_name == ["llama-3.1-8b"]


def test_our_command_line_takes_the_arguments_of_the_servers(services: dict[str, Any]) -> None:
    from typer.main import get_command

    from server.cli.main import _application

    commands = get_command(_application()).commands  # type: ignore[attr-defined]
    for arguments in (services["server-1"]["command"], container("server")["args"]):
        commands[arguments[0]].make_context(arguments[0], list(arguments[1:]))
    assert compose("egress.yaml")["services"]["egress"]["command"] == ["egress", "serve"]
    commands["egress"].commands["serve"].make_context("serve", [])
    guide = (ROOT / "docs" / "scale-out.md").read_text()
    (words,) = re.findall(r"server-1 key create (.*)$", guide, re.MULTILINE)
    commands["key"].commands["create"].make_context("create", words.replace("''", "").split())


def test_one_service_has_the_way_to_ncbi(
    services: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Off by default; with egress.yaml, both servers ask one service over its socket, and it alone reaches out."""
    over = compose("egress.yaml")
    egress, socket = over["services"]["egress"], "egress-socket:/run/egress"

    assert set(over["services"]) == {*SERVERS, "egress"}
    assert egress["networks"] == ["outside"] and "ports" not in egress
    for name in SERVERS:
        assert over["services"][name]["volumes"] == [socket] and "networks" not in over["services"][name]
    assert socket in egress["volumes"] and "egress:/data" in egress["volumes"]
    owner, options = services["server-1"]["user"], over["volumes"]["egress-socket"]["driver_opts"]["o"]
    assert egress["user"] == owner and "uid={},gid={}".format(*owner.split(":")) in options

    variables = server_environment() | over["services"]["server-1"]["environment"]
    server = _settings(variables, _example("config.toml"), tmp_path, monkeypatch)
    assert server.egress.mode == "local-first"
    monkeypatch.undo()
    service = _settings(egress["environment"], '[ncbi]\nemail = "a@example.org"\n', tmp_path, monkeypatch)
    assert service.egress.mode == "ncbi"
    assert server.egress.service_host == str(service.egress_service.socket) == "/run/egress/egress.sock"
    assert str(service.egress_service.socket) in egress["healthcheck"]["test"][-1]


def test_the_egress_service_has_as_little_as_it_needs(services: dict[str, Any]) -> None:
    egress, server = compose("egress.yaml")["services"]["egress"], services["server-1"]
    for name in ("read_only", "cap_drop", "security_opt", "user", "restart", "init"):
        assert egress[name] == server[name], name
    assert egress["deploy"]["resources"]["limits"]["memory"] and egress["secrets"] == ["egress_config"]
    assert not any(SECRET.search(word) for word in egress["environment"])


def test_haproxy_takes_its_file(tmp_path: Path) -> None:
    """Without a warning, but for names that only the network of the containers knows."""
    if shutil.which("haproxy") is None:
        pytest.skip("HAProxy is not installed")
    text = re.sub(r"server-(\d):8000", r"127.0.0.\1:8000", (FOLDER / "haproxy.cfg").read_text())
    (tmp_path / "haproxy.cfg").write_text(text)
    (tmp_path / "key.cfg").write_text("global\n  setenv ARROWHEAD_PROBE_KEY abc\n")
    command = ["haproxy", "-c", "-f", str(tmp_path / "key.cfg"), "-f", str(tmp_path / "haproxy.cfg")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert (done.returncode, done.stdout.strip()) == (0, "Configuration file is valid"), done.stderr


def test_haproxy_takes_the_file_of_the_router() -> None:
    """As it is: the names of the replicas are looked up while it runs."""
    if shutil.which("haproxy") is None:
        pytest.skip("HAProxy is not installed")
    done = subprocess.run(["haproxy", "-c", "-f", str(ROUTER)], capture_output=True, text=True, timeout=30, check=False)

    assert (done.returncode, done.stdout.strip()) == (0, "Configuration file is valid"), done.stderr


def _haproxy_s(name: str) -> float:
    (value,) = re.findall(rf"^  {name} (\d+)s$", (FOLDER / "haproxy.cfg").read_text(), re.MULTILINE)
    return float(value)


def test_the_proxy_waits_for_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than the longest answer, which may be silent where it is no stream; and the container waits for it."""
    server = _settings(server_environment(), _example("config.toml"), tmp_path, monkeypatch).server
    stop_s = int(compose()["services"]["haproxy"]["stop_grace_period"].rstrip("s"))

    assert min(_haproxy_s("timeout server"), _haproxy_s("timeout client")) > server.request_timeout_s
    assert _haproxy_s("timeout server") > KEEPALIVE_S
    assert server.request_timeout_s < _haproxy_s("hard-stop-after") < stop_s
    # Two checks in a row may fail late: the server still answers, with 503, and such a request goes to the other.
    assert server.drain_notice_s > 2


def test_the_proxy_repeats_requests_of_routes_that_there_are() -> None:
    """And none that changes something."""
    described = (ROOT / "docs" / "openai-api.md").read_text() + (ROOT / "docs" / "retrieval-http.md").read_text()
    described += (ROOT / "docs" / "openai-fields.md").read_text() + (ROOT / "docs" / "engines.md").read_text()
    described += (ROOT / "docs" / "encoders.md").read_text()
    (paths,) = re.findall(r"acl answers path (.*)$", (FOLDER / "haproxy.cfg").read_text(), re.MULTILINE)

    assert [path for path in paths.split() if path not in described] == []
    assert not any(word in paths for word in ("namespaces", "jobs", "files", "documents"))
    assert "/health" in OPEN_PATHS


def test_the_sizing_table_follows_its_formulas() -> None:
    """Each row, from the assumptions above it; what is measured is named in the rows of formulas."""
    guide = (ROOT / "docs" / "scale-out.md").read_text()
    rows = re.findall(r"^\| ([\d,]+) \| (\d+ \|.*) \|$", guide, re.MULTILINE)

    assert [users for users, _ in rows] == ["50", "200", "1,000", "5,000"]
    for users, row in rows:
        at_once = math.ceil(int(users.replace(",", "")) * 10 * 30 / 3600 * 4)
        replicas = math.ceil(max(at_once * 4000 / 439_000, at_once / 256)) + 1
        servers = math.ceil(at_once * 20 / 4200) + 1
        memory = (servers * 553 + at_once * 0.075) / 1024
        assert row.split(" | ") == [
            str(at_once), str(replicas), str(servers), f"{replicas * 80:,} GB", f"{memory:.1f} GiB", str(20 * servers),
            f"{at_once * 2 / 30:.1f}", f"{replicas}·*p* + {servers}·*f*",
        ]  # fmt: skip
