"""The commands of docs/verify.md as they stand there, in an empty folder."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from own_folders import own_environment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
pytestmark = [pytest.mark.server, pytest.mark.weights]


def test_the_example_over_a_pdf_runs(tmp_path: Path) -> None:
    """With the model that ships; each quote has its page."""
    block = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
    commands = re.sub(r"^arrowhead ", f"{sys.executable} -m server ", block, flags=re.MULTILINE)
    environment = own_environment(tmp_path) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", commands],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == ""
    table, _, found = done.stdout.partition("{")
    assert table.count("trial, page 1") == 2
    (claim,) = json.loads("{" + found)["claims"]
    assert claim["claim"] == "Aspirin prevents stroke."
    assert claim["evidence"]["page"] == 1
