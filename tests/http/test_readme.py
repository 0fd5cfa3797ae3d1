"""Every example of the README and of docs/demo.md is run: the demo, the SDK program, the curl lines."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest
from own_folders import own_environment
from server_process import Running

from scripts import ask_each_method

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DEMO = (ROOT / "docs" / "demo.md").read_text(encoding="utf-8")
EMBEDDED = ROOT / "models" / "embedded" / "arrowhead-tiny" / "model.safetensors"
PAGES = {
    "genegpt": ["genegpt (generated)"],
    "kg-rag": ["kg-rag (extractive)"],
    "medrag": ["medrag (extractive)", "i-medrag (extractive)"],
    "clinfo": ["clinfo (extractive)"],
    "weiseeule": ["weiseeule (extractive)"],
}
_BESIDE = re.compile(r"  (?:(?P<search>\d+ records? at )|(?P<call>\[https://))")
pytestmark = [
    pytest.mark.server,
    pytest.mark.weights,
    pytest.mark.skipif(not EMBEDDED.exists(), reason="the embedded model's weights are not in this checkout"),
]


def _blocks(language: str, page: str = README) -> list[str]:
    """Fences come in pairs, so every block is matched whole, whatever its language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def _environment(folder: Path) -> dict[str, str]:
    """With all that is written in a folder of the test's own."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return own_environment(folder) | {"PATH": path}


def test_the_demo_prints_what_its_page_shows(default_server: Running, capfd: pytest.CaptureFixture[str]) -> None:
    """One answer of each method, word for word, as the method's page begins with it."""
    wanted = _answers_of_the_pages()
    status = ask_each_method.ask_each(default_server.url)

    assert (status, _in_order(capfd.readouterr().out)) == (0, _in_order(wanted))


def _in_order(shown: str) -> list[str]:
    """The lines, those of searches and calls that run side by side sorted, as each is told when it ends."""
    kinds = groupby(shown.rstrip("\n").splitlines(), lambda line: (found := _BESIDE.match(line)) and found.lastgroup)
    return [line for kind, lines in kinds for line in (sorted(lines) if kind else lines)]


def _answers_of_the_pages() -> str:
    """The first example of each method's page; i-MedRAG's is the second of MedRAG's."""
    texts = {page: (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in PAGES}
    examples = {page: [block for block in _blocks("", text) if block.startswith("> ")] for page, text in texts.items()}
    parts = [pair for page, heads in PAGES.items() for pair in zip(heads, examples[page], strict=True)]
    return "\n".join(f"== {head}\n{example}" for head, example in parts)


def test_the_page_of_the_demo_leads_to_the_answers() -> None:
    assert len(_answers_of_the_pages().split("== ")) == 7
    assert all(f"({page}.md)" in DEMO for page in PAGES)


def test_the_commands_exist_and_can_be_run() -> None:
    """To try and to test; the third, to serve, is what the other tests run."""
    scripts = [line for block in _blocks("bash") for line in block.splitlines() if line.startswith("./")]

    assert scripts == ["./scripts/demo", "./scripts/test"]
    assert all(os.access(ROOT / line, os.X_OK) for line in scripts)


def test_the_readme_fits_one_screen_and_its_links_lead_somewhere() -> None:
    """And so does the list of what a user can do."""
    targets = re.findall(r"\]\(([^)#:]+)\)", README)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1]

    assert len(README.splitlines()) <= 90
    assert len(changes.splitlines()) <= 30
    assert {one for one in targets if not (ROOT / one).exists()} == set()


def test_the_sdk_example_prints_the_answer(default_server: Running, tmp_path: Path) -> None:
    """The Python program runs as it stands, but for the port."""
    program = _blocks("python")[0].replace("http://127.0.0.1:8000", default_server.url)
    shown = subprocess.run(
        [sys.executable, "-c", program],
        env=_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    ).stdout

    assert shown.startswith("PSMB10")
    assert "https://www.ncbi.nlm.nih.gov/gene/" in shown


def test_the_curl_examples_answer(default_server: Running, tmp_path: Path) -> None:
    """Models are listed, and a SNP's gene is looked up."""
    script = next(b for b in _blocks("bash", DEMO) if b.startswith("curl"))
    script = script.replace("http://127.0.0.1:8000", default_server.url)
    shown = subprocess.run(
        ["bash", "-ec", script], env=_environment(tmp_path), capture_output=True, text=True, timeout=240, check=True
    ).stdout
    decoder, place, documents = json.JSONDecoder(), 0, []
    while place < len(shown.rstrip()):
        document, place = decoder.raw_decode(shown, place)
        documents.append(document)
        while place < len(shown) and shown[place].isspace():
            place += 1

    names = {
        "arrowhead",
        "arrowhead-small",
        "arrowhead-small:auto",
        "arrowhead-small:genegpt",
        "arrowhead-small:kg-rag",
        "arrowhead-small:medrag",
        "arrowhead-small:i-medrag",
        "arrowhead-small:clinfo",
        "arrowhead-small:weiseeule",
    }
    assert {m["id"] for m in documents[0]["data"]} == names | {"minilm", "minilm:rerank", "arrowhead-verifier"}
    assert documents[1]["choices"][0]["message"]["content"].strip() == "APOE"
