"""The image, the compose file and the systemd units: what they promise, held against the files and the settings."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from scripts.image_in_chroot import Build, Instruction, pairs, parse
from server.auth.authentication import ApiKeyLookup
from server.auth.first_key import first_key
from server.jobs.queue import JobLimits
from server.serving.run import FLUSH_S
from server.settings.schema import Settings

ROOT = Path(__file__).parents[3]
SECRET = re.compile(r"(api_?keys?|token|passw|secret|credential)", re.IGNORECASE)
TIMES = ("drain_notice_s", "shutdown_grace_s")
VARIABLE = re.compile(r"ARROWHEAD_([A-Z]+)__([A-Z_0-9]+)")


@pytest.fixture(scope="module")
def dockerfile() -> list[Instruction]:
    return list(parse((ROOT / "Dockerfile.gpu").read_text()))


@pytest.fixture(scope="module")
def service() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    return dict(services["arrowhead"])


def _last(dockerfile: list[Instruction], word: str) -> str:
    return [one.text for one in dockerfile if one.word == word][-1]


def _environment(dockerfile: list[Instruction]) -> dict[str, str]:
    """Of the image that is run."""
    last = max(place for place, one in enumerate(dockerfile) if one.word == "FROM")
    return {name: value for one in dockerfile[last:] if one.word == "ENV" for name, value in pairs(one.text)}


def test_the_linter_finds_nothing() -> None:
    """hadolint, with the reasons for what it is told to pass over in the file."""
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if linter is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([linter, str(ROOT / "Dockerfile.gpu")], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_our_command_as_nobody_special(dockerfile: list[Instruction]) -> None:
    """A number as user, so that a cluster can see that it is not root; a signal that ends streams in order."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]

    assert _last(dockerfile, "USER") == "10001:10001"
    assert _last(dockerfile, "ENTRYPOINT") == '["/opt/arrowhead/.venv/bin/arrowhead"]' and "arrowhead" in scripts
    assert _last(dockerfile, "CMD") == '["serve"]'
    assert _last(dockerfile, "STOPSIGNAL") == "SIGTERM"
    assert "/health" in _last(dockerfile, "HEALTHCHECK") and "curl" not in _last(dockerfile, "HEALTHCHECK")
    assert _last(dockerfile, "VOLUME") == '["/data", "/models"]'


def test_the_image_asks_nobody_outside(dockerfile: list[Instruction]) -> None:
    """No hub, no statistics; and all that is written goes to the volume."""
    environment = _environment(dockerfile)

    assert {name: environment[name] for name in ("HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK")} == {
        "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}  # fmt: skip
    written = ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR")
    assert all(environment[name].startswith("/data/") for name in written) and environment["HOME"] == "/data"


def test_the_image_can_compile_flashinfers_kernels(dockerfile: list[Instruction]) -> None:
    """With the compiler of the base image's CUDA, which is torch's; an image without a GPU stays without it."""
    text = (ROOT / "Dockerfile.gpu").read_text()
    (release,) = re.findall(r"nvidia/cuda:(\d+)\.(\d+)\.", text)
    last = max(place for place, one in enumerate(dockerfile) if one.word == "FROM")
    packages = next(one.text for one in dockerfile[last:] if one.word == "RUN")
    (for_gpu,) = re.findall(r'if \[ "\$\{MODE\}" = gpu \]; then(.*?)fi', packages, re.DOTALL)
    toolkit = re.findall(r"(?:cuda|lib)[a-z-]+-(\d+)-(\d+)", for_gpu)

    assert {"cuda-nvcc", "cuda-cudart-dev", "libcurand-dev", "libcublas-dev"} <= {
        name.rsplit("-", 2)[0] for name in for_gpu.split() if re.search(r"-\d+-\d+", name)
    }
    assert set(toolkit) == {release} and " g++ " in for_gpu
    assert "cuda-" not in packages.replace(for_gpu, "")
    assert _environment(dockerfile)["CUDA_HOME"] == "/usr/local/cuda"
    fixed = (ROOT / "deploy" / "lock-gpu.txt").read_text()
    assert re.search(r"^ninja==", fixed, re.MULTILINE) and re.search(r"^cuda-toolkit==13\.0\.", fixed, re.MULTILINE)


def test_no_two_packages_of_the_image_install_the_same_files() -> None:
    """cuda-python was one package with all files up to 12.6; from 13 on it brings cuda-bindings of its own release."""
    fixed = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "deploy" / "lock-gpu.txt").read_text(), re.MULTILINE))
    python, bindings = (fixed[name].split(".")[:2] for name in ("cuda-python", "cuda-bindings"))

    assert int(python[0]) >= 13 and python == bindings


