"""The simulator's pages against recordings of a real SGLang 0.5.23: names, labels, types, JSON shapes.

The simulator gets the recorded server's arguments and, for the busy page, the recorded load: 8 requests done, 8 running and
8 waiting, of 300 tokens each and not streamed.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.exposition import read, shape
from tests.unit.sglang_sim.running import Running, running

RECORDINGS = Path(__file__).parent / "recordings" / "sglang-0.5.23"
ARGUMENTS = (
    "--load-format dummy --skip-tokenizer-init --enable-metrics --mem-fraction-static 0.3 --max-total-tokens 8192 "
    "--max-running-requests 8 --context-length 2048 --port 31999"
)
FREE = frozenset({"pid", "endpoint", "method", "status_code"})
BODY = {"input_ids": [1, 2, 3, 4], "sampling_params": {"max_new_tokens": 300, "ignore_eos": True}}


@pytest.fixture(scope="module")
async def pages():
    """The pages of an idle and then of a busy simulator, and its JSON documents at those moments."""
    found: dict[str, Any] = {}
    async with running(ARGUMENTS, prefill_tokens_per_second=1e6) as sim:
        for path in ("/model_info", "/server_info", "/ready"):
            await sim.get(path)
        found["metrics-idle.txt"] = (await sim.get("/metrics"))[1]
        found["loads-idle.json"] = json.loads((await sim.get("/v1/loads"))[1])
        found["server_info-batch.json"] = json.loads((await sim.get("/server_info"))[1])
        found["model_info.json"] = json.loads((await sim.get("/model_info"))[1])
        requests = [asyncio.create_task(sim.post("/generate", BODY)) for _ in range(24)]
        await _half_done(sim, requests)
        found["loads-busy.json"] = json.loads((await sim.get("/v1/loads"))[1])
        found["metrics-busy.txt"] = (await sim.get("/metrics"))[1]
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
    return found


async def _half_done(sim: Running, requests: list[asyncio.Task[Any]]) -> None:
    """8 done; the 8 after them are past their hundredth token."""
    while sum(request.done() for request in requests) < 8 or min(row.generated for row in sim.server.scheduler.decoding) < 100:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("page", ["metrics-idle.txt", "metrics-busy.txt"])
def test_metrics_have_the_recorded_names_types_helps_and_labels(pages, page):
    real, simulated = read((RECORDINGS / page).read_text()), read(pages[page])
    assert set(simulated) == set(real)
    for name, family in real.items():
        mine = simulated[name]
        assert (mine.kind, mine.help) == (family.kind, family.help), name
        assert shape(mine, free=FREE) == shape(family, free=FREE), name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sglang:num_running_reqs", 8),
        ("sglang:num_queue_reqs", 8),
        ("sglang:max_total_num_tokens", 8192),
        ("sglang:context_len", 2048),
        ("sglang:generation_tokens_total", 2408),
        ("sglang:prompt_tokens_total", 35),
        ("sglang:num_requests_total", 9),
    ],
)
def test_the_same_load_reads_the_same(pages, name, value):
    for page in ((RECORDINGS / "metrics-busy.txt").read_text(), pages["metrics-busy.txt"]):
        assert list(read(page)[name].samples.values()) == [value]


@pytest.mark.parametrize("suffix", ["time_to_first_token_seconds_count", "queue_time_seconds_count", "inter_token_latency_seconds_count"])
def test_histograms_count_the_same_events(pages, suffix):
    counts = []
    for page in ((RECORDINGS / "metrics-busy.txt").read_text(), pages["metrics-busy.txt"]):
        family = read(page)["sglang:" + suffix.removesuffix("_count")]
        counts.append(next(value for (name, _), value in family.samples.items() if name.endswith(suffix)))
    if suffix.startswith("inter"):
        # 50 tokens an output: 250 of each finished request count, and 0 to 250 of each running one
        assert all(2000 <= count <= 4000 and count % 400 == 0 for count in counts)
    else:
        assert counts[0] == counts[1] == 17


def _types(value: Any) -> Any:
    """The shape of a JSON document: keys and types, numbers being one type where the recording holds a whole number."""
    if isinstance(value, dict):
        return {key: _types(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_types(item) for item in value[:1]]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


@pytest.mark.parametrize("document", ["loads-idle.json", "loads-busy.json", "model_info.json", "server_info-batch.json"])
def test_json_documents_have_the_recorded_keys_and_types(pages, document):
    real = json.loads((RECORDINGS / document).read_text())
    mine = pages[document]
    if document.startswith("server_info"):
        assert mine["context_length"] == 2048
        real["context_length"] = mine["context_length"]
        real["internal_states"][0]["context_length"] = mine["context_length"]
    assert _types(mine) == _types(real)


def test_the_recorded_arguments_resolve_to_the_recorded_values(pages):
    real, mine = json.loads((RECORDINGS / "server_info-batch.json").read_text()), pages["server_info-batch.json"]
    for key in (
        "model_path",
        "load_format",
        "max_running_requests",
        "max_total_tokens",
        "max_req_input_len",
        "mem_fraction_static",
        "status",
        "version",
    ):
        assert mine[key] == real[key], key
    assert (
        mine["internal_states"][0]["effective_max_running_requests_per_dp"]
        == real["internal_states"][0]["effective_max_running_requests_per_dp"]
    )


def test_loads_count_the_same(pages):
    real, mine = (json.loads((RECORDINGS / "loads-busy.json").read_text()), pages["loads-busy.json"])
    for key in ("num_running_reqs", "num_waiting_reqs", "num_waiting_uncached_tokens", "max_running_requests", "max_total_num_tokens"):
        assert mine["loads"][0][key] == real["loads"][0][key], key


async def test_extra_metric_labels_reach_the_engines_series():
    async with running('--enable-metrics --extra-metric-labels {"mode":"mtp"} --speculative-algorithm NEXTN') as sim:
        families = read((await sim.get("/metrics"))[1])
        for name in ("sglang:num_running_reqs", "sglang:generation_tokens_total", "sglang:spec_verify_calls_total"):
            assert all(("mode", "mtp") in labels for _, labels in families[name].samples), name
        assert list(families["sglang:spec_accept_length"].samples.values()) == [2.0]


async def test_metrics_are_only_there_when_asked_for():
    async with running("") as sim:
        assert (await sim.get("/metrics"))[0] == 404


async def test_the_path_that_0_5_23_dropped_is_gone():
    async with running() as sim:
        assert (await sim.get("/get_load"))[0] == 404
        assert json.loads((await sim.get("/get_server_info"))[1]).keys() == json.loads((await sim.get("/server_info"))[1]).keys()


async def test_with_speculation_the_documents_say_so():
    async with running("--speculative-algorithm NEXTN --admin-api-key secret-1") as sim:
        info = json.loads((await sim.get("/server_info"))[1])
        assert (info["speculative_algorithm"], info["max_running_requests"]) == ("EAGLE", 48)
        assert info["internal_states"][0]["effective_max_running_requests_per_dp"] == 24
        assert "secret-1" not in json.dumps(info)
        load = json.loads((await sim.get("/v1/loads"))[1])["loads"][0]
        assert load["speculative"] == {"accept_length": 2.0, "accept_rate": pytest.approx(1 / 3, abs=1e-3)}
        assert (await sim.post("/pause_generation", {}))[0] == 401
        assert (await sim.post("/pause_generation", {}, headers={"Authorization": "Bearer secret-1"}))[0] == 200
