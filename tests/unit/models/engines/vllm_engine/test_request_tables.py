"""No request that passes our checks is too long for the tables of vLLM's sampler, whose own checks end the engine."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from models.engines.vllm_engine import compat
from models.engines.vllm_engine.sampling_fields import TableSizes, check_tables, tables_used
from models.errors import ArrowheadError, UnsupportedParam
from server.api.vllm_passthrough.checks import LONGEST, check_plain
from tests.tiny_models import build_tokenizer

PLACES = TableSizes(allowed_token_ids=8, logit_bias=7, stop_token_ids=6, bad_words=5, bad_word_tokens=9)
VOCABULARY = 4096
# A model may have many: with 128 ids of a request they are more than fit.
END_TOKENS = list(range(4000, 4008))


@pytest.mark.parametrize(
    ("used", "param", "remedy"),
    [
        (TableSizes(allowed_token_ids=9), "allowed_token_ids", "structured_outputs"),
        (TableSizes(logit_bias=8), "logit_bias", "fewer entries"),
        (TableSizes(stop_token_ids=7), "stop_token_ids", "min_tokens"),
        (TableSizes(bad_words=6), "bad_words", "fewer words"),
        (TableSizes(bad_word_tokens=10), "bad_words", "shorter words"),
    ],
)
def test_what_has_no_room_is_refused_by_its_field(used: TableSizes, param: str, remedy: str) -> None:
    """With both numbers and what to do."""
    with pytest.raises(
        UnsupportedParam, match=rf"^{param}: \d+ \w+, and the engine has room for \d: .*{remedy}"
    ) as caught:
        check_tables(used, PLACES)
    assert caught.value.param == param


def test_a_full_table_is_not_too_full() -> None:
    check_tables(PLACES, PLACES)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What vLLM's client knows of a model, without its engine: real tokenizer, real end tokens."""
    pytest.importorskip("vllm")
    from transformers import AutoTokenizer
    from vllm.tokenizers.hf import get_cached_tokenizer

    folder: Path = tmp_path_factory.mktemp("tokenizer")
    build_tokenizer(folder)
    tokenizer = get_cached_tokenizer(AutoTokenizer.from_pretrained(folder))
    inputs = SimpleNamespace(
        tokenizer=tokenizer,
        generation_config_fields={"eos_token_id": END_TOKENS},
        renderer=SimpleNamespace(get_eos_token_id=lambda: END_TOKENS[0]),
    )
    return SimpleNamespace(input_processor=inputs)


