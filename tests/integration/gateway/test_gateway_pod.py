"""The gateway as Kubernetes runs it: its objects applied, its pods started by a node, its own account at the API server."""

import asyncio
import contextlib
import time

import aiohttp
import psutil
import pytest

from e2e.clusters.local import LocalCluster
from mtpilot.gateway.pods import ServerState
from mtpilot.model.names import LABEL_MODE
from mtpilot.model.snapshot import Manifest
from mtpilot.render.gateway import render_gateway
from mtpilot.render.gateway_pod import stop_grace_seconds
from mtpilot.render.routing import render_routing
from tests.integration.gateway.scene import Scene, admin_socket, engine_pod, serving, until_serving, url
from tests.integration.support import eventually
from tests.unit.render.samples import service as sample_service
from tests.unit.render.samples import small_spec


@pytest.fixture
async def scene(local_cluster: LocalCluster, namespace: str) -> Scene:
    made = sample_service(small_spec(gateway={"replicas": 2, "queueTimeout": "30s"}), namespace=namespace)
    scene = Scene(local_cluster, made)
    await scene.apply(*render_gateway(made), *(engine_pod(index, namespace) for index in range(2)))

    async def two_gateways() -> bool:
        return len(await scene.gateways()) == 2

    await eventually(two_gateways, seconds=40)
    return scene


async def test_pods_reach_haproxy_in_under_a_second(scene: Scene) -> None:
    gateways = await scene.gateways()
    await until_serving(scene, gateways, {"r0", "r1"})

    async def engines_own_word() -> bool:
        pool = await admin_socket(scene, gateways[0]).pool()
        return [server.maxconn for server in pool.servers[:2]] == [3, 3]  # each gateway its half of 5; the argument says 8

    await eventually(engines_own_word)
    times = []
    for on in (False, True, False, True):
        began = time.monotonic()
        await scene.label_serving("chat-r0", on)
        await until_serving(scene, gateways, {"r0", "r1"} if on else {"r1"}, seconds=2)
        times.append(time.monotonic() - began)
    assert sorted(times)[2] < 1.0, times  # one of the four may have met a busy machine


async def test_a_published_limit_reaches_running_gateways(scene: Scene) -> None:
    """Both modes serve: without a limit both are in the pool, with one the mtp replica is in the lane, and no pod is rolled."""
    gateways = await scene.gateways()
    for name, mode in (("chat-r0", "mtp"), ("chat-r1", "batch")):
        await scene.cluster.client.patch(f"{scene.pods_path}/{name}", {"metadata": {"labels": {LABEL_MODE: mode}}})
    await until_serving(scene, gateways, {"r0", "r1"})
    await scene.apply(render_routing(scene.service, 2))

    async def in_the_lane() -> bool:
        pools = [await admin_socket(scene, gateway).pool() for gateway in gateways]
        return all(
            [(server.name, server.maxconn) for server in pool.lane if server.state is ServerState.READY] == [("r0", 1)] for pool in pools
        )

    await eventually(in_the_lane, seconds=90)
    async with aiohttp.ClientSession() as session, session.post(f"{url(gateways[0])}/v1/x", data=b"1") as response:
        assert (response.headers["x-mtpilot-replica"], response.headers["x-mtpilot-mode"]) == ("r0", "mtp")
    names = {gateway["metadata"]["name"] for gateway in gateways}
    assert {gateway["metadata"]["name"] for gateway in await scene.gateways()} == names


async def test_a_deleted_gateway_finishes_its_streams(scene: Scene) -> None:
    gateway, *_ = await scene.gateways()
    await until_serving(scene, [gateway], {"r0", "r1"})
    async with aiohttp.ClientSession() as session, session.post(f"{url(gateway)}/v1/slow", data=b"12") as response:
        assert response.status == 200
        await scene.cluster.client.delete(f"{scene.pods_path}/{gateway['metadata']['name']}")
        events = (await response.read()).decode().split("\n\n")
    assert events == [*(f"data: {second}" for second in range(12)), ""]

    async def gone() -> bool:
        answer = await scene.cluster.client.get(scene.pods_path)
        return gateway["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in answer["items"]}

    await eventually(gone, seconds=15)
    assert stop_grace_seconds(scene.service) > 60, "it went because it was done, not because its grace had ended"


async def test_a_killed_agent_disturbs_nobody(scene: Scene) -> None:
    gateway, *_ = await scene.gateways()
    await until_serving(scene, [gateway], {"r0", "r1"})
    agent_process(gateway).kill()
    async with aiohttp.ClientSession() as session:
        for _ in range(20):
            async with session.post(f"{url(gateway)}/v1/x", data=b"1") as response:
                assert response.status == 200
            assert await serving(scene, gateway) == {"r0", "r1"}
            await asyncio.sleep(0.05)
    await scene.label_serving("chat-r1", False)
    await until_serving(scene, [gateway], {"r0"}, seconds=15)


def agent_process(gateway: Manifest) -> psutil.Process:
    """The agent's process, found by the address that only it was given."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "gateway-agent" in process.cmdline() and process.environ().get("POD_IP") == gateway["status"]["podIP"]:
                return process
    raise AssertionError("no agent")


async def test_without_the_api_server_everything_goes_on(scene: Scene) -> None:
    gateway, *_ = await scene.gateways()
    await until_serving(scene, [gateway], {"r0", "r1"})
    await scene.cluster.apiserver.stop()
    try:
        async with aiohttp.ClientSession() as session:
            for _ in range(30):
                async with session.post(f"{url(gateway)}/v1/x", data=b"1") as response:
                    assert response.status == 200
                await asyncio.sleep(0.1)
        assert await serving(scene, gateway) == {"r0", "r1"}
    finally:
        await scene.cluster.apiserver.start()
    await scene.label_serving("chat-r1", False)
    await until_serving(scene, [gateway], {"r0"}, seconds=10)


async def test_requests_wait_for_the_first_replica(scene: Scene) -> None:
    gateways = await scene.gateways()
    for index in range(2):
        await scene.label_serving(f"chat-r{index}", False)
    await until_serving(scene, gateways, set())
    async with aiohttp.ClientSession() as session:

        async def ask(gateway: Manifest) -> str:
            async with session.post(f"{url(gateway)}/v1/x", data=b"1") as response:
                return await response.text()

        waiting = [asyncio.create_task(ask(gateway)) for gateway in gateways for _ in range(5)]
        await asyncio.sleep(1)
        assert not any(request.done() for request in waiting)
        await scene.label_serving("chat-r1", True)
        assert set(await asyncio.gather(*waiting)) == {"chat-r1"}
