"""Decisions by measured curves: what a profile forbids, what live acceptance changes, and which kind of load it is.

Curves and engines run at the same scale of time, so a profile tells the truth about its engines unless a test wants otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from e2e.load import run_load
from e2e.load.schedule import steady
from mtpilot.api.types import API_VERSION
from mtpilot.model.names import ENGINE_PORT
from sglang_sim.curves import BUILT_IN
from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import HARDWARE, Manifest, Scene
from tests.integration.scenarios.dashboard import chart_prometheus
from tests.integration.scenarios.looks import pods, set_faults, simulated
from tests.integration.scenarios.support import flips, gateway_urls, under_load
from tests.integration.support import eventually

Operators = Callable[..., AbstractAsyncContextManager[Operator]]
CURVES = BUILT_IN["qwen3.5-122b-4xrtxpro6000"].modes
TIME_SCALE = 2.0
MTP_SLOTS, BATCH_SLOTS = 4, 32
OUTPUT_TOKENS = 100
MTP_CAPACITY = 2 * TIME_SCALE * CURVES["mtp"].tokens_per_second(MTP_SLOTS)  # tokens/s of two replicas with every slot taken
POLICY = {"mode": "Auto", "stabilization": {"up": "1s", "down": "3s"}, "minDwell": "1s", "maxFlipsPerHour": 60}
# Starts as quick as the simulator's: by the default of four minutes a flip would hardly ever pay.
QUICK: Manifest = {
    "apiVersion": API_VERSION,
    "kind": "HardwareClass",
    "metadata": {"name": "rtx-x4-quick"},
    "spec": HARDWARE["spec"] | {"engine": {"args": ["--tp-size", "4"], "startup": {"expected": "3s"}}},
}


def profile(name: str, *, batch_share: float = 1.0, mtp_slots: int = MTP_SLOTS) -> Manifest:
    """The curves of the simulated engines; `batch_share` below 1 makes batch look worse than it is."""

    def curve(mode: str, slots: int, share: float) -> Manifest:
        levels = [level for level in (1, 2, 4, 8, 16, 32) if level <= slots]
        points = [
            {"concurrency": level, "outputTokensPerSecond": f"{TIME_SCALE * share * CURVES[mode].tokens_per_second(level):.1f}"}
            for level in levels
        ]
        accepted = {"acceptLength": f"{CURVES[mode].accept_length:.2f}"} if mode == "mtp" else {}
        return {"mode": mode, "contextTokens": 100, "slots": slots, "points": points} | accepted

    spec = {
        "model": {"source": "hf://Qwen/Qwen3.5-122B-A10B"},
        "hardwareClass": QUICK["metadata"]["name"],
        "acceptance": "Synthetic",
        "curves": [curve("mtp", mtp_slots, 1.0), curve("batch", BATCH_SLOTS, batch_share)],
        "provenance": {"source": "the simulator's built-in curves", "engine": "sglang 0.5.23"},
    }
    return {"apiVersion": API_VERSION, "kind": "ThroughputProfile", "metadata": {"name": name}, "spec": spec}


def measured(name: str = "chat", *, by: str, **policy: Any) -> Manifest:
    """A service of two replicas that is decided by a profile of that name."""
    service = simulated(name, time_scale=TIME_SCALE, mtp_slots=MTP_SLOTS, policy=POLICY | policy, profile={"name": by})
    service["spec"] |= {"hardwareClass": QUICK["metadata"]["name"], "workload": {"inputTokens": 50, "outputTokens": OUTPUT_TOKENS}}
    service["spec"]["modes"]["batch"]["maxRunningRequests"] = BATCH_SLOTS
    return service


@asynccontextmanager
async def arrivals(scene: Scene, *, tokens_per_second: float, seconds: float, name: str = "chat") -> AsyncIterator[None]:
    """An open loop: requests arrive at that rate whatever becomes of those before."""
    schedule = steady(per_second=tokens_per_second / OUTPUT_TOKENS, seconds=seconds, input_tokens=50, output_tokens=OUTPUT_TOKENS)
    load = asyncio.create_task(run_load(schedule, await gateway_urls(scene, name), model="qwen"))
    try:
        yield
    finally:
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)


async def eventually_in(scene: Scene, look: Callable[[Manifest], Any], *, seconds: float, name: str = "chat") -> Any:
    """Wait until something is seen in a service's status."""

    async def seen() -> Any:
        return look(await scene.status(name))

    return await eventually(seen, seconds=seconds, every_seconds=0.2)


async def running(scene: Scene, service: str) -> list[int]:
    """Requests that each engine runs, asked directly: status is refreshed once a minute while nothing moves."""
    async with aiohttp.ClientSession() as session:
        found = []
        for pod in await pods(scene, "engine", service):
            async with session.get(f"http://{pod['status']['podIP']}:{ENGINE_PORT}/v1/loads") as answer:
                found.append((await answer.json())["loads"][0]["num_running_reqs"])
    return found


async def calibrated(scene: Scene) -> None:
    """Wait until the service and the profile itself say what the curves mean."""

    async def told() -> bool:
        found = await scene.get("throughputprofiles", "crosses") or {}
        said = found.get("status") or {}
        valid = [(item["type"], item["status"]) for item in said.get("conditions", ())] == [("Valid", "True")]
        return valid and said.get("verdict") == "Flip" and bool(said["observedGeneration"] == found["metadata"]["generation"])

    await eventually(told, seconds=10)

    async def in_use() -> bool:
        return (await scene.condition("chat", "Calibrated")).get("reason") == "ProfileInUse"

    await eventually(in_use, seconds=10)


