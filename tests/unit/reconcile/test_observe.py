"""What the policy is told of the fleet: how long a flip takes, and where the last one went."""

from dataclasses import replace
from datetime import timedelta

import pytest

from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import Mode
from mtpilot.api.status import HistoryEntry, InferenceServiceStatus
from mtpilot.model.slots import RolloutState
from mtpilot.model.snapshot import Snapshot
from mtpilot.reconcile.history import timestamp
from mtpilot.reconcile.observe import expected_flip_seconds, last_move
from tests.unit.reconcile.lives import settled
from tests.world import START, World, hardware, spec


def flip(minutes_ago: float, to: Mode, seconds: int | None = None) -> HistoryEntry:
    return HistoryEntry.model_validate(
        {
            "at": timestamp(START - timedelta(minutes=minutes_ago)),
            "slot": "chat-r0",
            "from": to.other,
            "to": to,
            "outcome": "Completed" if seconds else "Started",
            "reason": "RequestsQueued",
            "seconds": seconds,
        }
    )


def with_history(*entries: HistoryEntry) -> Snapshot:
    return World(status=InferenceServiceStatus(history=entries)).snapshot()


@pytest.mark.parametrize(
    ("expected", "output_tokens", "drain_timeout", "seconds"),
    [("4m", 1000, "10m", 240 + 30), ("90s", 1000, "10s", 90 + 10), ("4m", 100, "10m", 240 + 3)],
)
def test_a_flip_that_was_never_seen_lasts_a_drain_and_a_start(expected: str, output_tokens: int, drain_timeout: str, seconds: float):
    engine = {"gpu": {"perReplica": 4, "memory": "96Gi"}, "engine": {"startup": {"expected": expected}}}
    world = World(
        spec=spec(workload={"outputTokens": output_tokens}, rollout={"drainTimeout": drain_timeout}),
        hardware=hardware(spec=HardwareClassSpec.model_validate(engine)),
    )
    assert expected_flip_seconds(world.snapshot()) == pytest.approx(seconds)


def test_flips_that_were_seen_are_believed():
    assert expected_flip_seconds(with_history(flip(30, Mode.BATCH, 100), flip(20, Mode.MTP, 300), flip(10, Mode.BATCH, 120))) == 120


def test_the_last_move_and_its_direction():
    assert last_move(World().snapshot()) == (None, None)
    assert last_move(with_history(flip(20, Mode.MTP), flip(10, Mode.BATCH))) == (START - timedelta(minutes=10), Mode.BATCH)


def test_a_move_that_stands_on_a_slot_is_not_forgotten_with_the_status():
    seen = settled().snapshot()
    ended = START + timedelta(minutes=5)
    state = RolloutState(desired_mode=Mode.MTP, from_mode=Mode.BATCH, decided_at=START, completed_at=ended)
    slots = (replace(seen.slots[0], state=state), *seen.slots[1:])
    assert last_move(replace(seen, slots=slots)) == (ended, Mode.MTP)
