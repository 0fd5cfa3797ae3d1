"""Build encoders, and estimate an encoder's device memory from its files alone before it is built.

Imports torch only for an encoder with weights.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from models.encoders.base import CrossEncoder, Encoder, EncoderOptions, RemoteEncoderOptions
from models.encoders.hashing import HashingEncoder, OverlapCrossEncoder
from models.encoders.model_files import ModelFolder, weight_files
from models.encoders.resolve import resolve_cross_encoder, resolve_encoder
from models.encoders.specs import DEFAULT_ENCODER, HASHING, OVERLAP, CrossEncoderSpec, EncoderSpec
from models.errors import ENCODER_UNUSABLE, ModelNotFound
from models.files import parse_json, read_json

_ITEM_BYTES: Final = {"auto": 2, "bfloat16": 2, "float16": 2, "float32": 4}
_GPU_BATCH_TOKENS: Final = 65_536
_MAX_HEADER: Final = 100 * 2**20
# Live at once in a layer: its input, the residual sum, queries, keys, values, attention's output.
_HIDDEN_COPIES: Final = 6
# Before and after the activation function.
_INNER_COPIES: Final = 2
_FLOAT_BYTES: Final = 4


def create_encoder(spec_or_id: EncoderSpec | str = DEFAULT_ENCODER, options: EncoderOptions | None = None) -> Encoder:
    """Build an encoder, blocking until the weights are in memory.

    ``spec_or_id``: a name of ``KNOWN_ENCODERS``, ``hashing`` (no weights, matches words alone), a hub id, a
    directory, or a spec.

    Raises:
        ModelNotFound: files are missing or damaged; the files do not specify how vectors are computed, or hold no safe
            or no complete weights.
        EngineUnavailable: this machine cannot run them.
        UnsupportedParam: the options do not fit.
    """
    if spec_or_id == HASHING:
        return HashingEncoder()
    options = options or EncoderOptions()
    resolved = resolve_encoder(spec_or_id, options)
    from models.encoders.transformers_encoder.encoder import TransformersEncoder

    return TransformersEncoder(resolved, options)


def create_remote_encoder(
    spec_or_id: EncoderSpec | str, remote: RemoteEncoderOptions, options: EncoderOptions | None = None
) -> Encoder:
    """Build an encoder whose vectors a server computes; reads its files here, but loads no weights.

    Raises:
        ModelNotFound: files are missing or damaged; the encoder cannot be remote.
        ModelError: passages would pass a public network in clear text, or the name is not known.
    """
    if spec_or_id == HASHING:
        raise ModelNotFound(f"{HASHING} has no weights, so no server computes its vectors", ENCODER_UNUSABLE)
    resolved = resolve_encoder(spec_or_id, options or EncoderOptions())
    from models.encoders.remote_encoder.encoder import RemoteEncoder

    return RemoteEncoder(resolved, remote)


def create_cross_encoder(spec_or_id: CrossEncoderSpec | str, options: EncoderOptions | None = None) -> CrossEncoder:
    """Build a cross-encoder, blocking until the weights are in memory.

    ``spec_or_id``: a name of ``KNOWN_CROSS_ENCODERS``, ``overlap``, a hub id, a directory, or a spec. Raises as
    ``create_encoder`` does.
    """
    if spec_or_id == OVERLAP:
        return OverlapCrossEncoder()
    options = options or EncoderOptions()
    resolved = resolve_cross_encoder(spec_or_id, options)
    from models.encoders.transformers_encoder.encoder import TransformersCrossEncoder

    return TransformersCrossEncoder(resolved, options)


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Hold an estimate of device memory in bytes.

    Excludes the CUDA context, which a process allocates once (about half a GiB).
    """

    weights: int
    activations: int

    @property
    def total(self) -> int:
        return self.weights + self.activations


def encoder_memory(spec_or_id: EncoderSpec | str, options: EncoderOptions) -> MemoryEstimate:
    """Estimate the memory of all towers of an encoder.

    Batches of both towers run one after another, so activations count once.

    Raises:
        ModelNotFound, UnsupportedParam: as ``create_encoder``.
    """
    if spec_or_id == HASHING:
        return MemoryEstimate(0, 0)
    resolved = resolve_encoder(spec_or_id, options)
    longest = max(resolved.spec.max_query, resolved.spec.max_passage)
    return _estimate(list(resolved.folders), longest, options)


def cross_encoder_memory(spec_or_id: CrossEncoderSpec | str, options: EncoderOptions) -> MemoryEstimate:
    """Estimate the memory of a cross-encoder.

    Raises:
        ModelNotFound: as ``create_cross_encoder``.
    """
    if spec_or_id == OVERLAP:
        return MemoryEstimate(0, 0)
    resolved = resolve_cross_encoder(spec_or_id, options)
    return _estimate([resolved.folder], resolved.spec.max_tokens, options)


def activation_bytes(config: dict[str, Any], tokens: int, longest: int, item_bytes: int) -> int:
    """Return the peak activations of one batch of ``tokens`` (padding counted) in rows of up to ``longest``.

    Assumes fused attention. ``config`` is a transformers config.json. A row's attention mask is ``longest`` x
    ``longest``, as bool and number.
    """
    # DistilBERT uses other keys.
    hidden = int(config.get("hidden_size") or config["dim"])
    inner = int(config.get("intermediate_size") or config.get("hidden_dim") or 4 * hidden)
    tokens = max(tokens, longest)
    layer = tokens * item_bytes * (_HIDDEN_COPIES * hidden + _INNER_COPIES * inner)
    mask = tokens * longest * (1 + item_bytes)
    # The mean is taken over a float32 copy, times the mask.
    pooled = 2 * tokens * hidden * _FLOAT_BYTES
    return layer + mask + pooled


def _estimate(folders: list[ModelFolder], longest: int, options: EncoderOptions) -> MemoryEstimate:
    item = _ITEM_BYTES[options.dtype]
    tokens = options.batch_tokens or _GPU_BATCH_TOKENS
    weights = sum(item * parameters(file) for folder in folders for file in weight_files(folder))
    configs = [read_json(folder.path / "config.json") for folder in folders]
    return MemoryEstimate(weights, max(activation_bytes(config, tokens, longest, item) for config in configs))


def parameters(file: Path) -> int:
    """Count the parameters in a safetensors file from its header.

    Raises:
        ModelNotFound: the header is damaged.
    """
    try:
        with file.open("rb") as stream:
            (size,) = struct.unpack("<Q", stream.read(8))
            if size > _MAX_HEADER:
                raise ValueError(f"a header of {size} bytes")
            header = parse_json(stream.read(size))
        return sum(prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise ModelNotFound(f"{file} is no safetensors file: {type(error).__name__}: {error}") from error
