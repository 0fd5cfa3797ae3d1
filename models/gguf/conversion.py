"""Convert a GGUF file to a model folder, once.

A folder is written beside its place and then renamed, under a lock that the kernel releases when the process dies: a
kill at any moment leaves no folder or a whole one, and two processes that start at once convert it once. Of tokenizers
only byte-level BPE is converted, with the kinds of word splitting that are known here: a file names how text is cut
into words before merging (``tokenizer.ggml.pre``) and does not describe it, and another cut gives other tokens than
those of training. transformers' own reading does not look at it, and takes longer (docs/benchmarks.md).
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from models.errors import ModelNotFound
from models.files import CARD_FILE, check_room, locked, sha256_of, write_json
from models.gguf.layout import ROPE_FREQS, Layout, layout_of

log = logging.getLogger(__name__)
SUFFIX: Final = ".gguf"
_SAMPLE: Final = 2**20
_ITEM_BYTES: Final = 2
_SHARD_BYTES: Final = 2 * 2**30
_WAIT_S: Final = 900.0
# ggml's kinds of tokens.
_CONTROL, _USER_DEFINED = 3, 4
_LLAMA3: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2: Final = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_KINDS: Final = ("gpt-2", "smollm", "llama-bpe", "qwen2")


@dataclass(frozen=True, slots=True)
class GgufFacts:
    """Hold what a file says about its model; ``licence`` is "unknown" where it says nothing."""

    architecture: str
    context_length: int
    licence: str


def folder_for(file: Path, into: Path) -> Path:
    """Return the folder below ``into`` that a file is converted to: named after the file, its size and its content.

    Raises:
        ModelNotFound: the file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            digest.update(f"{size}\n".encode() + stream.read(_SAMPLE))
            stream.seek(max(size - _SAMPLE, 0))
            digest.update(stream.read(_SAMPLE))
    except OSError as error:
        raise ModelNotFound(f"{file} cannot be read: {error}") from error
    return into / f"{file.name.removesuffix(SUFFIX)}-{digest.hexdigest()[:12]}"


def facts_of(file: Path) -> GgufFacts:
    """Read what a file says about its model.

    Raises:
        ModelNotFound: it is no GGUF file, or of a kind that is not converted.
    """
    metadata, layout = _layout(_reader(file))
    return GgufFacts(
        architecture=layout.config["model_type"],
        context_length=layout.config["max_position_embeddings"],
        licence=str(metadata.get("general.license", "unknown")),
    )


