"""Namespaces, their indices and searches as a user runs them: from an empty folder to an export and back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import command_line
import pytest
from command_line import Done, command_environment
from http_calls import SETTINGS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.server


class Shell:
    """Runs ``arrowhead`` in a home of its own, with an encoder that needs no weights."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {"HOME": str(home)} | SETTINGS

    def start(self, *words: str) -> subprocess.Popen[str]:
        """As a process."""
        command, variables = [sys.executable, "-m", "server", *words], command_environment(self.environment)
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=ROOT, env=variables, stdout=pipe, stderr=pipe, text=True)

    def run(self, *words: str) -> Done:
        return command_line.arrowhead(self.environment, *words)

    def __call__(self, *words: str, status: int = 0) -> str:
        done = self.run(*words)
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout if status == 0 else done.stdout + done.stderr


@pytest.fixture
def arrowhead(tmp_path: Path) -> Shell:
    notes = {
        "kras.txt": "The variant c.35G>A of KRAS is common in pancreatic cancer.",
        "il6.md": "# Cytokines\n\nIL-6 drives the acute phase.\n\n# Receptors\n\nGP130 carries its signal.",
    }
    for name, text in notes.items():
        (tmp_path / name).write_text(text)
    return Shell(tmp_path)


def test_a_namespace_from_its_making_to_its_end(arrowhead: Shell, tmp_path: Path) -> None:
    """Files come in once, are found by words, keywords and vectors, go out to a file and come back."""
    arrowhead("namespace", "create", "notes")
    files = [str(tmp_path / name) for name in ("kras.txt", "il6.md")]
    assert "1 added" in arrowhead("namespace", "add", "notes", *files)
    assert arrowhead("namespace", "add", "notes", *files).count("added before") == 2
    for retriever in ("bm25", "pes2", "dense", "hybrid", "hashing"):
        found = arrowhead("search", "il6 acute phase", "--retriever", retriever, "--json", "-k", "1")
        assert "IL-6 drives" in json.loads(found)["text"], retriever
    assert json.loads(arrowhead("search", "GP130", "--rerank", "--json", "-k", "1"))["section"] == "Receptors"

    for_name = ("search", "interleukin-6", "--retriever", "bm25")
    assert "IL-6 drives" in arrowhead(*for_name, "--expand") and arrowhead(*for_name, "--no-expand") == ""

    target = str(tmp_path / "notes.gz")
    arrowhead("namespace", "export", "notes", target)
    arrowhead("namespace", "delete", "notes", "--yes")
    assert arrowhead("namespace", "list") == ""
    arrowhead("namespace", "import", target, "--name", "again")
    assert "c.35G>A" in arrowhead("search", "KRAS c.35G>A", "-n", "again")
    assert "again: whole, 2 documents" in arrowhead("namespace", "verify", "again")


HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\x08\r\x85\u202e\u2066"


def test_control_characters_of_documents_are_shown_escaped(arrowhead: Shell, tmp_path: Path) -> None:
    """In titles, ids, passages and names of files; the JSON has the same value without them."""
    row = {"id": "Book_1", "title": f"T{HOSTILE}", "content": f"Thylacine {HOSTILE} extinct."}
    lines = json.dumps(row | {"contents": f"{row['title']}. {row['content']}"}), "no json"
    files = [tmp_path / "notes.jsonl", tmp_path / f"x{HOSTILE}.txt"]
    for file, text in zip(files, ("\n".join(lines), "A quokka."), strict=True):
        file.write_text(text)
    arrowhead("namespace", "create", "notes")
    added = arrowhead.run("namespace", "add", "notes", *map(str, files))
    texts = [added.stdout, added.stderr, arrowhead("search", "thylacine"), arrowhead("search", "quokka")]
    as_json = arrowhead("search", "thylacine", "--json", "-k", "1")
    texts.append(as_json)

    assert added.returncode == 0, texts
    assert {sign for text in texts for sign in text if sign in HOSTILE and not sign.isprintable()} == set()
    assert "\\x1b[2J" in texts[2] and "Thylacine" in texts[2] and "\\u202e" in texts[2]
    assert "\x1b[2J" in json.loads(as_json)["text"]


