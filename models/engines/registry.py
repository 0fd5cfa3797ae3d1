"""Select and build an engine.

Imports an engine's libraries only when that engine is requested.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from models.card import ModelCard
from models.engines.base import Engine, EngineKind, EngineOptions
from models.errors import ModelNotFound, UnsupportedParam
from models.files import parse_json

_DEFAULT_SCRIPT_TEXT = "This is the scripted engine: it has no model and always writes this sentence."


def create_engine(kind: EngineKind, card: ModelCard, options: EngineOptions) -> Engine:
    """Build an engine that is not started yet.

    ``auto``: vLLM where it can run on CUDA, otherwise transformers. For ``scripted`` the card's source may be a JSON
    file: a list of ``{"suffix" or "regex": ..., "text": ...}``, or ``{"rules": that list, "behaviour": the fields of
    ScriptedBehaviour}``.

    Raises:
        ModelNotFound: the script file is no script.
        UnsupportedParam: an option is for vLLM alone.
        EngineUnavailable: the remote engine has no address to ask.
    """
    match resolve_kind(kind):
        case "vllm":
            from models.engines.vllm_engine.engine import VllmEngine

            return VllmEngine(card, options)
        case "remote":
            _refuse(
                options, ("hold_during_calls_s",), "needs vLLM in this process: set engine to vllm, or leave it unset"
            )
            _refuse(
                options, _OF_REPLICAS, "is a setting of the replicas: leave {name} unset, and give it to vllm serve"
            )
            from models.engines.remote_engine.engine import RemoteEngine

            return RemoteEngine(card, options)
        case "scripted":
            return _scripted(card, options)
        case _:
            _refuse_for_transformers(options, card)
            _skip_science_libraries()
            from models.engines.transformers_engine.engine import TransformersEngine

            return TransformersEngine(card, options)


def resolve_kind(kind: EngineKind) -> EngineKind:
    """Return the kind that ``auto`` means on this machine, or any other kind unchanged."""
    if kind != "auto":
        return kind
    if importlib.util.find_spec("vllm") is None:
        return "transformers"
    import torch

    return "vllm" if torch.cuda.is_available() else "transformers"


def _skip_science_libraries() -> None:
    """Keep transformers from importing scikit-learn and SciPy, which take a second or two of each start.

    Its assisted decoding and its losses for object detection alone use them.
    """
    from transformers import utils

    utils.is_sklearn_available = utils.is_scipy_available = lambda: False


def _refuse_for_transformers(options: EngineOptions, card: ModelCard) -> None:
    if options.lora_adapters and card.adapter is None:
        raise UnsupportedParam(
            "lora_adapters: the transformers engine serves one adapter, merged into the weights: choose it with "
            "model.adapter, or set engine to vllm",
            param="lora_adapters",
        )
    _refuse(
        options,
        (*_OF_VLLM, "hold_during_calls_s"),
        "is served by the vllm engine alone: set engine to vllm, or leave {name} unset",
    )


_OF_VLLM: Final = ("quantization", "tensor_parallel_size", "gpu_memory_utilization", "batch_invariant")
_OF_REPLICAS: Final = (*_OF_VLLM, "kv_cache_bytes", "lora_adapters", "tool_call_parser", "reasoning_parser")


def _refuse(options: EngineOptions, names: Sequence[str], reason: str) -> None:
    """Refuse options that an engine would ignore.

    Raises:
        UnsupportedParam: one of them is set; names it.
    """
    unset = EngineOptions()
    for name in names:
        if getattr(options, name) != getattr(unset, name):
            raise UnsupportedParam(f"{name} {reason.format(name=name)}", param=name)


def _scripted(card: ModelCard, options: EngineOptions) -> Engine:
    from models.engines.scripted_engine import ByteTokenizer, Rule, ScriptedBehaviour, ScriptedEngine

    path = Path(card.source)
    if path.suffix != ".json":
        return ScriptedEngine(card, options, [Rule("", _DEFAULT_SCRIPT_TEXT)])
    try:
        script = parse_json(path.read_text())
        script = script if isinstance(script, dict) else {"rules": script}
        behaviour = ScriptedBehaviour(**script.get("behaviour", {}))
        tokenizer = ByteTokenizer(tools=bool(script.get("tools")))
        rules = [Rule(re.compile(e["regex"]) if "regex" in e else e["suffix"], e["text"]) for e in script["rules"]]
    except (OSError, ValueError, KeyError, TypeError, re.error) as error:
        raise ModelNotFound(f"{path} is not a script: {type(error).__name__}: {error}") from error
    return ScriptedEngine(card, options, rules, behaviour=behaviour, tokenizer=tokenizer)
