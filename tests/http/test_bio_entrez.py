"""Bio.Entrez against the gateway, as the documentation shows it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_until

ROOT = Path(__file__).parents[2]
DOCUMENTED = "http://127.0.0.1:8765"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[str]:
    """The gateway alone, over the sample of a fresh installation."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    words = ["-m", "server", "gateway", "serve", "--port", str(port), "--data", str(tmp_path / "gateway")]
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    variables = os.environ | {"PYTHONPATH": paths, "ARROWHEAD_GATEWAY__HUMAN_GENES": "false"}
    process = subprocess.Popen([sys.executable, *words], env=variables)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: _answers(f"{url}/entrez/eutils/einfo.fcgi"), "the gateway answers")
        yield url
    finally:
        process.terminate()
        process.wait(120)


def _answers(url: str) -> bool:
    try:
        return bool(urllib.request.urlopen(url, timeout=30).read())
    except OSError:
        return False


@pytest.mark.server
def test_the_example_of_the_documentation_runs(gateway: str, tmp_path: Path) -> None:
    """It prints symbols of the sample's genes, and asks no other host."""
    text = (ROOT / "docs" / "gateway.md").read_text("utf-8")
    (example,) = [code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "Entrez" in code]
    assert DOCUMENTED in example
    done = subprocess.run(
        [sys.executable, "-c", example.replace(DOCUMENTED, gateway)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "'PSMB10'" in done.stdout