def test_one_bad_file_does_not_stop_the_others(arrowhead: Shell, tmp_path: Path) -> None:
    """Each file has its result, the exit status says that some are missing, and the same command takes up the rest."""
    arrowhead("namespace", "create", "notes")
    (tmp_path / "bad.txt").write_bytes(b"Half \xff of it\x00")
    (tmp_path / "deep.xml").write_text("<pmc-articleset>" + "<a>" * 200_000)
    files = [str(tmp_path / name) for name in ("bad.txt", "kras.txt", "deep.xml", "none.txt", "il6.md")]
    said = arrowhead("namespace", "add", "notes", *files, status=3)
    for line in ("bad.txt: refused", "The forms that are read", "nested more than 200 deep", "No such file",
                 "kras.txt: 1 added", "il6.md: 1 added", "notes: 5 files: 3 refused, 2 added"):  # fmt: skip
        assert line in said, line
    (tmp_path / "bad.txt").write_text("All of it")
    said = arrowhead("namespace", "add", "notes", *files, status=3)
    assert "bad.txt: 1 added" in said and said.count("added before") == 2
    assert "No such file" in arrowhead("namespace", "add", "notes", files[3], status=1)
    assert "notes: whole, 3 documents" in arrowhead("namespace", "verify", "notes")


def test_an_index_is_made_again_from_the_passages(arrowhead: Shell, tmp_path: Path) -> None:
    """A flipped byte in an index is refused by name and mended by one command; the passages are never in danger."""
    arrowhead("namespace", "create", "notes")
    arrowhead("namespace", "add", "notes", str(tmp_path / "kras.txt"))
    folder = tmp_path / ".local/share/arrowhead/namespaces/notes/vectors"
    file = max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))

    said = arrowhead("search", "KRAS", "--retriever", "dense", status=1)
    assert file.name in said and "arrowhead index rebuild" in said
    arrowhead("index", "rebuild", "notes", "--index", "vectors")
    assert "c.35G>A" in arrowhead("search", "KRAS", "--retriever", "dense")
    assert "vectors (hashing)\t1 rows\t0 to index" in arrowhead("index", "status", "notes")


def test_a_killed_import_leaves_whole_documents(arrowhead: Shell, tmp_path: Path) -> None:
    """kill -9 in the middle; the same command goes on, and everything is there once."""
    rows = ({"id": f"Book_{n}", "title": "Book", "content": f"Sentence {n} on gene G{n}."} for n in range(3000))
    lines = (json.dumps(row | {"contents": f"Book. {row['content']}"}) for row in rows)
    (tmp_path / "book.jsonl").write_text("\n".join(lines) + "\n")
    arrowhead("namespace", "create", "books")
    store = tmp_path / ".local/share/arrowhead/namespaces/books/passages.sqlite-wal"
    process = arrowhead.start("namespace", "add", "books", str(tmp_path / "book.jsonl"))
    while process.poll() is None and not (store.exists() and store.stat().st_size > 100_000):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=120)

    arrowhead("namespace", "add", "books", str(tmp_path / "book.jsonl"))
    assert "books: whole, 3,000 documents, 3,000 passages" in arrowhead("namespace", "verify", "books")
    assert "G2999" in arrowhead("search", "gene G2999", "--retriever", "bm25", "-k", "1")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["namespace", "create", "../x"], 1, "is no name"),
        (["namespace", "create", "x", "--encoder", "gpt"], 1, "there is no encoder 'gpt'"),
        (["namespace", "create", "x", "--chunk-size", "1"], 1, "size must be"),
        (["namespace", "add", "nowhere", "README.md"], 1, "there is no namespace nowhere"),
        (["namespace", "delete", "nowhere", "--yes"], 1, "there is no namespace nowhere"),
        (["namespace", "delete", "nowhere"], 2, "--yes"),
        (["search", "x"], 2, "there is no namespace yet"),
        (["search", "x", "--from", "soon"], 2, "--from soon"),
        (["search", "x", "-n", "nowhere"], 1, "there is no namespace nowhere"),
        (["index", "medcpt", "nowhere", "/nonexistent"], 1, "/nonexistent"),
    ],
)
def test_a_mistake_is_one_clear_line(arrowhead: Shell, arguments: list[str], status: int, said: str) -> None:
    """Exit status 2 for the command, 1 for the rest; never a traceback."""
    assert said in arrowhead(*arguments, status=status)
