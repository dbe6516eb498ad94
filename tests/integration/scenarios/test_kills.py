"""SIGKILL in every phase of a flip, under load: the flip ends once, there is no second one, and no request is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from mtpilot.model import names
from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Manifest, Scene, inference_service
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
State = dict[str, Any]
Phase = Callable[[State, list[Manifest]], bool]
SLOTS = ("chat-r0", "chat-r1")
DEAD_SECONDS = 1.0
QUIET_SECONDS = 3.0  # several turns of the operator


def decided(_: State, pods: list[Manifest]) -> bool:
    """The decision has just been written."""
    return True


def draining(state: State, pods: list[Manifest]) -> bool:
    """The pod has lost its serving label, so the first turn of the drain is over."""
    return "drainStartedAt" in state and any(pod["metadata"]["labels"].get(names.LABEL_SERVING) == "false" for pod in pods)


def replacing_without_pod(state: State, pods: list[Manifest]) -> bool:
    """The template has changed and the old pod still ends."""
    return "replaceStartedAt" in state and not pods


def replacing_while_pod_loads(state: State, pods: list[Manifest]) -> bool:
    return "replaceStartedAt" in state and any(map(is_loading, pods))


def rolling_back(state: State, _: list[Manifest]) -> bool:
    return bool(state.get("rollingBack"))


async def decisions(scene: Scene) -> dict[str, str | None]:
    """When each slot was told to flip last."""
    return {slot: (await rollout_state(scene, slot)).get("decidedAt") for slot in SLOTS}


async def until_reached(scene: Scene, phase: Phase, before: dict[str, str | None], *, seconds: float = 40) -> tuple[str, State]:
    """Wait, looking often, until a slot with a decision that is not in `before` is in the phase; gives its name and state."""

    async def reached() -> tuple[str, State] | None:
        for slot in SLOTS:
            state = await rollout_state(scene, slot)
            if state.get("decidedAt") != before[slot] and phase(state, await slot_pods(scene, slot)):
                return slot, state
        return None

    return await eventually(reached, seconds=seconds, every_seconds=0.02)


async def flip_with_a_kill(scene: Scene, operators: Operators, operator: Operator, phase: Phase, *, mtp: int, batch: int) -> str:
    """Flip one slot, kill the operator in the phase, start another one; it must end this flip and begin none. Gives the slot."""
    before, old = await decisions(scene), flips(await scene.status())
    await scene.patch("chat", {"policy": {"pinned": {"mtp": mtp, "batch": batch}}})
    slot, at_kill = await until_reached(scene, phase, before)
    await operator.kill()
    await asyncio.sleep(DEAD_SECONDS)
    async with operators() as second:
        status = await until_mix(scene, mtp=mtp, batch=batch)
        await asyncio.sleep(QUIET_SECONDS)
        assert "turn failed" not in second.lines()
    assert (await scene.status())["history"] == status["history"]
    assert len(flips(status)) == len(old) + 1
    assert flips(status)[-1][2] == "Completed"
    assert await decisions(scene) == before | {slot: at_kill["decidedAt"]}
    return slot


@pytest.mark.parametrize(
    ("up", "back"),
    [(decided, replacing_without_pod), (draining, replacing_while_pod_loads)],
    ids=["just_decided_and_between_the_pods", "draining_and_while_the_pod_loads"],
)
async def test_operator_killed_when(scene: Scene, operators: Operators, up: Phase, back: Phase) -> None:
    async with operators() as first:
        await scene.apply(inference_service())
        await scene.until_ready()
        async with under_load(scene) as busy:
            slot = await flip_with_a_kill(scene, operators, first, up, mtp=1, batch=1)
            async with operators() as third:
                assert await flip_with_a_kill(scene, operators, third, back, mtp=2, batch=0) == slot
    assert flips(await scene.status()) == [("mtp", "batch", "Completed"), ("batch", "mtp", "Completed")]
    assert {name: len(created) for name, created in busy.pods.created.items()} == dict.fromkeys(SLOTS, 1) | {slot: 3}
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
            before = await decisions(scene)
            await scene.patch("chat", {"policy": {"pinned": {"mtp": 1, "batch": 1}}})
            slot, at_kill = await until_reached(scene, rolling_back, before)
            await first.kill()
            await asyncio.sleep(DEAD_SECONDS)
            async with operators():

                async def ended() -> bool:
                    slots = (await scene.status()).get("slots") or ()
                    state = await rollout_state(scene, slot)
                    return not state.get("rollingBack") and all(slot["phase"] == "Serving" for slot in slots)

                await eventually(ended, seconds=40)
                await asyncio.sleep(QUIET_SECONDS)
                status = await scene.status()
    assert flips(status) == [("mtp", "batch", "RolledBack")]
    state = await rollout_state(scene, slot)
    assert {key: state[key] for key in ("decidedAt", "failedAt", "failedDigest", "failures")} == {
        key: at_kill[key] for key in ("decidedAt", "failedAt", "failedDigest", "failures")
    }
    assert [slot["mode"] for slot in status["slots"]] == ["mtp", "mtp"]
    assert len(busy.pods.created[slot]) == 3  # the first, the one that was never ready, the one that serves again
    assert busy.pods.gpus_peak == 8
