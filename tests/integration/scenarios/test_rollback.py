"""Templates that do not work: put aside at the deadline, tried again only after the back-off or a change, replaced at once."""

from __future__ import annotations

import asyncio
import json
import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Manifest, Scene, inference_service
from tests.integration.scenarios.support import changed_environment, flips, rollout_state, slot_pods, under_load, until_mix
from tests.integration.support import eventually

READY_TIMEOUT_SECONDS = 7
BACK_OFF_SECONDS = 16  # policy.minDwell where that is longer than readyTimeout
SLOTS = ("chat-r0", "chat-r1")


def failing_service(**environment: str) -> Manifest:
    service = inference_service()
    spec = service["spec"]
    spec["rollout"]["readyTimeout"] = f"{READY_TIMEOUT_SECONDS}s"
    spec["policy"]["minDwell"] = f"{BACK_OFF_SECONDS}s"
    spec["engine"]["env"] = changed_environment(service, **environment)
    return service


async def rolled_back(scene: Scene) -> dict[str, Any] | None:
    """The state of the slot that has failed once and serves again."""
    phases = {line["name"]: line["phase"] for line in (await scene.status())["slots"]}
    for slot in SLOTS:
        state = await rollout_state(scene, slot)
        if state.get("failures") == 1 and not state.get("rollingBack") and phases.get(slot) == "Serving":
            return state
    return None


async def decided_after(scene: Scene, first: str) -> str | None:
    """When a slot was told to flip later than at `first`."""
    decided = [(await rollout_state(scene, slot)).get("decidedAt") for slot in SLOTS]
    return next((at for at in decided if at is not None and at > first), None)


async def test_mode_that_is_never_ready_rolls_back_and_waits_for_back_off_or_change(scene: Scene, operator: Operator) -> None:
    service = failing_service(SGLANG_SIM_NEVER_READY="batch")
    await scene.apply(service)
    await scene.until_ready()
    async with under_load(scene) as busy:
        await scene.patch("chat", {"policy": {"pinned": {"mtp": 1, "batch": 1}}})
        first = await eventually(lambda: rolled_back(scene), seconds=50)
        condition = await scene.condition("chat", "Degraded")
        assert (condition["status"], condition["reason"]) == ("True", "RolledBack")
        assert first["failedDigest"] in condition["message"]
        assert flips(await scene.status()) == [("mtp", "batch", "RolledBack")]
        waited = datetime.fromisoformat(first["failedAt"]) - datetime.fromisoformat(first["decidedAt"])
        assert waited.total_seconds() >= READY_TIMEOUT_SECONDS

        again = await eventually(lambda: decided_after(scene, first["decidedAt"]), seconds=30)
        waited = datetime.fromisoformat(again) - datetime.fromisoformat(first["failedAt"])
        assert BACK_OFF_SECONDS <= waited.total_seconds() < BACK_OFF_SECONDS + 15

        await scene.patch("chat", {"engine": {"env": changed_environment(service, SGLANG_SIM_NEVER_READY=None)}})
        status = await until_mix(scene, mtp=1, batch=1)
    assert [entry[2] for entry in flips(status)] == ["RolledBack", "Completed"]
    assert (await scene.condition("chat", "Degraded"))["status"] == "False"
    assert busy.pods.gpus_peak == 8
    assert busy.pods.serving_least == 1


def kill_engine(pod: str) -> None:
    """End a pod's engine as a crash does; only processes that this one has started are looked at."""
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            environment = process.environ()
            is_engine = any("sglang-sim" in part for part in process.cmdline())
        except psutil.Error:
            continue
        if is_engine and environment.get("POD_NAME", environment.get("HOSTNAME")) == pod:
            process.kill()
            return
    raise AssertionError(f"no engine process of {pod}")


