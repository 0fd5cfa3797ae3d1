"""``arrowhead verify``: which sentences a text has, what the evidence says of them, the table and the exit status."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from bert_models import build_bert
from corpus_files import pdf, saved_pdf
from lexical_verifier import LexicalVerifier

from retrieval.errors import DocumentUnreadable
from server.cli.main import main
from server.cli.verify import CheckedClaim, add_evidence, check, claims_of, find_passages, show
from server.evidence.verifier import VerifierService
from server.settings.retrieval import RetrievalSettings
from server.settings.schema import Settings
from server.wiring.retrieval import build_retrieval

ANSWER = "Aspirin lowers the risk of stroke [1]. Heparin lowers the risk of stroke [2, 3]. Aspirin treats gout."
SETTINGS = Settings(retrieval=RetrievalSettings(encoders=("hashing",)))
PAPER = """# Results

Aspirin lowers the risk of stroke in men.

# Discussion

Heparin never lowers the risk of stroke.
"""


def checked(folder: Path, answer: str, *files: Path) -> list[CheckedClaim]:
    """What the files say of an answer, judged without weights."""
    retrieval = build_retrieval(SETTINGS.retrieval, folder / "namespaces")
    try:
        add_evidence(SETTINGS, retrieval, files)
        claims = claims_of(answer)
        found = find_passages(retrieval, ["evidence"], claims, 8)
        return asyncio.run(check(VerifierService("lexical", LexicalVerifier), claims, found))
    finally:
        asyncio.run(retrieval.close())


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    file = tmp_path / "paper.md"
    file.write_text(PAPER)
    return file


def test_each_sentence_has_its_verdict_quote_and_place(
    tmp_path: Path, paper: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Marks of citations are no part of a claim; what is not told names the nearest sentence."""
    rows = checked(tmp_path, ANSWER, paper)
    show(rows)
    shown = " ".join(capsys.readouterr().out.split())

    assert [one.claim for one in rows][:2] == [
        "Aspirin lowers the risk of stroke.",
        "Heparin lowers the risk of stroke.",
    ]
    assert [one.found.verdict for one in rows if one.found] == ["supported", "contradicted", "not_told"]
    assert [one.is_supported for one in rows] == [True, False, False]
    deciding = rows[1].deciding
    assert deciding is not None
    assert deciding.passage.section == "Discussion"
    assert shown.startswith("verdict p sentence evidence place supported 1.00 Aspirin")
    assert "contradicted 1.00" in shown
    assert "not told" in shown
    assert "nearest:" in shown
    assert "Discussion" in shown


def test_short_sentences_are_claims_too() -> None:
    """A heading of one word is none, nor is what is left of a mark."""
    answer = "# Results\n\nAspirin kills. It helps [1].\n\n- Heparin works (see 5).\n\n[2]"
    assert claims_of(answer) == ["Aspirin kills.", "It helps.", "Heparin works (see 5)."]


def test_a_pdfs_quote_has_its_page(tmp_path: Path) -> None:
    """And the text of another file beside it is evidence too."""
    file = saved_pdf(tmp_path / "trial.pdf", pdf("The trial was large.", "Aspirin lowers the risk of stroke."))
    other = tmp_path / "other.txt"
    other.write_text("Gout is treated with allopurinol.")
    rows = checked(tmp_path, "Aspirin lowers the risk of stroke. Gout is treated with allopurinol.", file, other)

    assert [one.is_supported for one in rows] == [True, True]
    assert [one.deciding.passage.page for one in rows if one.deciding] == [2, 0]


def test_what_was_not_found_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = asyncio.run(check(VerifierService("lexical", LexicalVerifier), ["Aspirin treats gout."], [[]]))
    show([row])
    assert (row.found, row.deciding, row.is_supported) == (None, None, False)
    assert "nothing was found" in capsys.readouterr().out


def test_a_file_that_cannot_be_read_ends_the_check(tmp_path: Path) -> None:
    """Evidence that is not whole would make sentences look unsupported."""
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7\nnothing of a page")
    with pytest.raises(DocumentUnreadable):
        checked(tmp_path, ANSWER, broken)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "either a file or --claim is needed"),
        (["{paper}", "--claim", "x", "-e", "{paper}"], "either a file or --claim is needed"),
        (["{paper}"], "either --evidence or --namespace is needed"),
        (["{paper}", "-e", "{paper}", "-n", "notes"], "either --evidence or --namespace is needed"),
        (["{paper}", "-e", "{folder}/none.pdf"], "there is no file"),
        (["{folder}/none.txt", "-e", "{paper}"], "cannot be read"),
        (["{folder}/binary", "-e", "{paper}"], "no text in UTF-8"),
        (["{folder}/empty", "-e", "{paper}"], "there is no sentence in it"),
        (["{paper}", "-e", "{paper}", "-k", "0"], "-k"),
    ],
)
def test_a_wrong_command_ends_with_2(
    tmp_path: Path, paper: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """Before anything is read or loaded."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty").write_text("...")
    assert main(["verify", *(word.format(paper=paper, folder=tmp_path) for word in words)]) == 2
    assert said in capsys.readouterr().err


def run(home: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """The command with a random model of Hugging Face's form, which judges everything alike."""
    config = home / "config.toml"
    if not config.exists():
        folder = build_bert(home / "nli", names=("contradiction", "entailment", "neutral"))
        lines = ["[verifier]", f'model = "{folder}"', "bar = 0.001", "[retrieval]", 'device = "cpu"']
        lines += ['encoders = ["hashing"]', f'data_dir = "{home / "namespaces"}"']
        config.write_text("\n".join(lines))
    status = main(["verify", *words, "--json", "--config", str(config)])
    return status, json.loads(capsys.readouterr().out or "{}")


@pytest.mark.weights
def test_the_command_checks_files_standard_input_and_stored_passages(
    tmp_path: Path, paper: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One object, its status by its verdicts; the namespace of the files is gone afterwards."""
    status, found = run(tmp_path, capsys, "--claim", "Aspirin treats gout.", "-e", str(paper))
    assert (found["model"], [one["claim"] for one in found["claims"]]) == ("nli", ["Aspirin treats gout."])
    assert status == (0 if found["supported"] else 1)
    assert found["claims"][0]["evidence"]["text"] in PAPER
    assert sum(found["claims"][0]["probabilities"].values()) == pytest.approx(1.0)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ANSWER.encode())))
    _, found = run(tmp_path, capsys, "-", "-e", str(paper))
    assert len(found["claims"]) == 3

    config = ["--config", str(tmp_path / "config.toml")]
    assert main(["namespace", "list", *config]) == 0
    assert capsys.readouterr().out == ""
    assert main(["namespace", "create", "notes", *config]) == 0
    assert main(["namespace", "add", "notes", str(paper), *config]) == 0
    capsys.readouterr()
    _, found = run(tmp_path, capsys, "--claim", "Aspirin treats gout.", "-n", "notes")
    assert found["claims"][0]["evidence"]["namespace"] == "notes"


@pytest.mark.weights
def test_a_model_that_is_not_there_is_one_clear_line(
    tmp_path: Path, paper: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[verifier]\nmodel = "{tmp_path / "none"}"\n[retrieval]\nencoders = ["hashing"]\n')
    assert main(["verify", "--claim", "Aspirin treats gout.", "-e", str(paper), "--config", str(config)]) == 1
    told = capsys.readouterr().err
    assert "the verifier none cannot be loaded" in told
    assert "verifier.model" in told
