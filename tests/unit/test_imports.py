"""What importing and first use load, in one process: each step adds to what the ones before have loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from models.encoders.hashing import HashingEncoder

ROOT = Path(__file__).parents[2]
_MODELS = {"torch", "transformers", "sentence_transformers", "vllm", "xgrammar", "llguidance", "tokenizers"}
_HEAVY = _MODELS | {"faiss", "opentelemetry"}
_HASHED = "TP53 in sarcoma"
# Name, program, and what it must not have loaded. The lightest come first.
LIGHT = [
    ("an index", "import retrieval.index.open", {"faiss", "torch"}),
    (
        "encoders without weights",
        "import models.encoders.registry as registry\n"
        "from models.encoders.base import EncoderOptions\n"
        "registry.encoder_memory('minilm', EncoderOptions())\n"
        f"hashed = registry.create_encoder('hashing').encode_queries([{_HASHED!r}]).tobytes().hex()",
        _MODELS,
    ),
    (
        "the server",
        "import server.serving.run, server.wiring.bootstrap, server.app\n"
        "from server.observability.metrics import build_observability\n"
        "from server.settings.server import TracingSettings\n"
        "build_observability(TracingSettings())",
        _HEAVY | {"server.cli.ask"},
    ),
    ("the command line", "import server.cli.main", _HEAVY),
]
WEIGHTS = [
    (
        "the default encoder",
        "from models.encoders.registry import create_encoder\ncreate_encoder().encode_queries(['heart'])",
        {"transformers", "sentence_transformers", "sklearn", "scipy"},
    ),
    (
        "the transformers engine",
        "from models.card import ModelCard\n"
        "from models.engines.base import EngineOptions\n"
        "from models.engines.registry import create_engine\n"
        "create_engine('transformers', ModelCard(name='m', source='o/m'), EngineOptions())\n"
        "import transformers.models.llama.modeling_llama",
        {"sklearn", "scipy", "vllm"},
    ),
]


def _loaded(steps: list[tuple[str, str, set[str]]]) -> dict[str, set[str]]:
    """Run the steps one after the other in one process: what has been loaded after each, and the hashed vector."""
    program = ["import sys, json", "told, hashed = {}, ''"]
    for name, code, _ in steps:
        program += [code, f"told[{name!r}] = sorted(sys.modules)"]
    program.append("print(json.dumps(told | {'hashed': [hashed]}))")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(program)], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    return {name: set(modules) for name, modules in json.loads(done.stdout.splitlines()[-1]).items()}


@pytest.fixture(scope="module")
def light() -> dict[str, set[str]]:
    return _loaded(LIGHT)


@pytest.fixture(scope="module")
def weights() -> dict[str, set[str]]:
    return _loaded(WEIGHTS)


@pytest.mark.smoke
@pytest.mark.server
@pytest.mark.parametrize(("name", "unwanted"), [(name, unwanted) for name, _, unwanted in LIGHT])
def test_what_needs_no_model_loads_no_model_library(light: dict[str, set[str]], name: str, unwanted: set[str]) -> None:
    """They take seconds and memory, and after faiss no process may fork."""
    assert len(light[name]) > 50 and not light[name] & unwanted


@pytest.mark.smoke
@pytest.mark.server
def test_hashed_vectors_are_the_same_in_every_process(light: dict[str, set[str]]) -> None:
    """Python's own hash is salted per process; the hashing encoder's is not."""
    assert light["hashed"] == {HashingEncoder().encode_queries([_HASHED]).tobytes().hex()}


@pytest.mark.server
@pytest.mark.weights
@pytest.mark.parametrize(("name", "unwanted"), [(name, unwanted) for name, _, unwanted in WEIGHTS])
def test_models_load_no_library_that_they_do_not_use(
    weights: dict[str, set[str]], name: str, unwanted: set[str]
) -> None:
    """transformers' models would take most of the time of a search, sklearn and scipy a second or two of each start."""
    assert "torch" in weights[name] and not weights[name] & unwanted