async def test_crash_looping_pod_is_replaced_without_a_drain(scene: Scene, operator: Operator, tmp_path: Path) -> None:
    faults = tmp_path / "faults.json"
    faults.write_text("{}")
    service = inference_service(rollout={"drainTimeout": "2m", "readyTimeout": "2m"})
    service["spec"]["engine"]["env"] = changed_environment(service, SGLANG_SIM_FAULT_FILE=str(faults))
    await scene.apply(service)
    await scene.until_ready()
    (broken,) = await slot_pods(scene, "chat-r0")
    faults.write_text(json.dumps({"crash_on_start": ["mtp"]}))
    kill_engine(broken["metadata"]["name"])

    async def looping() -> bool:
        condition = await scene.condition("chat", "Degraded")
        return (condition["status"], condition["reason"]) == ("True", "CrashLoop")

    await eventually(looping, seconds=40)
    assert {slot["name"]: slot["phase"] for slot in (await scene.status())["slots"]} == {"chat-r0": "Broken", "chat-r1": "Serving"}

    async with under_load(scene, clients=3) as busy:
        corrected = time.monotonic()
        await scene.patch("chat", {"engine": {"env": changed_environment(service, SGLANG_SIM_FAULT_FILE=None)}})

        async def healed() -> bool:
            pods = await slot_pods(scene, "chat-r0")
            line = next(line for line in (await scene.status())["slots"] if line["name"] == "chat-r0")
            return line["phase"] == "Serving" and [pod["metadata"]["name"] for pod in pods] != [broken["metadata"]["name"]]

        await eventually(healed, seconds=40)
        took = time.monotonic() - corrected
        await until_mix(scene, mtp=2, batch=0)  # the other slot follows, with a drain
    assert took < 60, f"{took:.0f} s, drainTimeout is 120 s"
    drained = {event["message"].split(":")[0] for event in await scene.events("DrainStarted")}
    assert drained == {"chat-r1"}
    assert busy.pods.serving_least == 1


async def test_first_spec_that_crashes_is_corrected_in_all_slots_at_once(scene: Scene, operator: Operator) -> None:
    service = inference_service(rollout={"drainTimeout": "2m", "readyTimeout": "2m"})
    service["spec"]["engine"]["env"] = changed_environment(service, SGLANG_SIM_CRASH_ON_START="mtp")
    await scene.apply(service)

    async def all_broken() -> bool:
        return [slot["phase"] for slot in (await scene.status()).get("slots") or ()] == ["Broken", "Broken"]

    await eventually(all_broken, seconds=40)
    corrected = time.monotonic()
    await scene.patch("chat", {"engine": {"env": changed_environment(service, SGLANG_SIM_CRASH_ON_START=None)}})
    await scene.until_ready()
    took = time.monotonic() - corrected
    assert took < 60, f"{took:.0f} s, drainTimeout is 120 s"
    assert not await scene.events("DrainStarted")


async def test_bad_image_stops_at_the_first_slot_and_rolls_back(scene: Scene, operator: Operator) -> None:
    service = failing_service()
    await scene.apply(service)
    await scene.until_ready()
    before = {slot: (await rollout_state(scene, slot))["servedDigest"] for slot in ("chat-r0", "chat-r1")}
    (untouched,) = await slot_pods(scene, "chat-r1")
    template = ((await scene.get("deployments", "chat-r0")) or {})["spec"]["template"]
    async with under_load(scene) as busy:
        await scene.patch("chat", {"engine": {"image": "nowhere.invalid/sglang:typo"}, "policy": {"minDwell": "60s"}})

        async def said() -> bool:
            condition = await scene.condition("chat", "Degraded")
            return condition["reason"] == "ImagePullFailed" and "chat-r0" in condition["message"]

        await eventually(said, seconds=30)
        state = await eventually(lambda: rolled_back(scene), seconds=40)
        await asyncio.sleep(4)  # several turns: no other slot may begin
    assert state["servedDigest"] == before["chat-r0"]
    assert ((await scene.get("deployments", "chat-r0")) or {})["spec"]["template"] == template
    assert [pod["metadata"]["uid"] for pod in await slot_pods(scene, "chat-r1")] == [untouched["metadata"]["uid"]]
    assert (await scene.condition("chat", "Degraded"))["reason"] == "RolledBack"
    assert busy.pods.serving_least == 1
    assert busy.pods.gpus_peak == 8
    assert len(busy.pods.created["chat-r0"]) == 3
