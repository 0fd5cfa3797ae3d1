"""Load a transformers model and its tokenizer from files, and determine the shape of its cache.

Owns devices, dtypes and the memory budget, the rotary factors of the model, and the adapter that is merged into its
weights. Knows nothing of requests.
"""

from __future__ import annotations

import inspect
import logging
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from models.card import ModelCard
from models.catalog import disable_hub_access, prepare
from models.engines.base import EngineOptions
from models.engines.tokenizer import HfTokenizer
from models.engines.transformers_engine.kv_cache import KvShape
from models.errors import EngineUnavailable, ModelNotFound, UnsupportedParam
from models.files import first_line, parse_json
from models.torch_runtime.devices import DTYPES, cpu_has_bfloat16, torch_device
from models.torch_runtime.layers import NAME, pack_linears, register
from models.torch_runtime.memory import machine_memory
from models.types import Dtype

CONFIG_FILE: Final = "adapter_config.json"
WEIGHTS_FILE: Final = "adapter_model.safetensors"
_LORA_NAME: Final = re.compile(r"base_model\.model\.(.+)\.lora_([AB])(?:\.default)?\.weight")
# Options of PEFT that change what is computed, with the values that leave it as ``merge_adapter`` computes it.
_PLAIN_LORA: Final[Mapping[str, tuple[Any, ...]]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "use_dora": (False, None),
    "fan_in_fan_out": (False, None),
    "modules_to_save": (None, []),
    "rank_pattern": (None, {}),
    "alpha_pattern": (None, {}),
    "target_parameters": (None, []),
    "layer_replication": (None, []),
}
# A type that transformers never recomputes; the factors are in the module's buffers by then.
_FIXED_ROPE = "default"
log = logging.getLogger(__name__)
# Growing keeps the old and the new place of a row or slab for a moment, so this is less than half.
_SLOTS_SHARE = 0.4
_PREFIX_SHARE = 0.15
_MAX_PREFIX_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """Hold a model, its tokenizer and its limits.

    ``slot_bytes`` bounds the keys and values of running sequences, ``prefix_bytes`` those of finished ones.
    ``max_model_len`` is the context length, or what of it one sequence can have within ``slot_bytes``.
    """

    model: Any
    tokenizer: HfTokenizer
    shape: KvShape
    max_model_len: int
    context_length: int
    vocab_size: int
    slot_bytes: int
    prefix_bytes: int


def load_model(card: ModelCard, options: EngineOptions) -> LoadedModel:
    """Load a model, blocking until the weights are in memory.

    Raises:
        ModelNotFound: files are missing or damaged.
        EngineUnavailable: this engine or machine cannot run them.
        UnsupportedParam: the options ask for what the model does not have.
    """
    device = torch_device(options.device)
    prepare(card)
    local_only = card.is_local or not card.allow_download
    if local_only:
        disable_hub_access()
    tokenizer = HfTokenizer.load(
        card.source, revision=card.revision, local_only=local_only, chat_template=options.chat_template
    )
    model = _load_weights(card, options, device, local_only)
    config = model.config.get_text_config()
    if tokenizer.vocab_size > config.vocab_size:
        raise ModelNotFound(
            f"{card.source}: the tokenizer has {tokenizer.vocab_size} tokens, the model only {config.vocab_size}"
        )
    if getattr(config, "attn_logit_softcapping", None) is not None:
        raise EngineUnavailable(
            f"{card.name} caps its attention scores, which this engine does not; serve it with vLLM"
        )
    context = _context_length(card, options, config)
    fix_rotary_factors(model, context)
    shape = _cache_shape(card, model, context)
    free = _free_bytes(device)
    slot_bytes = int(free * _SLOTS_SHARE)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        shape=shape,
        max_model_len=held_length(card.name, context, slot_bytes // shape.bytes_per_token),
        context_length=context,
        vocab_size=config.vocab_size,
        slot_bytes=slot_bytes,
        prefix_bytes=options.kv_cache_bytes or min(int(free * _PREFIX_SHARE), _MAX_PREFIX_BYTES),
    )


def chosen_dtype(wish: Dtype, device: torch.device, saved: torch.dtype | None, *, cpu_bfloat16: bool) -> torch.dtype:
    """Return the dtype to compute in.

    ``saved`` is the dtype of the files; ``cpu_bfloat16`` says whether the CPU has instructions for bfloat16.
    """
    if wish != "auto":
        return DTYPES[wish]
    if device.type == "cuda":
        return torch.bfloat16
    return torch.bfloat16 if saved is torch.bfloat16 and cpu_bfloat16 else torch.float32


def held_length(name: str, context: int, columns: int) -> int:
    """Return the tokens that one sequence can have in a memory of this many columns.

    Raises:
        EngineUnavailable: it is none, since a prompt and an answer are at least two.
    """
    if columns < 2:
        raise EngineUnavailable(f"beside {name} no memory is left for keys and values; end other programs")
    if columns < context:
        log.warning("memory holds %d tokens of the context of %d model=%s", columns, context, name)
    return min(context, columns)


