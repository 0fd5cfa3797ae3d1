"""The commands of docs/verify.md as they stand there, in an empty folder."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from bert_models import build_bert
from own_folders import own_environment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
pytestmark = [pytest.mark.server, pytest.mark.weights]
_SHIPS = find_spec("models.verifiers.cross_encoder") is not None


@pytest.mark.parametrize(
    "model", ["named", pytest.param("shipped", marks=pytest.mark.skipif(not _SHIPS, reason="none ships"))]
)
def test_the_example_over_a_pdf_runs(tmp_path: Path, model: str) -> None:
    """With the model that ships, and with a random one of Hugging Face's form; each quote has its page."""
    block = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
    commands = re.sub(r"^arrowhead ", f"{sys.executable} -m server ", block, flags=re.MULTILINE)
    environment = own_environment(tmp_path) | {"PYTHONPATH": str(ROOT)}
    if model == "named":
        nli = build_bert(tmp_path / "nli", names=("contradiction", "entailment", "neutral"))
        environment["ARROWHEAD_VERIFIER__MODEL"] = str(nli)
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