def test_no_secret_is_built_in(dockerfile: list[Instruction], service: dict[str, Any]) -> None:
    """Not in ENV, ARG or LABEL, and not in the compose file's environment: it names a secret's file."""
    names = [name for one in dockerfile if one.word in {"ENV", "LABEL"} for name, _ in pairs(one.text)]
    names += [one.text.partition("=")[0] for one in dockerfile if one.word == "ARG"]
    names += list(service["environment"])

    assert [name for name in names if SECRET.search(name)] == []
    assert service["environment"]["ARROWHEAD_CONFIG"] == "/run/secrets/arrowhead_config"
    assert service["secrets"] == ["arrowhead_config"]


def test_what_is_copied_is_there_and_reaches_the_builder(dockerfile: list[Instruction]) -> None:
    """Each source exists, and .dockerignore lets it through."""
    sources = [name for one in dockerfile if one.word == "COPY" and "from" not in one.flags for name in one.words[:-1]]
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert len(sources) > 5
    assert [name for name in sources if not (ROOT / name).exists()] == []
    assert set(sources) == let_through


def test_versions_of_the_image_are_those_of_the_project() -> None:
    """A pin that was changed in pyproject.toml alone would not be what is built."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["gpu"], *extras["postgres"]]
    fixed = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "deploy" / "lock-gpu.txt").read_text(), re.MULTILINE))
    pins = dict(line.split("==") for line in wanted if "==" in line)

    assert {name: fixed[name] for name in pins} == pins
    assert {re.split(r"[<>=\[]", line)[0] for line in wanted} <= set(fixed)


@pytest.mark.parametrize("name", ["gpu", "cpu"])
def test_every_locked_package_has_digests_and_none_of_the_project_is_left_out(name: str) -> None:
    """torch's CPU build is at an index of its own."""
    text = (ROOT / "deploy" / f"lock-{name}.txt").read_text()
    packages = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {re.split(r"[<>=\[]", one)[0] for one in (*project["dependencies"], *extras[name], *extras["postgres"])}

    assert [one.split("==")[0] for one in packages if "--hash=sha256:" not in one] == []
    left_out = wanted - {one.split("==")[0] for one in packages}
    assert left_out == ({"torch"} if name == "cpu" else set())


def test_the_container_has_as_little_as_it_needs(service: dict[str, Any]) -> None:
    """A root that cannot be written, no capabilities, this machine's address only, time to end its streams."""
    environment = service["environment"]

    assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"] and service["user"] == "10001:10001"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert environment["ARROWHEAD_SERVER__KEYS_FILE"].startswith("/data/")
    assert any(volume.endswith(":/models:ro") for volume in service["volumes"])


def _pod() -> dict[str, Any]:
    """Of the guide's example for Kubernetes."""
    (text,) = re.findall(r"```yaml\n(securityContext.*?)```", (ROOT / "docs" / "deploy.md").read_text(), re.DOTALL)
    return dict(yaml.safe_load(text))


def _drain_s(variables: Mapping[str, str]) -> float:
    """The longest time from SIGTERM to the end."""
    server = Settings().server
    times = {name: float(variables.get(f"ARROWHEAD_SERVER__{name.upper()}", getattr(server, name))) for name in TIMES}
    return sum(times.values()) + FLUSH_S + JobLimits().grace_s