def both(*waits: Awaitable[Any]) -> Awaitable[list[Any]]:
    return asyncio.gather(*waits)


async def test_a_profile_that_says_mtp_only_never_flips_under_the_load_that_flips_another(scene: Scene, operators: Operators) -> None:
    overload = 1.4 * MTP_CAPACITY
    async with operators("--rate-window", "4"):
        await scene.apply(QUICK, profile("crosses"), profile("never-crosses", batch_share=0.2))
        await scene.apply(measured("chat", by="crosses"), measured("stays", by="never-crosses"))
        await both(scene.until_ready("chat"), scene.until_ready("stays"))
        assert (await scene.status("chat"))["profile"]["verdict"] == "Flip"
        assert (await scene.status("stays"))["profile"]["verdict"] == "MtpOnly"
        async with (
            arrivals(scene, tokens_per_second=overload, seconds=60),
            arrivals(scene, tokens_per_second=overload, seconds=60, name="stays"),
        ):
            await eventually_in(scene, flips, seconds=40)

            async def no_room() -> bool:
                return await running(scene, "stays") == [MTP_SLOTS, MTP_SLOTS]  # between two requests a slot is free for a moment

            await eventually(no_room, seconds=10)
            kept = await scene.status("stays")
        assert (kept["mix"], flips(kept)) == ({"mtp": 2, "batch": 0}, [])
        condition = await scene.condition("stays", "Calibrated")
        assert (condition["status"], condition["reason"]) == ("True", "ProfileInUse")


async def test_acceptance_that_falls_moves_the_fleet_to_batch_at_a_load_that_was_fine(
    scene: Scene, operators: Operators, tmp_path: Path
) -> None:
    """The chart's monitoring looks on: its targets are up, and every query of the dashboard has series."""
    async with (
        chart_prometheus(scene, tmp_path) as monitoring,
        operators("--rate-window", "4", "--metrics-port", str(monitoring.operator_port)),
    ):
        await scene.apply(QUICK, measured(by="crosses"))
        await scene.until_ready()
        assert (await scene.condition("chat", "Calibrated"))["reason"] == "Uncalibrated"
        await scene.apply(profile("crosses"))
        await calibrated(scene)
        async with arrivals(scene, tokens_per_second=0.8 * MTP_CAPACITY, seconds=60):
            await asyncio.sleep(10)
            before = await scene.status()
            assert (before["mix"], flips(before)) == ({"mtp": 2, "batch": 0}, [])
            await set_faults(scene, {"accept_length": 1.2})
            await eventually_in(scene, flips, seconds=40)
            after = await scene.status()
            await monitoring.assert_targets_are_up()
            await eventually_in(scene, lambda status: flips(status)[0][2] == "Completed", seconds=30)
            await monitoring.assert_dashboard_has_series()
        assert float(after["demand"]["acceptLength"]) < 1.8  # of the window, in which the fall lies
        assert flips(after)[0][:2] == ("mtp", "batch")


JOB_SLOTS = 8
JOB_CLIENTS = 2 * JOB_SLOTS + 2  # two wait: in mtp all the same work is done as with a client more or less, in batch a seventh less


async def test_clients_that_wait_and_arrivals_that_go_on_are_told_apart_and_decided_differently(scene: Scene, operators: Operators) -> None:
    def service(name: str) -> Manifest:
        made = measured(name, by="crosses", mode="RecommendOnly")
        made["spec"]["modes"]["mtp"]["maxRunningRequests"] = JOB_SLOTS
        return made

    def sure(kind: str) -> Callable[[Manifest], Manifest | None]:
        def told(status: Manifest) -> Manifest | None:
            loop = status.get("loop") or {"kind": None}
            return status if loop["kind"] == kind and float(loop["confidence"]) >= 0.7 else None

        return told

    capacity = 2 * TIME_SCALE * CURVES["mtp"].tokens_per_second(JOB_SLOTS)
    async with operators("--rate-window", "8"):
        await scene.apply(QUICK, profile("crosses", mtp_slots=JOB_SLOTS), service("job"), service("chat"))
        await both(scene.until_ready("job"), scene.until_ready("chat"))
        async with (
            under_load(scene, clients=JOB_CLIENTS, output_tokens=OUTPUT_TOKENS, name="job"),
            arrivals(scene, tokens_per_second=1.15 * capacity, seconds=90),
        ):
            job = await eventually_in(scene, sure("Closed"), seconds=40, name="job")
            chat = await eventually_in(scene, sure("Open"), seconds=40, name="chat")
            for status in (job, chat):  # every slot of the same engines is taken: the same tokens/s are served
                assert 2 * JOB_SLOTS - 1 <= status["demand"]["inFlight"] <= 2 * JOB_SLOTS
                assert status["demand"]["queued"] > 0
            await both(scene.patch("job", {"policy": {"mode": "Auto"}}), scene.patch("chat", {"policy": {"mode": "Auto"}}))
            await eventually_in(scene, flips, seconds=30, name="chat")
            await asyncio.sleep(3)
            assert flips(await scene.status("job")) == []