def convert(file: Path, target: Path, *, sha256: str | None = None, card: Mapping[str, Any] | None = None) -> None:
    """Write the model of ``file`` to the folder ``target``, if it is not there.

    ``card``: further facts for its ``arrowhead.json``. ``sha256``, where given, must be the file's.

    Raises:
        ModelNotFound: the file is damaged or of a kind that is not converted, or there is no room for the folder.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.parent / f".{target.name}.lock", _WAIT_S, f"converting {target.name}"):
            if target.is_dir():
                return
            for leftover in target.parent.glob(f".{target.name}.draft-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            log.info("converting %s", file.name)
            began = time.monotonic()
            _build(file, target, sha256, dict(card or {}))
            log.info("converted %s to %s in %.1f s", file.name, target, time.monotonic() - began)
    except OSError as error:
        raise ModelNotFound(f"{file.name} could not be converted into {target.parent}: {error}") from error


def _build(file: Path, target: Path, sha256: str | None, card: dict[str, Any]) -> None:
    digest = sha256_of(file)
    if sha256 is not None and digest != sha256:
        raise ModelNotFound(f"{file} is damaged: sha256 {digest}, expected {sha256}")
    reader = _reader(file)
    metadata, layout = _layout(reader)
    needed = sum(prod(int(size) for size in tensor.shape) for tensor in reader.tensors) * _ITEM_BYTES
    remedy = "; make room, or set model.data_dir to another folder"
    check_room(target.parent, needed, "the converted model", remedy)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.draft-", dir=target.parent))
    try:
        _write(reader, metadata, layout, draft)
        digests = {path.name: sha256_of(path) for path in sorted(draft.glob("*.safetensors"))}
        facts = {"converted_from": file.name, "gguf_sha256": digest, "weights_sha256": digests}
        write_json(draft / CARD_FILE, card | facts)
        _sync(draft)
        draft.rename(target)
        _sync(target.parent, only_folder=True)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write(reader: Any, metadata: Mapping[str, Any], layout: Layout, folder: Path) -> None:
    write_tokenizer(metadata, folder)
    write_json(folder / "config.json", layout.config)
    ends = [metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    known = sorted({end for end in ends if end is not None})
    write_json(folder / "generation_config.json", {"eos_token_id": known} if known else {})
    _write_weights(reader, layout, folder)


def _write_weights(reader: Any, layout: Layout, folder: Path) -> None:
    by_name = {tensor.name: tensor for tensor in reader.tensors}
    shards: list[list[str]] = [[]]
    size = total = 0
    for name in layout.tensors:
        more = prod(int(number) for number in by_name[layout.tensors[name]].shape) * _ITEM_BYTES
        if size and size + more > _SHARD_BYTES:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size, total = size + more, total + more
    files: dict[str, str] = {}
    for number, names in enumerate(shards, 1):
        part = f"-{number:05}-of-{len(shards):05}" if len(shards) > 1 else ""
        file = f"model{part}.safetensors"
        _save({name: _tensor(by_name[layout.tensors[name]], layout) for name in names}, folder / file)
        files |= dict.fromkeys(names, file)
    if len(shards) > 1:
        write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": files})


def _save(tensors: Mapping[str, Any], file: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file(dict(tensors), file, {"format": "pt"})
    except SafetensorError as error:  # a full disk is no OSError here
        raise OSError(str(error)) from error


def _tensor(tensor: Any, layout: Layout) -> Any:
    """Return a tensor of the file as bfloat16 in transformers' order of rows."""
    import torch
    from gguf import dequantize

    values = dequantize(tensor.data, tensor.tensor_type)
    heads = layout.rotary_heads(tensor.name)
    if heads:
        half = values.shape[0] // heads // 2
        values = values.reshape(heads, half, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
    return torch.from_numpy(values.copy()).to(torch.bfloat16)


def _reader(file: Path) -> Any:
    import numpy as np
    from gguf import GGUFReader

    class WithinFile(GGUFReader):
        """Refuse what a header announces beyond its file: the library reads on there, as often as a count says."""

        def _get(self, offset: int, dtype: Any, count: Any = 1, override_order: Any = None) -> Any:
            if int(offset) + int(count) * np.dtype(dtype).itemsize > len(self.data):
                raise ValueError("it ends before what its header announces")
            return super()._get(offset, dtype, count, override_order)

    try:
        return WithinFile(file)
    except (OSError, ValueError, IndexError, KeyError, OverflowError, MemoryError, RecursionError) as error:
        raise ModelNotFound(f"{file} is no whole GGUF file: {str(error) or type(error).__name__}") from error


def _layout(reader: Any) -> tuple[dict[str, Any], Layout]:
    metadata = {name: field.contents() for name, field in reader.fields.items()}
    # A file names the columns first.
    shapes = {tensor.name: [int(size) for size in reversed(tensor.shape)] for tensor in reader.tensors}
    factors = next(([float(value) for value in t.data] for t in reader.tensors if t.name == ROPE_FREQS), None)
    return metadata, layout_of(metadata, shapes, factors)


def _sync(folder: Path, *, only_folder: bool = False) -> None:
    for path in (folder,) if only_folder else (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_tokenizer(metadata: Mapping[str, Any], folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and the chat template into ``folder``.

    ``metadata`` holds the vocabulary and the merges as lists.

    Raises:
        ModelNotFound: the tokenizer is of a kind that is not converted.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    kind, pre = metadata.get("tokenizer.ggml.model"), str(metadata.get("tokenizer.ggml.pre", "none"))
    if kind != "gpt2" or pre not in _KINDS:
        raise ModelNotFound(
            f"the GGUF file's tokenizer ({kind}, {pre}) is not converted, but byte-level BPE of the kinds "
            f"{', '.join(_KINDS)}; fetch the model in its safetensors form"
        )
    tokens: list[str] = list(metadata["tokenizer.ggml.tokens"])
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise ModelNotFound("the GGUF file's vocabulary has equal tokens")
    backend = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=pre == "llama-bpe"))
    _cut_words(backend, pre)
    backend.decoder = decoders.ByteLevel()
    kinds = metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    backend.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, kinds, strict=True) if k == _CONTROL]
    )
    backend.add_tokens(
        [AddedToken(t, normalized=False) for t, k in zip(tokens, kinds, strict=True) if k == _USER_DEFINED]
    )
    _put_in_front(backend, metadata, tokens, pre)
    ids = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    named = {name: metadata.get(f"tokenizer.ggml.{key}_token_id") for name, key in ids.items()}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=backend, **{name: tokens[index] for name, index in named.items() if index is not None}
    )
    fast.chat_template = metadata.get("tokenizer.chat_template")
    fast.save_pretrained(folder)


def _cut_words(backend: Any, pre: str) -> None:
    from tokenizers import Regex, normalizers, pre_tokenizers

    if pre in ("gpt-2", "smollm"):
        words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        steps: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if pre == "smollm" else []
    else:
        words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        steps = [pre_tokenizers.Split(Regex(_QWEN2 if pre == "qwen2" else _LLAMA3), "isolated")]
    backend.pre_tokenizer = pre_tokenizers.Sequence([*steps, words])
    if pre == "qwen2":
        backend.normalizer = normalizers.NFC()


def _put_in_front(backend: Any, metadata: Mapping[str, Any], tokens: list[str], pre: str) -> None:
    """Let the first token of a text be the one that the file names, where the file says so."""
    from tokenizers.processors import TemplateProcessing

    first = metadata.get("tokenizer.ggml.bos_token_id")
    if first is not None and metadata.get("tokenizer.ggml.add_bos_token", pre == "llama-bpe"):
        backend.post_processor = TemplateProcessing(
            single=f"{tokens[first]} $A", pair=f"{tokens[first]} $A $B", special_tokens=[(tokens[first], first)]
        )