def _load_weights(card: ModelCard, options: EngineOptions, device: torch.device, local_only: bool) -> Any:
    from safetensors import SafetensorError
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # it would interrupt a command's own output
    where = {"revision": card.revision, "local_files_only": local_only}
    try:
        saved = AutoConfig.from_pretrained(card.source, **where).get_text_config().dtype
        dtype = chosen_dtype(card.dtype_for(options.dtype), device, saved, cpu_bfloat16=cpu_has_bfloat16())
        # Pickled weights can run code when read.
        where["use_safetensors"] = True
        model = AutoModelForCausalLM.from_pretrained(card.source, dtype=dtype, attn_implementation="sdpa", **where)
        # Loaded with "sdpa" first: only a model that supports torch's own attention gives the same results with ours.
        register()
        model.set_attn_implementation(NAME)
        model = model.to(device).eval()
        if card.adapter is not None:
            log.info("adapter merged name=%s layers=%d", card.adapter.name, merge_adapter(model, card.adapter))
        pack_linears(model)
        return model
    except torch.OutOfMemoryError as error:
        raise EngineUnavailable(f"{card.source} does not fit into the memory of {device}") from error
    except (OSError, SafetensorError) as error:
        raise ModelNotFound(f"cannot load {card.source}: {first_line(error)}") from error
    except (ValueError, KeyError, ImportError, RuntimeError) as error:
        raise EngineUnavailable(f"transformers cannot run {card.source}: {first_line(error)}") from error


def _context_length(card: ModelCard, options: EngineOptions, config: Any) -> int:
    limit = getattr(config, "max_position_embeddings", None) or card.context_length
    if options.max_model_len is None:
        # The card of a hub id is built without the model's own config.
        return min(card.context_length, limit) if card.is_local else int(limit)
    if options.max_model_len > limit:
        raise UnsupportedParam(
            f"max_model_len {options.max_model_len} is more than the {limit} tokens {card.name} was made for",
            param="max_model_len",
        )
    return options.max_model_len


