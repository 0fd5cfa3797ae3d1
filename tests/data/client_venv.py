"""A Python with the client libraries of the extra ``clients``, for tests that run them as programs.

LangChain and LlamaIndex want an older ``openai`` than the one that is tested here, so they live in a virtual
environment of their own, ``.venv-clients`` (git ignores it). It is made by the first test that needs it, in about
a minute where a package index can be reached, and kept.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".venv-clients"
_KEPT: Final = frozenset({"PATH", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR"})
_BLOCK: Final = "NETWORK_BLOCK_"
_PROBE: Final = "import langchain_openai, llama_index.llms.openai_like, llm"


def client_python() -> Path:
    """Skips where there is none and none can be made."""
    for python in (Path(sys.executable), FOLDER / "bin" / "python"):
        if python.is_file() and _run([str(python), "-c", _PROBE]).returncode == 0:
            return python
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["clients"]
    python = FOLDER / "bin" / "python"
    # With the pip that is here: one of its own takes seconds.
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    install = [*pip, "install", "--quiet", "--no-compile", "--retries", "0", "--timeout", "20", *wanted]
    for command in ([sys.executable, "-m", "venv", "--without-pip", str(FOLDER)], install):
        done = _run(command)
        if done.returncode != 0:
            pytest.skip(f"the extra clients is not installed and cannot be: {done.stderr.strip().splitlines()[-1:]}")
    return python


def client_environment(home: Path) -> dict[str, str]:
    """Without keys, proxies and settings of whoever runs the tests; kept off the network as the tests are."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_BLOCK)}
    return kept | {"HOME": str(home), "OPENAI_API_KEY": "none", "LLM_USER_PATH": str(home / "llm")}


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Installing reaches a package index, which the tests themselves may not."""
    free = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith(_BLOCK)}
    return subprocess.run(command, cwd=ROOT, env=free, capture_output=True, text=True, check=False, timeout=280)
