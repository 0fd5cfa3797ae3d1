"""Load a transformers model and its tokenizer from files, and determine the shape of its cache.

Owns devices, dtypes and the memory budget. Knows nothing of requests.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.cache_utils import DynamicCache, DynamicLayer

from models.catalog import ModelCard, disable_hub_access
from models.engines.options import EngineOptions
from models.engines.text import HfTokenizer
from models.engines.transformers_engine.kv_cache import KvShape
from models.engines.transformers_engine.rotary import fix_rotary_factors
from models.errors import EngineUnavailable, ModelNotFound, UnsupportedParam
from models.torch_runtime.devices import DTYPES, cpu_has_bfloat16, torch_device
from models.torch_runtime.layers import NAME, pack_linears, register
from models.torch_runtime.lora import merge_adapter
from models.torch_runtime.memory import machine_memory
from models.types import Dtype

log = logging.getLogger(__name__)
# Growing keeps the old and the new place of a row or slab for a moment, so this is less than half.
_SLOTS_SHARE = 0.4
_PREFIX_SHARE = 0.15
_MAX_PREFIX_BYTES = 4 * 2**30


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
    card.prepare()
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
        raise ModelNotFound(f"cannot load {card.source}: {_first_line(error)}") from error
    except (ValueError, KeyError, ImportError, RuntimeError) as error:
        raise EngineUnavailable(f"transformers cannot run {card.source}: {_first_line(error)}") from error


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


@torch.inference_mode()
def _cache_shape(card: ModelCard, model: Any, max_model_len: int) -> KvShape:
    """Run one token to see the cache, whose shape no config key states for every architecture.

    Raises:
        EngineUnavailable: the cache is of a form that this engine does not support.
    """
    cache = DynamicCache(config=model.config)
    model(input_ids=torch.zeros((1, 1), dtype=torch.long, device=model.device), past_key_values=cache, use_cache=True)
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


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