def cache_argument(model: Any) -> str:
    """Return how the model's ``forward`` calls its keys and values: ``cache`` from transformers 5.20 on."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


@torch.inference_mode()
def _cache_shape(card: ModelCard, model: Any, max_model_len: int) -> KvShape:
    """Run one token to see the cache, whose shape no config key states for every architecture.

    Raises:
        EngineUnavailable: the cache is of a form that this engine does not support.
    """
    cache = DynamicCache(config=model.config)
    first = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    model(input_ids=first, use_cache=True, **{cache_argument(model): cache})
    for layer in cache.layers:
        if not isinstance(layer, DynamicLayer):
            raise EngineUnavailable(f"{card.name} has layers without a plain cache; serve it with vLLM")
        if layer.is_sliding and layer.sliding_window < max_model_len:
            raise EngineUnavailable(
                f"{card.name} attends to a window of {layer.sliding_window} tokens; "
                "set max_model_len to at most that, or serve it with vLLM"
            )
    shapes = {(layer.keys.shape, layer.values.shape, layer.keys.dtype) for layer in cache.layers}
    keys_shape, values_shape, dtype = next(iter(shapes))
    if len(shapes) != 1 or keys_shape != values_shape:
        raise EngineUnavailable(f"{card.name} has layers of different cache shapes; serve it with vLLM")
    return KvShape(len(cache.layers), keys_shape[1], keys_shape[3], dtype, model.device)


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return machine_memory().available


def fix_rotary_factors(model: nn.Module, context_length: int) -> None:
    """Choose the factors for ``context_length`` once for all positions, in place, as vLLM does.

    transformers recomputes the factors of some embeddings at each forward pass, from the largest position in it. With
    several sequences in one pass, a sequence would then be turned by its neighbour's length, and its stored keys by
    another factor than its new ones.

    ``longrope`` takes its long factors if the context is longer than that of the pre-training, otherwise the short
    ones. ``dynamic`` keeps those of its own context, beyond which no sequence goes.

    Raises:
        EngineUnavailable: the embedding still depends on its neighbours, since the model computes it in a form
            unknown here.
    """
    module: Any
    for module in model.modules():
        types = getattr(module, "rope_type", None)
        if isinstance(types, str):
            kinds: dict[str | None, str] = {None: types}
        elif isinstance(types, Mapping):
            kinds = dict(types)
        else:
            continue
        fixed = [layer for layer, kind in kinds.items() if _fix_factors(module, kind, layer, context_length)]
        if fixed:
            module.rope_type = _FIXED_ROPE if isinstance(types, str) else {**types, **dict.fromkeys(fixed, _FIXED_ROPE)}
        for layer in fixed:
            _check_rotary(module, layer, context_length)


def _fix_factors(module: Any, kind: str, layer_type: str | None, context_length: int) -> bool:
    """Set the factors of one type of layers; return whether they depended on the length."""
    if kind == "longrope":
        _fix_longrope(module, layer_type, context_length)
    return kind == "longrope" or "dynamic" in kind


def _fix_longrope(module: Any, layer_type: str | None, context_length: int) -> None:
    parameters = module.config.rope_parameters
    original = (parameters if layer_type is None else parameters[layer_type])["original_max_position_embeddings"]
    name = "inv_freq" if layer_type is None else f"{layer_type}_inv_freq"
    present: torch.Tensor = getattr(module, name)
    length = context_length if context_length > original else None
    factors, _ = ROPE_INIT_FUNCTIONS["longrope"](module.config, present.device, seq_len=length, layer_type=layer_type)
    setattr(module, name, factors.to(present.dtype))
    if length is not None:
        log.info("long rotary factors for all lengths: the context of %d is more than %d", context_length, original)


@torch.inference_mode()
def _check_rotary(module: Any, layer_type: str | None, context_length: int) -> None:
    """Compare the embedding of a position alone with that beside the last position of the context."""
    device = next(module.buffers()).device
    states = torch.zeros(1, device=device)
    which = {} if layer_type is None else {"layer_type": layer_type}
    alone = module(states, torch.tensor([[1]], device=device), **which)
    beside = module(states, torch.tensor([[1], [context_length - 1]], device=device), **which)
    if not all(torch.equal(single[0], batched[0]) for single, batched in zip(alone, beside, strict=True)):
        raise EngineUnavailable(
            "this model's rotary embedding depends on the longest sequence of a batch; lower max_model_len to the "
            "context of its pre-training, or serve it with vLLM"
        )


@torch.inference_mode()
def merge_adapter(model: nn.Module, folder: Path) -> int:
    """Add the adapter of ``folder`` to the weights of ``model``, in place, and return how many layers it changed.

    The adapter is LoRA in PEFT's format: W + scale · B A, computed in float32 and rounded once to the weight's dtype;
    afterwards it costs nothing. What an adapter may state beyond that (other kinds of adapters, ranks by layer, biases,
    modules saved whole) is refused: left out without a word it would be another adapter than the one that was trained.

    Raises:
        ModelNotFound: the adapter's files are missing, damaged, of another kind or for another model.
    """
    scale = adapter_scale(folder)
    pairs = _lora_pairs(folder)
    layers = dict(model.named_modules())
    shared = _shared_weights(model)
    for name, (down, up) in pairs.items():
        layer = layers.get(name)
        if not isinstance(layer, nn.Linear):
            raise ModelNotFound(f"{folder}: the adapter is for another model, which has a layer {name}")
        if layer.weight.data_ptr() in shared:
            raise ModelNotFound(f"{folder}: the adapter changes {name}, whose weight another layer shares")
        if layer.weight.shape != (up.shape[0], down.shape[1]) or up.shape[1] != down.shape[0]:
            raise ModelNotFound(
                f"{folder}: the adapter is for another model: {name} is {tuple(layer.weight.shape)}, not "
                f"{(up.shape[0], down.shape[1])}"
            )
        change = scale * (up.float() @ down.float())
        merged = layer.weight.float() + change.to(layer.weight.device)
        layer.weight.copy_(merged.to(layer.weight.dtype))
    return len(pairs)


def adapter_scale(folder: Path) -> float:
    """Return the factor of an adapter's products.

    Raises:
        ModelNotFound: there is no adapter, or one of a kind that cannot be merged.
    """
    file = folder / CONFIG_FILE
    try:
        config = parse_json(file.read_text(encoding="utf-8"))
        rank, alpha = int(config["r"]), float(config["lora_alpha"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelNotFound(f"{file} cannot be read: {type(error).__name__}: {error}") from error
    for option, plain in _PLAIN_LORA.items():
        if config.get(option, plain[0]) not in plain:
            raise ModelNotFound(f"{file}: {option} {config[option]!r} cannot be merged; serve the adapter with vLLM")
    if rank < 1 or not math.isfinite(alpha):
        raise ModelNotFound(f"{file}: r {rank}, lora_alpha {alpha}")
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _lora_pairs(folder: Path) -> dict[str, tuple[Tensor, Tensor]]:
    """Return A [rank, in] and B [out, rank] by the name of their layer."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = folder / WEIGHTS_FILE
    try:
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        raise ModelNotFound(f"{file} cannot be read: {error}") from error
    halves: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        match = _LORA_NAME.fullmatch(name)
        if match is None or tensor.ndim != 2:
            raise ModelNotFound(f"{file} holds a tensor that cannot be merged: {name} {tuple(tensor.shape)}")
        if not bool(torch.isfinite(tensor).all()):
            raise ModelNotFound(f"{file}: {name} holds numbers that are not finite")
        halves.setdefault(match[1], {})[match[2]] = tensor
    single = [name for name, half in halves.items() if len(half) != 2]
    if single or not halves:
        raise ModelNotFound(f"{file} holds {'one matrix of two for ' + single[0] if single else 'no adapter'}")
    return {name: (half["A"], half["B"]) for name, half in halves.items()}


def _shared_weights(model: nn.Module) -> set[int]:
    """Return the addresses of weights that several modules hold, as a head tied to the embedding does."""
    seen: dict[int, int] = {}
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if isinstance(weight, Tensor):
            seen[weight.data_ptr()] = seen.get(weight.data_ptr(), 0) + 1
    return {address for address, count in seen.items() if count > 1}
