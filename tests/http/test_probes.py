"""What asks a server whether it can answer: the guide's probe for Kubernetes, carried out against a running server."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CONFIG = "/run/secrets/arrowhead/config.toml"
KEY = "operator-of-the-pod-1"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings as the pod has them mounted."""
    path = tmp_path_factory.mktemp("pod") / "config.toml"
    path.write_text(f'[server]\napi_keys = ["{KEY}"]\n')
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def server(host_with: Callable[..., AbstractContextManager[Any]], config: Path) -> Iterator[Any]:
    with host_with({"ARROWHEAD_CONFIG": str(config)}) as running:
        yield running


def _probe(url: str, config: Path) -> int:
    """The exit status of the command in the guide, with its places changed to those of this test."""
    (text,) = re.findall(r"```yaml\n(securityContext.*?)```", (ROOT / "docs" / "deploy.md").read_text(), re.DOTALL)
    container = yaml.safe_load(text)["containers"][0]
    command = container["readinessProbe"]["exec"]["command"]
    assert command == container["startupProbe"]["exec"]["command"] and command[:2] == ["python3", "-Ic"]
    assert CONFIG in command[2] and "http://127.0.0.1:8000/" in command[2]
    program = command[2].replace(CONFIG, str(config)).replace("http://127.0.0.1:8000/", f"{url}/")
    return subprocess.run([sys.executable, "-Ic", program], capture_output=True, timeout=60).returncode


@pytest.mark.server
def test_the_probe_of_the_guide_finds_a_ready_server(server: Any, config: Path) -> None:
    """With the key of the settings that the server itself reads."""
    assert _probe(server.url, config) == 0


@pytest.mark.server
def test_the_probe_fails_with_a_wrong_key_and_where_nothing_listens(server: Any, config: Path, tmp_path: Path) -> None:
    """Its status is not 0, which is all that a cluster looks at."""
    other = tmp_path / "config.toml"
    other.write_text(config.read_text().replace(KEY, "another-key-000"))

    assert _probe(server.url, other) != 0
    assert _probe("http://127.0.0.1:9", config) != 0
