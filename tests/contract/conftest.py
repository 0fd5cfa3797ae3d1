"""One tiny random Llama for the whole session."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = runpy.run_path(str(Path(__file__).parents[1] / "tiny_models.py"))["build_llama"]
    directory: Path = build(tmp_path_factory.mktemp("tiny-llama"))
    return directory
