"""A snapshot survives its file."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from mtpilot.adapters.kube.gather import _pods, _slots_and_children, service_from_object
from mtpilot.adapters.kube.profiles import profile_from_object
from mtpilot.adapters.snapshot_file import dump_snapshot, parse_snapshot
from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.status import PolicyState
from mtpilot.model.metrics import GatewayMetrics, MetricsView, PodMetrics
from mtpilot.model.slots import EngineLoad
from mtpilot.model.snapshot import Conflict, HardwareView, Profile, Snapshot
from mtpilot.reconcile import plan

from .kube.live import deployment, inference_service, pod, replica_set
from .kube.test_profiles import profile

NOW = datetime(2026, 12, 1, 13, tzinfo=UTC)


@pytest.fixture
def snapshot() -> Snapshot:
    service = service_from_object(inference_service())
    sets = [replica_set(1, "0123456789ab")]
    slots, children = _slots_and_children([deployment(), deployment("chat-gateway")], sets, service)
    hardware = HardwareClassSpec.model_validate({"gpu": {"perReplica": 4, "memory": "96Gi"}})
    (found,) = _pods([pod()], sets, slots)
    return Snapshot(
        service=service,
        hardware=HardwareView(name="rtx", spec=hardware, nodes=1, gpus_total=8, gpus_free=4),
        slots=slots,
        pods=(found,),
        children=children,
        conflicts=(Conflict(kind="Service", name="chat"),),
        profiles=(profile_from_object(profile()), Profile(name="odd", generation=1, spec=None, problem="spec.acceptance: odd")),
        engines={found.uid: EngineLoad(running=3, waiting=1, effective_max_running_requests=24)},
        metrics=MetricsView(
            window_seconds=30,
            scrape_interval_seconds=5,
            pods={found.uid: PodMetrics(age_seconds=1.5, running=3)},
            gateway=GatewayMetrics(age_seconds=2, queued=0),
        ),
        taken_at=NOW,
        memory=PolicyState(smoothed_tokens_per_second="12.5"),
    )


def test_equal_after_a_round_trip(snapshot: Snapshot) -> None:
    assert parse_snapshot(dump_snapshot(snapshot)) == snapshot


def test_the_same_plan_from_the_file(snapshot: Snapshot) -> None:
    whole = replace(snapshot, conflicts=())
    assert plan(parse_snapshot(dump_snapshot(whole)), NOW) == plan(whole, NOW)


def test_camel_case_for_api_types(snapshot: Snapshot) -> None:
    text = dump_snapshot(snapshot)
    assert "maxRunningRequests: 24" in text


@pytest.mark.parametrize("text", ["", "a: [", "service: {}", "42"])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a snapshot"):
        parse_snapshot(text)
