"""A calibration from asking to profile, in the small world."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from mtpilot.api.conditions import ConditionStatus
from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import CalibrationPhase, ConditionType, SlotPhase
from mtpilot.model.measuring import RunProgress, RunState
from mtpilot.model.names import LABEL_SERVICE, LABEL_SLOT
from mtpilot.model.reasons import Reason
from mtpilot.render.calibration import render_job
from tests import profiles
from tests.measured_world import BATCHES, MeasuredWorld
from tests.unit.reconcile.lives import condition
from tests.world import spec

LIGHT = 600.0  # tokens/s: one full mtp replica does 1700


def asks(calibration: str = "WhenMissing", **changes: Any) -> InferenceServiceSpec:
    return spec(**{"replicas": 2, "profile": {"calibration": calibration}, **changes})


@cache
def _quiet() -> MeasuredWorld:
    world = MeasuredWorld(spec=asks("Never"))
    world.run(60, period=3)
    world.demand = LIGHT
    world.run(30, period=3)
    world.least_serving = 99
    return world


def quiet(asked: InferenceServiceSpec | None = None) -> MeasuredWorld:
    world: MeasuredWorld = _quiet().copy()
    world.spec = asked or asks()
    return world


def until(world: MeasuredWorld, phase: CalibrationPhase, mode: Mode | None = None, *, seconds: int = 600) -> None:
    for _ in range(seconds // 2):
        found = world.status.calibration
        if found is not None and found.phase is phase and mode in (None, found.mode):
            return
        world.step(2)
        world.tick()
    raise AssertionError(f"{world.status.calibration} is not {phase}")


def reasons(world: MeasuredWorld) -> list[str]:
    return [str(event.reason) for event in world.events if str(event.reason).startswith("Calibration")]


def test_both_modes_are_measured_on_one_replica_and_the_profile_is_used():
    world = quiet()
    until(world, CalibrationPhase.FINISHED)
    world.run(90)
    assert world.profiles[0].name == "chat-calibrated"
    assert world.status.profile is not None
    assert world.status.profile.name == "chat-calibrated"
    assert (world.serving(), world.modes()) == (2, (2, 0))
    assert (world.made, world.jobs, world.measured_batches) == (2, {}, 2 * BATCHES)
    assert (world.lost, world.disturbed, world.least_serving, world.most_pods) == (0, [], 1, 2)
    assert reasons(world) == [Reason.CALIBRATION_STARTED, Reason.CALIBRATION_FINISHED]
    assert all(slot.state is None or slot.state.calibration is None for slot in world.snapshot().slots)


def test_status_tells_how_far_it_is():
    world = quiet()
    until(world, CalibrationPhase.MEASURING, Mode.MTP)
    world.run(14)
    told = world.status.calibration
    assert told is not None
    assert (told.slot, told.mode, told.done, told.total, told.time_left) == ("chat-r1", Mode.MTP, 2, BATCHES, "20s")
    assert told.started_at is not None
    line = next(slot for slot in world.status.slots if slot.name == "chat-r1")
    assert line.phase is SlotPhase.CALIBRATING
    assert condition(world, ConditionType.MODE_SETTLED).reason == Reason.CALIBRATING
    assert condition(world, ConditionType.CALIBRATED).reason == Reason.CALIBRATING
    assert world.status.decision is not None
    assert world.status.decision.reason == Reason.CALIBRATING


def test_load_gives_the_slot_back_at_once_and_a_quiet_time_goes_on_with_it():
    world = quiet()
    until(world, CalibrationPhase.MEASURING, Mode.BATCH)
    world.run(16)
    done = world.measured_batches
    world.demand = 2600.0
    began = world.now
    until(world, CalibrationPhase.WAITING)
    assert (world.now - began).total_seconds() < 30
    assert (world.serving(), world.jobs) == (2, {})
    assert condition(world, ConditionType.CALIBRATED).reason == Reason.CALIBRATION_WAITS
    world.demand = LIGHT
    until(world, CalibrationPhase.FINISHED)
    assert done < 2 * BATCHES == world.measured_batches, "nothing is measured twice"
    world.run(90)
    assert (world.lost, world.disturbed, world.modes(), world.serving()) == (0, [], (2, 0), 2)
    assert reasons(world) == ["CalibrationStarted", "CalibrationPaused", "CalibrationStarted", "CalibrationFinished"]


def test_a_peer_that_fails_gives_the_slot_back():
    world = quiet()
    until(world, CalibrationPhase.MEASURING)
    pod = next(pod for pod in world.pods.values() if pod.slot == "chat-r0")
    world.pods[pod.uid] = replace(pod, ready=False)
    world.engines[pod.uid].ready_at = None
    world.run(3)
    assert world.serving() == 1
    assert world.status.calibration is not None
    assert "chat-r0 does not serve" in world.status.calibration.message


def test_a_leaking_engine_gives_no_profile_and_is_not_measured_again():
    world = quiet()
    world.ends = lambda mode: RunProgress(
        state=RunState.FAILED, done=BATCHES, total=BATCHES, message="3 of 90 answers have another's marker"
    )
    until(world, CalibrationPhase.FAILED)
    world.run(120)
    found = condition(world, ConditionType.CALIBRATED)
    assert (found.status, found.reason) == (ConditionStatus.FALSE, Reason.CALIBRATION_FAILED)
    assert "another's marker" in found.message
    assert (world.profiles, world.made, world.jobs, world.serving(), world.modes()) == ((), 1, {}, 2, (2, 0))


def test_another_request_measures_again():
    world = quiet(asks("Requested", profile={"calibration": "Requested", "requestId": "one"}))
    world.ends = lambda mode: RunProgress(state=RunState.FAILED, message="leaked")
    until(world, CalibrationPhase.FAILED)
    world.ends = MeasuredWorld.ends
    world.spec = asks("Requested", profile={"calibration": "Requested", "requestId": "two"})
    until(world, CalibrationPhase.FINISHED)
    assert world.status.calibration is not None
    assert (world.status.calibration.request_id, len(world.profiles)) == ("two", 1)
    world.run(60)
    assert world.made == 3, "one that has ended is not made again"


def test_never_ends_it_at_once():
    world = quiet()
    until(world, CalibrationPhase.MEASURING, Mode.BATCH)
    world.spec = asks("Never")
    world.run(90)
    assert (world.status.calibration, world.jobs, world.profiles) == (None, {}, ())
    assert (world.serving(), world.modes(), world.lost) == (2, (2, 0), 0)


def test_a_mode_that_never_starts_fails_it():
    world = quiet()
    world.broken = lambda digest, mode: mode is Mode.BATCH
    until(world, CalibrationPhase.FAILED)
    world.run(60)
    assert (world.serving(), world.modes(), world.profiles) == (2, (2, 0), ())


def test_a_job_that_never_starts_gives_the_slot_back():
    world = quiet()
    world.batch_seconds = 10_000.0
    until(world, CalibrationPhase.MEASURING)
    world.run(330, period=5)
    assert world.status.calibration is not None
    assert world.status.calibration.phase is CalibrationPhase.FAILED
    assert "could not be made or started" in world.status.calibration.message
    assert (world.serving(), world.jobs) == (2, {})


@pytest.mark.parametrize(
    ("changes", "demand", "words"),
    [
        ({"replicas": 1}, LIGHT, "a second replica is needed"),
        ({}, 2600.0, "more than 50%"),
    ],
)
def test_it_waits_and_says_for_what(changes: dict[str, Any], demand: float, words: str):
    world = MeasuredWorld(spec=asks(**changes), demand=demand)
    world.run(120, period=3)
    assert world.status.calibration is not None
    assert world.status.calibration.phase is CalibrationPhase.WAITING
    assert words in world.status.calibration.message
    assert world.made == 0


def test_a_profile_of_somebody_else_is_left_alone():
    world = quiet(asks("Requested", profile={"calibration": "Requested", "requestId": "one", "name": "mine"}))
    world.profiles = (profiles.profile("mine"),)
    world.run(60)
    assert world.status.calibration is not None
    assert "is not ours" in world.status.calibration.message
    assert (world.made, world.profiles) == (0, (profiles.profile("mine"),))


def test_without_a_profile_nothing_moves_until_it_is_measured():
    world = quiet()
    world.demand = 4000.0
    world.run(200, period=2)
    assert world.modes() == (2, 0)
    assert world.status.decision is not None
    assert world.status.decision.reason == Reason.RECOMMEND_ONLY


def test_a_change_of_the_spec_goes_before():
    world = quiet()
    until(world, CalibrationPhase.MEASURING)
    world.spec = asks(engine={"image": "sglang:other"})
    world.generation += 1
    until(world, CalibrationPhase.FINISHED)
    world.run(60)
    images = {found.manifest["spec"]["template"]["spec"]["containers"][0]["image"] for found in world.deployments.values()}
    assert (images, world.serving(), world.lost) == ({"sglang:other"}, 2, 0)


def test_a_job_is_told_what_to_measure():
    world = quiet(asks(profile={"calibration": "WhenMissing", "run": {"concurrency": [8, 1], "repeats": 2, "recordsClaim": "evidence"}}))
    until(world, CalibrationPhase.MEASURING)
    snapshot = world.snapshot()
    assert snapshot.hardware is not None
    slot = next(slot for slot in snapshot.slots if slot.name == "chat-r1")
    pod = next(pod for pod in snapshot.pods if pod.slot == "chat-r1")
    job = render_job(snapshot.service, snapshot.hardware, snapshot.images, run="one/two", slot=slot, pod=pod)
    container = job["spec"]["template"]["spec"]["containers"][0]
    arguments = " ".join(container["args"])
    assert arguments.startswith("bench mtp=http://127.1.0.1:30000 --out /evidence/team-a-chat-one-two --keep-in chat-calibration")
    assert "--concurrency 1,8,cap" in arguments
    assert "--repeats 2" in arguments
    assert job["metadata"]["labels"][LABEL_SLOT] == "chat-r1"
    assert job["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "evidence"}
    assert "nvidia.com/gpu" not in str(job)
    assert LABEL_SERVICE not in job["spec"]["template"]["metadata"]["labels"], "the gateway would take it for an engine"