class Table:
    """Stands for a table on the GPU; the real one has no place behind its last."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.np = np.zeros(1, dtype=np.int32)
        self.gpu = None

    def stage_write(self, row: int, start: int, values: Any) -> None:
        assert row == start == 0 and len(list(values)) <= self.places


@lru_cache(maxsize=1)
def _worker_tables() -> tuple[Any, ...]:
    """The real classes of the worker, with stand-ins for the memory of a GPU that their constructors take."""
    from vllm import envs
    from vllm.sampling_params import MAX_LOGPROB_TOKEN_IDS
    from vllm.v1.worker.gpu.sample import logit_bias as module
    from vllm.v1.worker.gpu.sample.bad_words import BadWordsState
    from vllm.v1.worker.gpu.sample.logprob import LogprobTokenIdsState

    bias = module.LogitBiasState.__new__(module.LogitBiasState)
    bias.prompt_len_np = np.full(1, 10, dtype=np.int32)
    bias.allowed_token_ids = Table(module.MAX_NUM_ALLOWED_TOKEN_IDS)
    bias.logit_bias_token_ids = bias.logit_bias = Table(module.MAX_NUM_LOGIT_BIAS_TOKENS)
    bias.stop_token_ids = Table(module.MAX_NUM_STOP_TOKEN_IDS)
    for name in (
        "num_allowed_token_ids",
        "num_logit_bias",
        "min_lens",
        "num_stop_token_ids",
        "restore_when_all_masked",
    ):
        setattr(bias, name, Table(0))
    bias.use_logit_bias = np.zeros(1, dtype=bool)
    words = BadWordsState.__new__(BadWordsState)
    words.bad_word_token_ids = Table(envs.VLLM_MAX_BAD_WORDS_TOTAL_TOKENS)
    words.bad_word_offsets = Table(envs.VLLM_MAX_NUM_BAD_WORDS + 1)
    words.num_bad_words = Table(0)
    logprobs = LogprobTokenIdsState.__new__(LogprobTokenIdsState)
    logprobs.num_token_ids, logprobs.token_ids = Table(0), Table(MAX_LOGPROB_TOKEN_IDS)
    return bias, words, logprobs


def _ids(most: int) -> st.SearchStrategy[list[int]]:
    """Lists of ids of all lengths, the ends of the range as likely as the middle."""
    length = st.one_of(st.integers(0, most), st.integers(most - 10, most + 10))
    return st.builds(lambda start, size: [(start + i) % VOCABULARY for i in range(size)], st.integers(0, 4095), length)


WORDS = st.lists(st.text(st.sampled_from("ab é基→-_ "), max_size=40), max_size=140)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "allowed_token_ids": _ids(1024),
        "stop_token_ids": _ids(128),
        "min_tokens": st.integers(0, 20),
        "logit_bias": _ids(1024).map(lambda ids: {str(one): 1.0 for one in ids}),
        "bad_words": WORDS,
        "logprob_token_ids": _ids(128),
    },
)


@pytest.mark.vllm
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(body=BODIES)
def test_no_request_that_we_let_through_is_refused_by_a_table(client: Any, body: dict[str, Any]) -> None:
    """Our checks of the body, vLLM's parameters and checks, ours of the parameters; then the worker's own code."""
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest
    from vllm.exceptions import VLLMClientError

    try:
        check_plain({"model": "m", "prompt": "x"} | body, 8)
    except ArrowheadError:
        event("refused: body")
        return
    try:
        params = CompletionRequest(model="m", prompt="x", max_tokens=20, **body).to_sampling_params(20, {})
        params.verify(_config(), None, None, client.input_processor.tokenizer)
        compat.table_check(client)(params)
    except (VLLMClientError, ValueError) as error:
        event(f"refused: {getattr(error, 'parameter', None)}")
        return
    event("served")
    # As vLLM does it after our check.
    inputs = client.input_processor
    params.update_from_generation_config(inputs.generation_config_fields, inputs.renderer.get_eos_token_id())
    params.update_from_tokenizer(inputs.tokenizer)
    for table in _worker_tables():
        table.add_request(0, params)


def _config() -> Any:
    return SimpleNamespace(get_vocab_size=lambda: VOCABULARY, max_logprobs=20, is_diffusion=False, max_model_len=512)


@pytest.mark.vllm
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"allowed_token_ids": list(range(1025))}, "allowed_token_ids"),
        ({"logit_bias": dict.fromkeys(range(1025), 1.0)}, "logit_bias"),
        # 121 and 8 of the model's own.
        ({"stop_token_ids": list(range(121)), "min_tokens": 1}, "stop_token_ids"),
        ({"bad_words": ["a-b é_" * 20 + str(i) for i in range(10)]}, "bad_words"),
    ],
)
def test_what_ends_the_worker_is_refused_before_it(client: Any, fields: dict[str, Any], param: str) -> None:
    """The tables do refuse it, in a place where that ends the engine; we do so before, in vLLM's form of a 400."""
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError

    params = SamplingParams(max_tokens=20, **fields)
    with pytest.raises(VLLMValidationError) as caught:
        compat.table_check(client)(params)
    assert caught.value.parameter == param

    inputs = client.input_processor
    params.update_from_generation_config(inputs.generation_config_fields, inputs.renderer.get_eos_token_id())
    params.update_from_tokenizer(inputs.tokenizer)
    with pytest.raises(ValueError, match="Too many"):
        for table in _worker_tables():
            table.add_request(0, params)


@pytest.mark.vllm
def test_stop_ids_without_min_tokens_need_no_table(client: Any) -> None:
    """They are only looked for in what was sampled; and the caller's parameters stay as they were."""
    from vllm import SamplingParams

    params = SamplingParams(max_tokens=20, stop_token_ids=list(range(200)), bad_words=["ab"])
    compat.table_check(client)(params)
    assert params.bad_words_token_ids is None and len(params.all_stop_token_ids) == 200


@pytest.mark.vllm
def test_the_limits_of_the_body_are_the_places_of_the_installed_vllm() -> None:
    """An upgrade that changes a table changes ours."""
    pytest.importorskip("vllm")
    from vllm.sampling_params import MAX_LOGPROB_TOKEN_IDS

    places = compat.table_places()
    assert LONGEST["allowed_token_ids"] == places.allowed_token_ids
    assert LONGEST["logit_bias"] == places.logit_bias
    assert LONGEST["stop_token_ids"] == places.stop_token_ids
    assert LONGEST["bad_words"] == places.bad_words
    assert LONGEST["logprob_token_ids"] == MAX_LOGPROB_TOKEN_IDS


def test_parameters_that_fill_no_table_are_not_copied() -> None:
    """The usual request costs nothing."""

    def never(_: Any) -> None:
        raise AssertionError("parameters were completed")

    plain = SimpleNamespace(allowed_token_ids=None, logit_bias={1: 1.0}, min_tokens=0, bad_words=[])
    assert tables_used(plain, never) == TableSizes(logit_bias=1)
