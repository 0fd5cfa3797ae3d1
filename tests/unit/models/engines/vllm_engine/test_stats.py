"""What is made of vLLM's scheduler statistics; nothing here needs it installed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from models.engines.vllm_engine.stream import LatestSchedulerStats
from models.types import EngineStats

# One step of vLLM 0.32 with more requests than places, as its SchedulerStats has it.
RECORDED = """{
  "num_running_reqs": 8, "num_waiting_reqs": 2, "num_skipped_waiting_reqs": 0,
  "num_kv_fetch_reqs_by_stage": {"waiting_to_start": 0, "in_progress": 0, "completed_waiting": 0},
  "step_counter": 0, "current_wave": 0, "kv_cache_usage": 0.014669926650366705, "iteration_details": null,
  "prefix_cache_stats": {
    "reset": false, "requests": 0, "queries": 0, "hits": 0,
    "preempted_requests": 0, "preempted_queries": 0, "preempted_hits": 0, "hits_by_source": {}
  },
  "connector_prefix_cache_stats": null, "kv_cache_eviction_events": [], "spec_decoding_stats": null,
  "kv_connector_stats": null, "ec_connector_stats": null, "waiting_lora_adapters": {}, "running_lora_adapters": {},
  "cudagraph_stats": null, "perf_stats": null
}"""


@pytest.fixture
def view() -> LatestSchedulerStats:
    return LatestSchedulerStats()


def _step(**fields: Any) -> Any:
    return SimpleNamespace(**(json.loads(RECORDED) | fields))


def test_before_the_first_step_only_the_count_is_known(view: LatestSchedulerStats) -> None:
    """No number is made up."""
    counted = EngineStats(running=1, waiting=2, tokens_generated=7)
    assert view.over(counted) == counted


def test_a_step_says_who_waits_and_what_is_taken(view: LatestSchedulerStats) -> None:
    """As many as are open, divided as the scheduler does; counters stay what they were."""
    view.record(_step())
    told = view.over(EngineStats(running=3, waiting=7, tokens_generated=7))

    assert (told.running, told.waiting, told.tokens_generated) == (8, 2, 7)
    assert told.kv_cache_used == json.loads(RECORDED)["kv_cache_usage"] > 0


def test_those_that_are_held_back_wait_too(view: LatestSchedulerStats) -> None:
    """For a grammar that is still compiled, say."""
    view.record(_step(num_waiting_reqs=1, num_skipped_waiting_reqs=2))
    assert view.over(EngineStats(running=5)).waiting == 3


def test_never_more_wait_than_are_open(view: LatestSchedulerStats) -> None:
    """Requests may have been given up since the last step."""
    view.record(_step(num_waiting_reqs=9))
    told = view.over(EngineStats(running=1, waiting=1))
    assert (told.running, told.waiting) == (0, 2)


def test_where_nothing_is_open_nothing_is_taken(view: LatestSchedulerStats) -> None:
    """Whoever was given up last left no step behind that would say so."""
    view.record(_step())
    assert view.over(EngineStats(tokens_generated=7)) == EngineStats(tokens_generated=7, kv_cache_used=0.0)


def test_an_engine_that_has_ended_leaves_nothing_behind(view: LatestSchedulerStats) -> None:
    """The next one begins without numbers."""
    view.record(_step())
    view.forget()
    assert view.over(EngineStats()).kv_cache_used is None
