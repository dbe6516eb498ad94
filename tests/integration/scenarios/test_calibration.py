"""The operator measures both modes on one of two replicas while the other serves."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from mtpilot.bench.keeping import RECORDS_KEY, unpacked
from mtpilot.evidence.package import RECORDS
from mtpilot.evidence.records import BatchRecord, parse
from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Manifest, Scene
from tests.integration.scenarios.looks import set_faults, simulated
from tests.integration.scenarios.support import flips, under_load, until_mix
from tests.integration.support import eventually

Operators = Callable[..., AbstractAsyncContextManager[Operator]]
RUN = {"concurrency": [1, 2, 4], "outputTokens": 128, "repeats": 6}
POLICY = {"mode": "Auto", "stabilization": {"up": "1s", "down": "3s"}, "minDwell": "5s", "maxFlipsPerHour": 60}


def measured(**profile: Any) -> Manifest:
    """A service of two replicas without a profile; `ask` has it measured."""
    return simulated(time_scale=4, mtp_slots=8, policy=POLICY, profile={"run": RUN} | profile)


async def ask(scene: Scene) -> None:
    await scene.patch("chat", {"profile": {"calibration": "WhenMissing"}})


async def until(scene: Scene, look: Callable[[Manifest], Any], *, seconds: float) -> Manifest:
    """Wait until something is seen in `status.calibration`; gives it."""

    async def seen() -> Manifest | None:
        found: Manifest = (await scene.status()).get("calibration") or {}
        return found if look(found) else None

    try:
        return await eventually(seen, seconds=seconds, every_seconds=0.2)
    except AssertionError as error:
        raise AssertionError(f"{error}\ncalibration: {(await scene.status()).get('calibration')}") from None


def is_measuring(found: Manifest, mode: str, done: int = 1) -> bool:
    return (found.get("phase"), found.get("mode")) == ("Measuring", mode) and found.get("done", 0) >= done


async def kept(scene: Scene) -> list[BatchRecord]:
    """The batches in the ConfigMap."""
    found = await scene.get("configmaps", "chat-calibration")
    assert found is not None
    files = unpacked(base64.b64decode(found["binaryData"][RECORDS_KEY]))
    records = [parse(line) for line in files[RECORDS].decode().splitlines()]
    return [record for record in records if isinstance(record, BatchRecord)]


async def test_a_service_without_a_profile_is_measured_while_it_serves_and_then_decided_by_it(scene: Scene, operators: Operators) -> None:
    """The operator is killed in the middle, and goes on with what was measured."""
    async with operators("--rate-window", "4") as operator:
        await scene.apply(measured())
        await scene.until_ready()
        async with under_load(scene, clients=2, output_tokens=100, pause_seconds=0.5) as around:
            await ask(scene)
            away = await until(scene, lambda found: is_measuring(found, "mtp"), seconds=60)
            assert (await scene.condition("chat", "Calibrated"))["reason"] == "Calibrating"
            await operator.kill()
            await operator.start()
            await until(scene, lambda found: is_measuring(found, "batch"), seconds=90)
            await until(scene, lambda found: found.get("phase") == "Finished", seconds=120)
            status = await until_mix(scene, mtp=2, batch=0)
            assert around.pods.serving_least >= 1
            assert around.pods.gpus_peak <= 8
        assert flips(status) == []
        profile = await scene.get("throughputprofiles", "chat-calibrated")
        assert profile is not None
        assert {curve["mode"]: curve["slots"] for curve in profile["spec"]["curves"]} == {"mtp": 8, "batch": 32}

        async def in_use() -> bool:
            return (await scene.condition("chat", "Calibrated")).get("reason") == "ProfileInUse"

        await eventually(in_use, seconds=15)
        batches = await kept(scene)
        assert sorted((batch.mode, batch.concurrency) for batch in batches) == sorted(
            [("mtp", level) for level in (1, 2, 4, 8)] * 6 + [("batch", level) for level in (1, 2, 4, 32)] * 6
        )
        assert len({batch.run_id for batch in batches}) == 1
        assert away["slot"] == "chat-r1"


async def test_load_gives_the_slot_back_and_loses_nothing(scene: Scene, operators: Operators) -> None:
    async with operators("--rate-window", "4"):
        await scene.apply(measured(run=RUN | {"repeats": 12}))
        await scene.until_ready()
        await ask(scene)
        before = await until(scene, lambda found: is_measuring(found, "mtp", 3), seconds=60)
        async with under_load(scene, clients=12, output_tokens=300):
            given_back = await until(scene, lambda found: found.get("phase") == "Waiting", seconds=30)
            assert "given back" in given_back["message"]
            assert given_back["done"] >= before["done"]

            async def both_serve() -> bool:
                return [slot["phase"] for slot in (await scene.status())["slots"]] == ["Serving", "Serving"]

            await eventually(both_serve, seconds=10)
        again = await until(scene, lambda found: is_measuring(found, "mtp", given_back["done"]), seconds=90)
        assert again["pausedAt"] == given_back["pausedAt"]


async def test_an_engine_that_leaks_gives_no_profile(scene: Scene, operators: Operators) -> None:
    async with operators("--rate-window", "4"):
        await scene.apply(measured())
        await scene.until_ready()
        await set_faults(scene, {"rows": "swap"})
        await ask(scene)
        failed = await until(scene, lambda found: found.get("phase") == "Failed", seconds=90)
        assert "another request's marker" in failed["message"]
        await until_mix(scene, mtp=2, batch=0)
        condition = await scene.condition("chat", "Calibrated")
        assert (condition["status"], condition["reason"]) == ("False", "CalibrationFailed")
        assert await scene.all("throughputprofiles") == []
