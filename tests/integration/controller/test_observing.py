"""What the operator sees of a service under load, against what the load itself knows; and what a person sees of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from e2e.load import background_load
from mtpilot.adapters.clock import SystemClock
from mtpilot.adapters.kube.client import KubeClient
from mtpilot.adapters.kube.cluster import KubeCluster
from mtpilot.adapters.prometheus import PrometheusMetrics
from mtpilot.adapters.sglang import SglangEngines
from mtpilot.adapters.snapshot_file import load_snapshot
from mtpilot.controller.context import Ports
from mtpilot.controller.turn import observe
from mtpilot.model.names import GATEWAY_PORT
from mtpilot.model.snapshot import Snapshot
from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Scene, inference_service
from tests.integration.support import eventually

SLOTS = 8  # of each of two mtp replicas


async def gateway_urls(scene: Scene) -> list[str]:
    pods = await scene.all("pods", "mtpilot.dev/component=gateway")
    return [f"http://{pod['status']['podIP']}:{GATEWAY_PORT}" for pod in pods]


async def read(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Snapshot:
    monkeypatch.setenv("KUBECONFIG", str(scene.cluster.admin_kubeconfig))
    metrics = PrometheusMetrics(scene.cluster.prometheus_url, scrape_interval_seconds=1, rate_window_seconds=8)
    try:
        async with await KubeClient.connect() as client, SglangEngines() as engines:
            ports = Ports(cluster=KubeCluster(client), metrics=metrics, engine=engines, clock=SystemClock())
            found = await observe(ports, scene.namespace, "chat")
    finally:
        metrics.close()
    assert found is not None
    return found


def agree(found: Snapshot, *, clients: int, per_second: float) -> None:
    """Assert that what was seen is the load: `clients` in flight, `per_second` answers of 200 tokens."""
    view = found.metrics
    assert view is not None
    assert view.error is None, view.error_message
    pods = [view.pods[pod.uid] for pod in found.pods]
    assert all(pod.age_seconds is not None and pod.age_seconds < 3 for pod in pods)
    assert sum(pod.running or 0 for pod in pods) == pytest.approx(clients, abs=3)
    assert sum(pod.queued or 0 for pod in pods) == 0
    assert sum(pod.requests_per_second or 0 for pod in pods) == pytest.approx(per_second, rel=0.3)
    assert sum(pod.generation_tokens_per_second or 0 for pod in pods) == pytest.approx(per_second * 200, rel=0.3)
    assert all(1 < (pod.accept_length or 0) <= 2 for pod in pods)
    assert {pod.state_slots for pod in pods} == {0}, "the simulator keeps no recurrent states, and says so"
    assert view.gateway is not None
    assert view.gateway.in_flight == pytest.approx(clients, abs=3)
    assert view.gateway.queued == 0
    assert view.gateway.arrivals_per_second == pytest.approx(per_second, rel=0.3)
    assert sum(engine.in_flight for engine in found.engines.values()) == pytest.approx(clients, abs=3)
    assert {engine.effective_max_running_requests for engine in found.engines.values()} == {SLOTS}


async def test_numbers_under_load_are_those_of_the_load(scene: Scene, operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.apply(inference_service())
    await scene.until_ready()
    clients, looks = 12, 4  # a look that meets a moment when the machine stood still is taken again
    async with background_load(await gateway_urls(scene), clients=clients, model="qwen", output_tokens=200) as load:
        await load.wait_completed(2 * clients, timeout_seconds=60)
        await asyncio.sleep(10)  # longer than the window of rates
        for left in reversed(range(looks)):
            before, started = load.counters["completed"], asyncio.get_running_loop().time()
            await asyncio.sleep(8)
            per_second = (load.counters["completed"] - before) / (asyncio.get_running_loop().time() - started)
            try:
                agree(await read(scene, monkeypatch), clients=clients, per_second=per_second)
            except AssertionError:
                if left == 0:
                    raise
            else:
                break
    assert load.result is not None


async def test_more_clients_than_slots_wait_at_the_gateway(scene: Scene, operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.apply(inference_service())
    await scene.until_ready()
    async with background_load(await gateway_urls(scene), clients=24, model="qwen", output_tokens=200) as load:
        await load.wait_completed(24, timeout_seconds=60)

        async def queued() -> bool:
            view = (await read(scene, monkeypatch)).metrics
            assert view is not None
            waiting = view.gateway.queued if view.gateway else None
            return waiting is not None and 24 - 2 * SLOTS - 2 <= waiting <= 24 - 2 * SLOTS + 2

        await eventually(queued, seconds=20, every_seconds=0.5)


async def mtpilot(scene: Scene, *arguments: str) -> tuple[int, str]:
    environment = {**os.environ, "KUBECONFIG": str(scene.cluster.admin_kubeconfig), "COLUMNS": "200"}
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "mtpilot"),
        *arguments,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_a_person_can_ask_save_and_plan_again(scene: Scene, operator: Operator, tmp_path: Path) -> None:
    await scene.apply(inference_service(replicas=1))
    await scene.until_ready(replicas=1)
    code, text = await mtpilot(scene, "explain", "chat", "-n", scene.namespace)
    assert code == 0
    assert "1 mtp / 0 batch; 1/1 ready." in text
    assert (await mtpilot(scene, "explain", "nobody", "-n", scene.namespace))[0] == 3

    file = tmp_path / "chat.yaml"
    options = ["-n", scene.namespace, "-o", str(file), "--prometheus-url", scene.cluster.prometheus_url, "--scrape-interval", "1"]
    assert (await mtpilot(scene, "snapshot", "chat", *options))[0] == 0
    saved = load_snapshot(file)
    assert [slot.name for slot in saved.slots] == ["chat-r0"]
    assert saved.metrics is not None
    assert saved.metrics.error is None
    secret = await scene.get("secrets", "chat-admin")
    assert secret is not None
    assert secret["data"]["admin-api-key"] not in file.read_text()
    code, text = await mtpilot(scene, "plan", "-f", str(file), "--json")
    assert code == 0
    assert json.loads(text)["actions"] == []