def test_whatever_stops_the_process_waits_for_its_drain(service: dict[str, Any]) -> None:
    """The container, the unit and the pod; and the guide's table has their times."""
    unit = (ROOT / "deploy" / "systemd" / "arrowhead.service").read_text()
    pod = _pod()
    of_pod = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
    of_unit = dict(re.findall(r"(ARROWHEAD_SERVER__\w+)=(\S+)", unit))
    waits = {
        int(service["stop_grace_period"].rstrip("s")): _drain_s(service["environment"]),
        int(re.findall(r"^TimeoutStopSec=(\d+)s$", unit, re.MULTILINE)[0]): _drain_s(of_unit),
        int(pod["terminationGracePeriodSeconds"]): _drain_s(of_pod),
    }
    told = (ROOT / "docs" / "operations.md").read_text()

    assert all(waited > drained for waited, drained in waits.items())
    for drained in (_drain_s(service["environment"]), _drain_s(of_unit), _drain_s(of_pod)):
        assert f"| {drained:g} s |" in told
    assert {of_pod["ARROWHEAD_SERVER__KEYS_FILE"], service["environment"]["ARROWHEAD_SERVER__KEYS_FILE"]} == {
        "/data/keys.json"
    }
    assert of_unit["ARROWHEAD_SERVER__KEYS_FILE"] == "/var/lib/arrowhead/keys.json"


def test_the_guide_quotes_the_start_without_a_key() -> None:
    """Word by word, as the way in stands in it; the code is another one at each start."""
    settings = Settings.model_validate({"server": {"host": "0.0.0.0"}})
    first = first_key(settings.server, ApiKeyLookup(()))

    assert first is not None
    assert (
        f"\n{first.invitation.replace(first.code, 'MZXW-6YTB-OI4D-QWRT')}\n"
        in (ROOT / "docs" / "deploy.md").read_text()
    )


def _named_settings() -> Iterator[tuple[str, str, str]]:
    places = [*(ROOT / "deploy").rglob("*"), ROOT / "Dockerfile.gpu"]
    guides = ("deploy.md", "operations.md", "observability.md", "keys.md", "air-gapped.md")
    places += [ROOT / "docs" / name for name in guides]
    for path in places:
        if path.is_file() and path.suffix != ".json":
            for group, name in VARIABLE.findall(path.read_text()):
                yield path.name, group.lower(), name.lower()


def _fields(group: str) -> set[str]:
    """Of a group of settings; none for what is no group."""
    found = Settings.model_fields.get(group)
    kind = found.annotation if found else None
    return set(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else set()


def test_every_setting_that_is_named_exists() -> None:
    """In the image, the compose file, the units and the guides."""
    named = set(_named_settings())

    assert len(named) > 5
    assert [(place, group, name) for place, group, name in named if name not in _fields(group)] == []


def test_units_are_what_systemd_takes(tmp_path: Path) -> None:
    """With the drop-in for a machine without a way out."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    unit = (ROOT / "deploy" / "systemd" / "arrowhead.service").read_text()
    place = tmp_path / "arrowhead.service"
    place.write_text(re.sub(r"^ExecStart=.*$", "ExecStart=/bin/true", unit, flags=re.MULTILINE))
    (tmp_path / "arrowhead.service.d").mkdir()
    shutil.copy(ROOT / "deploy" / "systemd" / "air-gapped.conf", tmp_path / "arrowhead.service.d")
    command = ["systemd-analyze", "verify", "--man=no", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert "ExecStart=/opt/arrowhead/.venv/bin/arrowhead serve" in unit and "LoadCredential=" in unit


def test_a_build_sets_what_its_stages_say(tmp_path: Path) -> None:
    """Arguments of their own stage, continued lines, files to where they belong."""
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "a.txt").write_text("a")
    text = 'ARG BASE=x\nFROM ${BASE}\nARG MODE=gpu\n# no\nENV A=1 \\\n    B="two words"\nWORKDIR /w\nCOPY a.txt in/\n'
    build = Build(tmp_path / "root", tmp_path / "context", {"MODE": "cpu"})
    for one in parse(text):
        build.carry_out(one)

    assert {name: build.environment[name] for name in ("MODE", "A", "B")} == {"MODE": "cpu", "A": "1", "B": "two words"}
    assert (tmp_path / "root" / "w" / "in" / "a.txt").read_text() == "a"
