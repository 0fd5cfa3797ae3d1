"""Select and build an engine.

Imports an engine's libraries only when that engine is requested.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

from models.catalog import ModelCard
from models.engines.base import Engine
from models.engines.options import EngineKind, EngineOptions
from models.errors import ModelNotFound, UnsupportedParam

_DEFAULT_SCRIPT_TEXT = "This is the scripted engine: it has no model and always writes this sentence."


def create_engine(kind: EngineKind, card: ModelCard, options: EngineOptions) -> Engine:
    """Build an engine that is not started yet.

    ``auto``: vLLM where it can run on CUDA, otherwise transformers. For ``scripted`` the card's source may be a JSON
    file: a list of ``{"suffix" or "regex": ..., "text": ...}``, or ``{"rules": that list, "behaviour": the fields of
    ScriptedBehaviour}``.

    Raises:
        ModelNotFound: the script file is no script.
        UnsupportedParam: an option is for vLLM alone.
    """
    match resolve_kind(kind):
        case "vllm":
            from models.engines.vllm_engine.engine import VllmEngine

            return VllmEngine(card, options)
        case "scripted":
            return _scripted(card, options)
        case _:
            _refuse_for_transformers(options)
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


def _refuse_for_transformers(options: EngineOptions) -> None:
    given = {
        "lora_adapters": bool(options.lora_adapters),
        "quantization": options.quantization is not None,
        "tensor_parallel_size": options.tensor_parallel_size > 1,
        "gpu_memory_utilization": options.gpu_memory_utilization is not None,
    }
    for name, is_given in given.items():
        if is_given:
            raise UnsupportedParam(
                f"{name} is served by the vllm engine alone: set engine to vllm, or leave {name} unset", param=name
            )


def _scripted(card: ModelCard, options: EngineOptions) -> Engine:
    from models.engines.scripted_engine import Rule, ScriptedBehaviour, ScriptedEngine

    path = Path(card.source)
    if path.suffix != ".json":
        return ScriptedEngine(card, options, [Rule("", _DEFAULT_SCRIPT_TEXT)])
    try:
        script = json.loads(path.read_text())
        entries, how = (script["rules"], script.get("behaviour", {})) if isinstance(script, dict) else (script, {})
        behaviour = ScriptedBehaviour(**how)
        rules = [Rule(re.compile(e["regex"]) if "regex" in e else e["suffix"], e["text"]) for e in entries]
    except (OSError, ValueError, KeyError, TypeError, re.error) as error:
        raise ModelNotFound(f"{path} is not a script: {type(error).__name__}: {error}") from error
    return ScriptedEngine(card, options, rules, behaviour=behaviour)
