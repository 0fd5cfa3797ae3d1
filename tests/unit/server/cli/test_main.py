"""The command as a whole: what each verb loads, its version, and options that are checked before a model is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from server.cli.main import main
from server.version import LICENCE, installed_version

MODELS = frozenset({"torch", "transformers", "sentence_transformers", "sklearn", "xgrammar", "vllm"})
SERVING = frozenset({"fastapi", "starlette", "uvicorn", "prometheus_client"})
INDICES = frozenset({"faiss", "tantivy", "numpy"})
ENCODERS = frozenset({"transformers", "sentence_transformers", "sklearn", "scipy", "torch._dynamo"})
METHODS = frozenset({"server.evidence.passages", "server.methods.base"})
RUN = (
    "import sys; from server.cli.main import main; status = main(sys.argv[1:]); "
    "print('LOADED', *sys.modules); sys.exit(status)"
)


def _environment(home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "NETWORK_BLOCK_LOG") if name in os.environ}
    return kept | {"HOME": str(home)}


def _run(home: Path, *words: str) -> tuple[int, str, str]:
    command = [sys.executable, "-c", RUN, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, env=_environment(home))
    return done.returncode, done.stdout, done.stderr


def _loaded(out: str) -> set[str]:
    return set(out.rpartition("LOADED ")[2].split())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a home with a namespace of one document in the default encoder's vectors."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "note.txt").write_text("Metformin lowers blood glucose in type 2 diabetes.")
    for words in (("namespace", "create", "notes"), ("namespace", "add", "notes", str(folder / "note.txt"))):
        status, _, err = _run(folder, *words)
        assert status == 0, err
    return folder


@pytest.mark.server
@pytest.mark.parametrize(
    ("words", "unused"),
    [
        ("--help", MODELS | SERVING | INDICES | {"pydantic_settings", "asyncio"}),
        ("--version", MODELS | SERVING | INDICES | {"pydantic_settings"}),
        ("key --help", MODELS | SERVING | INDICES | {"pydantic_settings"}),
        ("key list", MODELS | SERVING | INDICES),
        ("audit verify", MODELS | SERVING | INDICES),
        ("audit show", MODELS | SERVING | INDICES),
        ("gateway status", MODELS | SERVING | {"faiss", "tantivy"}),
        ("gateway import list", MODELS | SERVING | {"faiss", "tantivy"}),
        ("graph status", MODELS | SERVING | {"faiss", "tantivy"}),
        ("models", MODELS | SERVING | INDICES),
        ("namespace list", MODELS | SERVING | {"faiss", "tantivy", "server.evidence.passages", "server.methods.base"}),
        ("namespace add notes {home}/note.txt", MODELS | SERVING | {"faiss"}),
        ("search glucose -n notes --retriever bm25", MODELS | SERVING | {"faiss"}),
        ("search glucose -n notes", ENCODERS | SERVING),
    ],
)
def test_a_verb_loads_only_what_it_needs(home: Path, words: str, unused: frozenset[str]) -> None:
    """A list of keys waits for no model, a search for no server; and no library leaves a word on stderr."""
    status, out, err = _run(home, *(word.format(home=home) for word in words.split()))

    assert (status, err) == (0, "")
    assert not _loaded(out) & unused


@pytest.mark.server
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("ask x -o unknown=1", 1, "arrowhead.unknown: there is no such option; options are"),
        ("ask x -m arrowhead-tiny:nothing", 1, "there is no method 'nothing'; methods: auto, genegpt"),
        ("search x -n notes --retriever nonsense", 1, "no retriever is called 'nonsense'"),
        ("search x -n notes --rerank", 1, "retrieval.cross_encoder names one"),
        ("search x -n nowhere", 1, "there is no namespace nowhere"),
        ("search x -n notes -k 0", 1, "k must be from 1"),
    ],
)
def test_options_are_checked_before_a_model_is_loaded(home: Path, words: str, status: int, said: str) -> None:
    """The error names the field and the remedy, and comes at once."""
    found, out, err = _run(home, *words.split())

    assert (found, said in err) == (status, True), err
    assert not _loaded(out) & {"torch", "transformers"}


def test_version_names_the_installed_one_and_its_licence(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit status 0."""
    assert main(["--version"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"arrowhead {installed_version()}") and shown.endswith(f", {LICENCE}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing command"),
        (["key", "fly"], "invalid choice: 'fly' (choose from create, list, rename, revoke)"),
        (["search"], "Missing argument"),
        (["key", "list", "--colour"], "No such option"),
        (["search", "x", "-k", "many"], "'-k'"),
        (["key", "create"], "--name"),
    ],
)
def test_a_wrong_command_line_is_named(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    """Exit status 2, with the usage of the verb."""
    assert main(words) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.startswith("Usage: arrowhead")
