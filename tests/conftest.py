"""What tests in several folders share: no network, folders of their own, tiers, and what takes long to start."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parent / "network_block"))
import own_folders
import pytest_network_block
import small_engines
import tiers
from postgres_server import Postgres

from models.card import ModelCard
from models.catalog import EMBEDDED_DIR, ModelRequest, card_from_request, has_weights
from models.engines.base import EngineOptions, LoraAdapter

if TYPE_CHECKING:
    from models.engines.vllm_engine.engine import VllmEngine

VLLM_OPTIONS = EngineOptions(dtype="float32", device="cpu", max_num_seqs=8, max_queue=4, kv_cache_bytes=256 * 2**20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--vllm-device", default="cpu", choices=("cpu", "cuda"), help="device of the installed vLLM build")


def pytest_configure(config: pytest.Config) -> None:
    for plugin in (own_folders, pytest_network_block, tiers):
        config.pluginmanager.register(plugin)


@pytest.fixture(scope="session")
def real_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model where its weights are in the checkout, otherwise a random one."""
    if has_weights(EMBEDDED_DIR):
        return EMBEDDED_DIR
    build = runpy.run_path(str(Path(__file__).parent / "tiny_models.py"))["build_llama"]
    directory: Path = build(tmp_path_factory.mktemp("random-llama"), context=2048)
    return directory


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def vllm_engine(real_model: Path, pytestconfig: pytest.Config) -> AsyncIterator[VllmEngine]:
    """Tests that use it run on the session's event loop."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("the vLLM package is not installed")
    from models.engines.vllm_engine.engine import VllmEngine

    options = replace(VLLM_OPTIONS, device=pytestconfig.getoption("--vllm-device"))
    engine = VllmEngine(card_from_request(ModelRequest(source=str(real_model))), options)
    await engine.start()
    yield engine
    await engine.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def adapted(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> AsyncIterator[VllmEngine]:
    """A tiny random Llama that answers with an adapter of its own, beside which ``notes`` is another."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("the vLLM package is not installed")
    from models.engines.vllm_engine.engine import VllmEngine

    tiny, folder = runpy.run_path(str(Path(__file__).parent / "tiny_models.py")), tmp_path_factory.mktemp("adapted")
    own, notes = (tiny["build_adapter"](folder / name, seed=seed) for name, seed in (("own", 8), ("notes", 7)))
    source = str(tiny["build_llama"](folder / "llama"))
    options = replace(
        small_engines.OPTIONS,
        device=pytestconfig.getoption("--vllm-device"),
        kv_cache_bytes=128 * 2**20,
        lora_adapters=(LoraAdapter("notes", notes),),
    )
    card = ModelCard(name="tiny", source=source, context_length=small_engines.CONTEXT, adapter=own)
    engine = VllmEngine(card, options)
    await engine.start()
    yield engine
    await engine.close()
