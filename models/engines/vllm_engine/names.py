"""Name what is used of vLLM and where its releases have it, newest place first; the names that move are data.

``scripts/vllm_releases.py`` reads these tables, and checks them against the Python files of each release.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

# Minor releases, both included; the newest CPU build among them is tested in full.
OLDEST: Final = (0, 26)
NEWEST: Final = (0, 33)
TESTED: Final = "0.32"

# ``MODULE`` or, where it is called otherwise there, ``MODULE:NAME``.
PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "current_platform": ("vllm.platforms",),
    "AsyncEngineArgs": ("vllm.engine.arg_utils",),
    "UsageContext": ("vllm.usage.usage_lib",),
    "AsyncLLM": ("vllm.v1.engine.async_llm",),
    "PrometheusStatLogger": ("vllm.v1.metrics.loggers",),
    "UniProcExecutor": ("vllm.v1.executor.uniproc_executor",),
    "attach_messages": ("vllm.entrypoints.anthropic.api_router:attach_router",),
    "attach_chat": ("vllm.entrypoints.openai.chat_completion.api_router:attach_router",),
    "attach_completions": ("vllm.entrypoints.openai.completion.api_router:attach_router",),
    "attach_responses": ("vllm.entrypoints.openai.responses.api_router:attach_router",),
    "init_app_state": ("vllm.entrypoints.launchers.api_server.app_state", "vllm.entrypoints.openai.api_server"),
    "make_arg_parser": (
        "vllm.entrypoints.common.cli_args",
        "vllm.entrypoints.launchers.cli_args",
        "vllm.entrypoints.openai.cli_args",
    ),
    # Before 0.28 the handlers are registered one by one.
    "exception_handler": (
        "vllm.entrypoints.serve.exception_handling.handlers.exception",
        "vllm.entrypoints.serve.utils.server_utils",
    ),
    "http_exception_handler": (
        "vllm.entrypoints.serve.exception_handling.handlers.http",
        "vllm.entrypoints.serve.utils.server_utils",
    ),
    "validation_exception_handler": (
        "vllm.entrypoints.serve.exception_handling.handlers.validation",
        "vllm.entrypoints.serve.utils.server_utils",
    ),
    "FlexibleArgumentParser": ("vllm.utils.argparse_utils",),
    "tokens_input": ("vllm.inputs.engine",),
    "StreamingInput": ("vllm.engine.protocol",),
    "SamplingParams": ("vllm.sampling_params",),
    "RequestOutputKind": ("vllm.sampling_params",),
    "StructuredOutputsParams": ("vllm.sampling_params",),
    "LoRARequest": ("vllm.lora.request",),
    "LoRAModulePath": ("vllm.entrypoints.openai.models.protocol",),
    "VLLMValidationError": ("vllm.exceptions",),
    "EngineDeadError": ("vllm.v1.engine.exceptions",),
    "EngineGenerateError": ("vllm.v1.engine.exceptions",),
    "MAX_NUM_ALLOWED_TOKEN_IDS": ("vllm.v1.worker.gpu.sample.logit_bias",),
    "MAX_NUM_LOGIT_BIAS_TOKENS": ("vllm.v1.worker.gpu.sample.logit_bias",),
    "MAX_NUM_STOP_TOKEN_IDS": ("vllm.v1.worker.gpu.sample.logit_bias",),
    "MAX_NUM_BAD_WORDS": ("vllm.envs:VLLM_MAX_NUM_BAD_WORDS", "vllm.v1.worker.gpu.sample.bad_words"),
    "MAX_BAD_WORDS_TOTAL_TOKENS": ("vllm.envs:VLLM_MAX_BAD_WORDS_TOTAL_TOKENS", "vllm.v1.worker.gpu.sample.bad_words"),
    "RunnerV1Processor": ("vllm.v1.sample.logits_processor.interface:LogitsProcessor",),
    "RunnerV2Processor": ("vllm.v1.worker.gpu.sample.logits_processor.interface:LogitsProcessor",),
    "init_exception_handler": ("vllm.entrypoints.serve.exception_handling.register",),
    "VLLMClientError": ("vllm.exceptions",),
    "QueueOverflowError": ("vllm.exceptions",),
    "MaxQueuedTokensError": ("vllm.exceptions",),
}
# What older releases lack, and are used without.
OPTIONAL: Final = frozenset(
    {
        "RunnerV2Processor",  # from 0.31
        "init_exception_handler",  # from 0.28
        "VLLMClientError",  # from 0.27; its errors are ValueErrors before
        "QueueOverflowError",  # from 0.29
        "MaxQueuedTokensError",  # from 0.29
    }
)
# Arguments of the engine that older releases lack: our own queue is bounded too.
OPTIONAL_ARGUMENTS: Final = frozenset({"max_num_queued_reqs"})  # from 0.29
# What calls by keyword must find in the signature of a function, or of a class's method.
SIGNATURES: Final[Mapping[str, tuple[str, ...]]] = {
    "AsyncLLM.generate": ("prompt", "sampling_params", "request_id", "lora_request", "priority", "reasoning_ended"),
    "AsyncLLM.from_engine_args": ("engine_args", "usage_context", "stat_loggers"),
    "AsyncLLM.shutdown": ("timeout",),
    "AsyncLLM.abort": (),
    "AsyncLLM.add_lora": (),
    "AsyncLLM.get_supported_tasks": (),
    "PrometheusStatLogger.record": ("scheduler_stats", "iteration_stats", "mm_cache_stats", "engine_idx"),
    "init_app_state": ("engine_client", "state", "args", "supported_tasks"),
    "make_arg_parser": ("parser",),
    "tokens_input": ("prompt_token_ids", "cache_salt"),
}


def place_of(name: str, where: str) -> tuple[str, str]:
    """Return module and attribute of a name at one of its places."""
    module, _, attribute = where.partition(":")
    return module, attribute or name


def load(name: str) -> Any:
    """Import a name from the first of its places that this vLLM has; None for an optional one that it lacks.

    Raises:
        ImportError: it has none of them.
    """
    for where in PLACES[name]:
        module, attribute = place_of(name, where)
        try:
            return getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("vllm"):
                raise
        except AttributeError:
            continue
    if name in OPTIONAL:
        return None
    raise ImportError(f"this vLLM has no {name} at {', '.join(PLACES[name])}")
