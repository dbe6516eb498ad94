"""What status tells of the curves: which profile, why, and what is missing."""

from dataclasses import replace

import pytest

from mtpilot.api.conditions import ConditionStatus
from mtpilot.api.status import ConditionType, InferenceServiceStatus, Loop, LoopStatus, ProfileInUseStatus
from mtpilot.api.throughput_profile import Bound, Verdict
from mtpilot.model.decision import Mix, MixCost, Outlook
from mtpilot.model.reasons import Reason
from mtpilot.reconcile import prediction, status
from tests import profiles
from tests.unit.reconcile.lives import condition, settled
from tests.world import START, World, spec


def test_a_profile_in_use():
    world = settled(World(profiles=(profiles.profile(provenance={"engine": "sglang 0.5.19"}),)))
    told = condition(world, ConditionType.CALIBRATED)
    assert (told.status, told.reason) == (ConditionStatus.TRUE, Reason.PROFILE_IN_USE)
    assert told.message.startswith(
        "measured (the only one for this model on rtx): 1000 tokens of context, Synthetic acceptance, accept length 2.00, batch is "
        "better above 36 requests at one replica (bound by slots), verdict Flip; "
    )
    remedy = "mtp is short of slots: raise --max-running-requests above 24, as far as memory allows; a flip comes second"
    assert told.message.endswith(f"measured with sglang 0.5.19, the image has 0.5.23; {remedy}")
    found = world.status.profile
    assert found is not None
    assert (found.name, found.context_bucket, found.bound, found.verdict) == ("measured", 1000, Bound.SLOTS, Verdict.FLIP)
    assert 30 < float(found.crossover or 0) < 42
    assert found.message == "the only one for this model on rtx; measured with sglang 0.5.19, the image has 0.5.23"
    assert found.first_remedy == remedy


def test_no_profile_is_told_with_the_command_that_makes_one():
    world = settled()
    told = condition(world, ConditionType.CALIBRATED)
    assert (told.status, told.reason) == (ConditionStatus.FALSE, Reason.UNCALIBRATED)
    assert "`mtpilot profile fit points.csv -o profile.yaml`" in told.message
    assert "two thresholds on demand decide" in told.message
    assert world.status.profile is not None
    assert world.status.profile.name is None


def test_memory_that_binds_has_another_remedy_than_a_limit_that_does():
    asked = spec(modes={"mtp": {"maxRunningRequests": 48}, "batch": {"maxRunningRequests": 68}})
    found = settled(World(spec=asked, profiles=(profiles.profile(),))).status.profile
    assert found is not None
    assert found.first_remedy is not None
    assert found.first_remedy.startswith("mtp is short of slots: memory for 24 of the 48 requests asked for; first remedy: ")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "--mamba-ssm-dtype bfloat16"),
        (("--mamba-ssm-dtype", "bfloat16"), "--mamba-radix-cache-strategy extra_buffer_lazy"),
        (("--mamba-ssm-dtype=bfloat16", "--mamba-radix-cache-strategy", "extra_buffer_lazy"), "3 draft tokens instead of 4 (numSteps 2)"),
    ],
)
def test_a_flag_that_is_given_is_no_remedy(args: tuple[str, ...], words: str):
    asked = spec(modes={"mtp": {"maxRunningRequests": 48, "extraArgs": args}, "batch": {"maxRunningRequests": 68}})
    found = settled(World(spec=asked, profiles=(profiles.profile(),))).status.profile
    assert found is not None
    assert f"first remedy: {words}; a flip comes second" in (found.first_remedy or "")


@pytest.mark.parametrize(
    ("state_slots", "args", "words"),
    [
        (0.0, (), "KV tokens for 24 of the 48 requests asked for; first remedy: --kv-cache-dtype fp8_e4m3; a flip comes second"),
        (0.0, ("--mamba-ssm-dtype", "bfloat16"), "first remedy: --kv-cache-dtype fp8_e4m3; a flip comes second"),
        (0.0, ("--kv-cache-dtype", "fp8_e4m3"), None),
        (None, (), "the engine's start log says whether KV tokens or recurrent states are short; a flip comes second"),
        (None, ("--mamba-ssm-dtype", "bfloat16"), "first remedy: --mamba-radix-cache-strategy extra_buffer_lazy; a flip comes second"),
    ],
)
def test_a_model_without_recurrent_states_is_not_told_to_shrink_them(state_slots: float | None, args: tuple[str, ...], words: str | None):
    asked = spec(modes={"mtp": {"maxRunningRequests": 48, "extraArgs": args}, "batch": {"maxRunningRequests": 68}})
    found = settled(World(spec=asked, profiles=(profiles.profile(),), state_slots=state_slots)).status.profile
    assert found is not None
    assert words in found.first_remedy if words and found.first_remedy else found.first_remedy is words


def test_without_a_profile_a_full_mtp_replica_shows_that_slots_bind():
    world = settled()
    assert (world.status.profile or ProfileInUseStatus()).first_remedy is None
    world.demand = 8000.0
    world.run(60)
    found = world.status.profile
    assert found is not None
    assert found.first_remedy is not None
    assert "raise --max-running-requests above 24" in condition(world, ConditionType.CALIBRATED).message


def test_a_profile_that_no_longer_holds():
    world = settled(World(profiles=(profiles.profile(),)))
    drifted = {"mtp_level": "0.7", "mtp_level_weight": "0.9", "drift_seconds": 3600}
    world.memory = world.status.policy.model_copy(update=drifted)
    world.tick()
    told = condition(world, ConditionType.CALIBRATED)
    assert (told.status, told.reason) == (ConditionStatus.FALSE, Reason.PROFILE_DRIFT)
    assert "mtp replicas have long produced over 15% less than it says" in told.message


