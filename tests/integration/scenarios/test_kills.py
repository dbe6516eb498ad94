"""SIGKILL in every phase of a flip, under load: the flip ends once, there is no second one, and no request is lost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import psutil
import pytest

from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Scene, inference_service
from tests.integration.scenarios.support import (
    changed_environment,
    flips,
    is_loading,
    rollout_state,
    slot_pods,
    under_load,
    until_mix,
)
from tests.integration.support import eventually

Operators = Callable[..., AbstractAsyncContextManager[Operator]]
Reached = Callable[[Scene, dict[str, Any]], Awaitable[bool]]
SLOT = "chat-r1"  # of two idle or equally busy mtp replicas the one with the highest index flips
DEAD_SECONDS = 2.0
QUIET_SECONDS = 4.0  # several turns of the operator


async def decided(_: Scene, state: dict[str, Any]) -> bool:
    """The decision has just been written."""
    return "decidedAt" in state


async def draining(scene: Scene, state: dict[str, Any]) -> bool:
    """The pod has lost its serving label, so the first turn of the drain is over."""
    pods = await slot_pods(scene, SLOT)
    return "drainStartedAt" in state and any(pod["metadata"]["labels"].get("mtpilot.dev/serving") == "false" for pod in pods)


async def replacing_without_pod(scene: Scene, state: dict[str, Any]) -> bool:
    """The template has changed and the old pod still ends."""
    return "replaceStartedAt" in state and not await slot_pods(scene, SLOT)


async def replacing_while_pod_loads(scene: Scene, state: dict[str, Any]) -> bool:
    return "replaceStartedAt" in state and any(map(is_loading, await slot_pods(scene, SLOT)))


async def rolling_back(_: Scene, state: dict[str, Any]) -> bool:
    return bool(state.get("rollingBack"))


async def until_reached(scene: Scene, phase: Reached, *, seconds: float = 40) -> dict[str, Any]:
    """Wait for the phase, looking often; gives the slot's state of then."""

    async def reached() -> dict[str, Any] | None:
        state = await rollout_state(scene, SLOT)
        return state if await phase(scene, state) else None

    return await eventually(reached, seconds=seconds, every_seconds=0.02)


@pytest.mark.parametrize("phase", [decided, draining, replacing_without_pod, replacing_while_pod_loads])
async def test_operator_killed_while(scene: Scene, operators: Operators, phase: Reached) -> None:
    async with operators() as first:
        await scene.apply(inference_service())
        await scene.until_ready()
        async with under_load(scene) as busy:
            await scene.patch("chat", {"policy": {"pinned": {"mtp": 1, "batch": 1}}})
            at_kill = await until_reached(scene, phase)
            await first.kill()
            await asyncio.sleep(DEAD_SECONDS)
            async with operators() as second:
                status = await until_mix(scene, mtp=1, batch=1)
                await asyncio.sleep(QUIET_SECONDS)
                after = await scene.status()
                assert "turn failed" not in second.lines()
    assert flips(status) == [("mtp", "batch", "Completed")]
    assert after["history"] == status["history"]
    assert (await rollout_state(scene, SLOT))["decidedAt"] == at_kill["decidedAt"]
    assert {slot: len(created) for slot, created in busy.pods.created.items()} == {"chat-r0": 1, SLOT: 2}
    assert busy.pods.gpus_peak == 8
    assert busy.pods.serving_least == 1


async def test_operator_killed_while_rolling_back(scene: Scene, operators: Operators) -> None:
    service = inference_service()
    service["spec"]["rollout"]["readyTimeout"] = "7s"
    service["spec"]["policy"]["minDwell"] = "60s"  # and so the back-off after the failure
    service["spec"]["engine"]["env"] = changed_environment(service, SGLANG_SIM_NEVER_READY="batch")
    async with operators() as first:
        await scene.apply(service)
        await scene.until_ready()
        async with under_load(scene) as busy:
            await scene.patch("chat", {"policy": {"pinned": {"mtp": 1, "batch": 1}}})
            at_kill = await until_reached(scene, rolling_back)
            await first.kill()
            await asyncio.sleep(DEAD_SECONDS)
            async with operators():

                async def ended() -> bool:
                    slots = (await scene.status()).get("slots") or ()
                    state = await rollout_state(scene, SLOT)
                    return not state.get("rollingBack") and all(slot["phase"] == "Serving" for slot in slots)

                await eventually(ended, seconds=40)
                await asyncio.sleep(QUIET_SECONDS)
                status = await scene.status()
    assert flips(status) == [("mtp", "batch", "RolledBack")]
    state = await rollout_state(scene, SLOT)
    assert {key: state[key] for key in ("decidedAt", "failedAt", "failedDigest", "failures")} == {
        key: at_kill[key] for key in ("decidedAt", "failedAt", "failedDigest", "failures")
    }
    assert [slot["mode"] for slot in status["slots"]] == ["mtp", "mtp"]
    assert len(busy.pods.created[SLOT]) == 3  # the first, the one that was never ready, the one that serves again
    assert busy.pods.gpus_peak == 8


def gateway_agents(namespace: str) -> list[psutil.Process]:
    """Agents of the namespace's gateways, among the processes that this one has started."""
    found = []
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if "gateway-agent" in command and namespace in command:
            found.append(process)
    return found


async def test_gateway_agent_killed_during_a_flip(scene: Scene, operator: Operator) -> None:
    await scene.apply(inference_service())
    await scene.until_ready()
    async with under_load(scene) as busy:
        await scene.patch("chat", {"policy": {"pinned": {"mtp": 1, "batch": 1}}})
        await until_reached(scene, draining)
        (agent,) = gateway_agents(scene.namespace)
        agent.kill()
        status = await until_mix(scene, mtp=1, batch=1)

        async def restarted() -> bool:
            return bool(gateway_agents(scene.namespace))

        await eventually(restarted, seconds=20)
        before = busy.load.counters["completed"]
        await busy.load.wait_completed(20)
        assert busy.load.counters["completed"] > before
    assert flips(status) == [("mtp", "batch", "Completed")]
    assert busy.load.result is not None
    served_by = {record.served_by["x-mtpilot-replica"] for record in busy.load.result.records[-20:]}
    assert served_by == {"r0", "r1"}  # the restarted agent has put the new replica in
