"""Run vLLM's own OpenAI layer over the running client, for the plain model: tools, JSON schemas, logprobs, n.

It is called in this process and listens nowhere. It has more endpoints than may be reached from outside
(``/v1/chat/completions/batch``, …) and asks for no key: the caller chooses the paths and checks the request.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from models.catalog import ModelCard
from models.engines import vllm_compat
from models.engines.base import OpenAiLayer
from models.engines.options import EngineOptions
from models.engines.vllm_endpoints import Endpoints
from models.types import EngineStats


class WatchedClient:
    """Count what vLLM's own layer generates through the client, so that the engine's statistics include it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._running = 0
        self._waiting = 0
        self._finished = EngineStats()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    @property
    def counted(self) -> EngineStats:
        return replace(self._finished, running=self._running, waiting=self._waiting)

    async def generate(self, *arguments: Any, **named: Any) -> AsyncGenerator[Any, None]:
        self._waiting += 1
        started, prompt, cached, sampled = False, 0, 0, 0
        outputs = self._client.generate(*arguments, **named)
        try:
            async for output in outputs:
                if not started:
                    started = True
                    self._waiting, self._running = self._waiting - 1, self._running + 1
                    prompt = len(output.prompt_token_ids or ())
                cached = max(cached, output.num_cached_tokens or 0)
                sampled += vllm_compat.num_new_tokens(output)
                yield output
        finally:
            # Closing it frees the engine's slot.
            await outputs.aclose()
            if started:
                self._running -= 1
            else:
                self._waiting -= 1
            total = self._finished
            self._finished = replace(
                total,
                requests_finished=total.requests_finished + 1,
                prompt_tokens_computed=total.prompt_tokens_computed + prompt - cached,
                prompt_tokens_cached=total.prompt_tokens_cached + cached,
                tokens_generated=total.tokens_generated + sampled,
            )


async def build_layer(client: WatchedClient, card: ModelCard, options: EngineOptions) -> OpenAiLayer:
    """Build the layer, which takes a second to import its modules and to warm up its renderer."""
    # The layer logs a traceback for every request that it rejects; the reply has the error, and the request is private.
    logging.getLogger("vllm.entrypoints").setLevel(logging.CRITICAL)
    settings = {
        "model": card.source,
        "served_model_name": [card.name],
        "disable_log_stats": True,
        "enable_log_requests": False,
        "disable_fastapi_docs": True,
        "enable_prompt_tokens_details": True,
        "enable_auto_tool_choice": options.tool_call_parser is not None,
        "tool_call_parser": options.tool_call_parser,
        "chat_template": None if options.chat_template is None else str(options.chat_template),
    }
    app = await vllm_compat.build_openai_app(client, settings, options.reasoning_parser)
    return Endpoints(app)