def test_what_was_seen_with_a_profile_and_a_template_goes_with_them():
    world = settled(World(profiles=(profiles.profile(),)))
    seen = {"mtp_level": "0.7", "mtp_level_weight": "0.9", "drift_seconds": 3600, "batch_slots": 40}
    world.memory = world.status.policy.model_copy(update=seen)
    world.profiles = (profiles.profile(curves=profiles.curves(scale=1.1)),)
    after = world.tick().status.policy
    assert (after.drift_seconds, after.batch_slots) == (0, 40)
    assert condition(world, ConditionType.CALIBRATED).reason == Reason.PROFILE_IN_USE
    world.spec = spec(modes={"mtp": {"maxRunningRequests": 24}, "batch": {"maxRunningRequests": 68, "memFractionStatic": "0.9"}})
    assert world.tick().status.policy.batch_slots is None


def test_a_profile_that_comes_is_told_at_once_and_once():
    world = settled()
    world.run(60)
    writes = world.writes
    world.profiles = (profiles.profile(),)
    world.run(1)
    assert world.writes == writes + 2, "the status, and the limit that the gateway is told"
    assert condition(world, ConditionType.CALIBRATED).status is ConditionStatus.TRUE
    world.run(120)
    assert world.writes == writes + 2


def test_a_profile_that_is_broken():
    world = settled(World(profiles=(profiles.profile(curves=profiles.curves()[:1]),), spec=spec(profile={"name": "measured"})))
    told = condition(world, ConditionType.CALIBRATED)
    assert (told.status, told.reason) == (ConditionStatus.FALSE, Reason.PROFILE_INVALID)
    assert told.message.startswith("ThroughputProfile measured cannot be used: ")


OUTLOOK = Outlook(
    horizon_seconds=3600.0,
    demand_tokens_per_second=4321.0,
    queued=3.0,
    in_system=71.0,
    loop=Loop.OPEN,
    loop_confidence=0.934,
    staying=MixCost(mix=Mix(mtp=3, batch=1), request_minutes=2114.4),
    moves=(
        MixCost(mix=Mix(mtp=4, batch=0), request_minutes=5021.0, feasible=False),
        MixCost(mix=Mix(mtp=2, batch=2), request_minutes=1688.0),
    ),
    price_of_return=412.2,
    best=Mix(mtp=2, batch=2),
    draws_better=0.97,
    batch_above_tokens_per_second=4234.0,
)


def test_an_outlook_as_status_has_it():
    found = prediction.outlook_seen(OUTLOOK)
    assert found is not None
    assert found.model_dump(mode="json", by_alias=True, exclude_none=True) == {
        "horizon": "1h",
        "staying": {"mix": {"mtp": 3, "batch": 1}, "requestMinutes": "2100", "feasible": True},
        "moves": [
            {"mix": {"mtp": 4, "batch": 0}, "requestMinutes": "5000", "feasible": False},
            {"mix": {"mtp": 2, "batch": 2}, "requestMinutes": "1700", "feasible": True},
        ],
        "priceOfReturn": "410",
        "best": {"mtp": 2, "batch": 2},
        "drawsBetter": "0.97",
        "batchAboveTokensPerSecond": "4200",
    }
    assert prediction.loop_seen(OUTLOOK) == LoopStatus(kind=Loop.OPEN, confidence="0.93")
    assert (prediction.outlook_seen(None), prediction.loop_seen(None)) == (None, None)


def seen(outlook: Outlook, before: InferenceServiceStatus) -> InferenceServiceStatus:
    found = prediction.outlook_seen(outlook)
    decision = before.decision.model_copy(update={"outlook": found}) if before.decision else None
    flip = before.flip.model_copy(update={"price_of_return": found.price_of_return if found else None})
    return before.model_copy(update={"decision": decision, "loop": prediction.loop_seen(outlook), "flip": flip})


def test_a_forecast_that_moves_alone_is_not_worth_a_write():
    old = seen(OUTLOOK, settled().status)
    other = replace(OUTLOOK, staying=replace(OUTLOOK.staying, request_minutes=9000.0), price_of_return=30.0, loop_confidence=0.6)
    assert not status.worth_a_write(old, seen(other, old), START)


def test_a_kind_of_load_is_told_at_once_when_it_is_sure_and_once():
    old = seen(OUTLOOK, settled().status)
    unsure = seen(replace(OUTLOOK, loop=Loop.CLOSED, loop_confidence=0.6), old)
    sure = seen(replace(OUTLOOK, loop=Loop.CLOSED, loop_confidence=0.8), old)
    surer = seen(replace(OUTLOOK, loop=Loop.CLOSED, loop_confidence=0.99), old)
    pairs = [(old, unsure), (old, sure), (unsure, sure), (sure, surer), (sure, unsure), (sure, old)]
    assert [status.worth_a_write(before, after, START) for before, after in pairs] == [False, True, True, False, False, True]


def test_a_steady_load_by_a_profile_writes_nothing():
    world = settled(World(profiles=(profiles.profile(),)))
    world.demand = 3000.0
    world.run(600, period=5)  # until averages have followed
    assert world.status.decision is not None
    assert world.status.decision.reason == Reason.STAYING_IS_CHEAPER
    assert world.status.decision.outlook is not None
    before = world.writes
    world.run(600, period=5)
    assert world.writes == before
