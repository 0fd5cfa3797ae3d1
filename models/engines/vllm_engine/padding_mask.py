"""Keep vLLM from sampling ids beyond the tokenizer, which exist as weights are padded to round sizes.

Imported by vLLM alone, in its own processes: by name, from ``launch.PADDING_MASK``. A bias for each padded id, in each
request, would need a place for each in the sampler's table, which has 1,024 a request.
"""

from __future__ import annotations

import math
from typing import Any

from models.engines.vllm_engine.launch import VOCABULARY_KEY
from models.engines.vllm_engine.names import load

_INTERFACES = tuple(one for one in map(load, ("RunnerV1Processor", "RunnerV2Processor")) if one is not None)


class PaddingMask(*_INTERFACES):  # type: ignore[misc]  # vLLM has no types
    """Implement the interfaces of both of vLLM's model runners, since the configuration decides between them.

    They differ in the constructor's arguments after the configuration, of which none is needed, and in the second one
    of ``apply``.
    """

    def __init__(self, vllm_config: Any, *_: Any) -> None:
        self._vocabulary = int(vllm_config.additional_config[VOCABULARY_KEY])
        self._is_padded: bool = vllm_config.model_config.get_vocab_size() > self._vocabulary

    def is_argmax_invariant(self) -> bool:
        return not self._is_padded

    def update_state(self, batch_update: Any) -> None:
        """Do nothing: the mask is the same for all requests."""

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        return self._is_padded

    def apply(self, logits: Any, ctx: Any = None) -> Any:
        if self._is_padded:
            logits[:, self._vocabulary :] = -math.inf
        return logits
