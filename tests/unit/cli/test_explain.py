"""`mtpilot explain`: plain words from a status."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from mtpilot.adapters.kube.gather import service_from_object
from mtpilot.cli.explain import explanation, numbers
from tests.unit.adapters.kube.live import inference_service

NOW = datetime(2026, 12, 1, 12, 10, tzinfo=UTC)
AT = "2026-12-01T12:00:00Z"

STATUS: dict[str, Any] = {
    "observedGeneration": 3,
    "mix": {"mtp": 3, "batch": 1},
    "recommended": {"mtp": 2, "batch": 2},
    "summary": {"mix": "3 mtp / 1 batch", "ready": "3/4"},
    "demand": {"outputTokensPerSecond": "4310", "inFlight": 71, "queued": 3, "acceptLength": "1.82"},
    "decision": {
        "reason": "MinDwell",
        "message": "the last move was 4 min ago",
        "at": AT,
        "wouldChange": "a move is possible from 12:16:00Z",
    },
    "slots": [
        {"name": "chat-r0", "mode": "mtp", "phase": "Serving"},
        {
            "name": "chat-r3",
            "mode": "mtp",
            "desiredMode": "batch",
            "phase": "Draining",
            "since": AT,
            "deadline": "2026-12-01T12:20:00Z",
            "message": "waits for 3 requests in flight",
        },
    ],
    "conditions": [
        {"type": "Ready", "status": "False", "reason": "SomeSlotsServe", "message": "3 of 4", "lastTransitionTime": AT},
        {"type": "MetricsAvailable", "status": "True", "reason": "MetricsFresh", "lastTransitionTime": AT},
        {"type": "Calibrated", "status": "False", "reason": "Uncalibrated", "lastTransitionTime": AT},
        {"type": "Degraded", "status": "True", "reason": "CrashLoop", "message": "chat-r2", "lastTransitionTime": AT},
    ],
    "history": [
        {"at": AT, "slot": "chat-r2", "from": "mtp", "to": "batch", "outcome": "Completed", "reason": "RequestsQueued", "seconds": 221}
    ],
}


def explain(**status: Any) -> dict[str, list[str]]:
    return explanation(service_from_object(inference_service() | {"status": status}), NOW)


def test_all_sections() -> None:
    found = explain(**STATUS)
    assert found["now"] == [
        "3 mtp / 1 batch; 3/4 ready.",
        "Recommended: 2 mtp / 2 batch.",
        "Policy mode Auto.",
        "Load: 4310 output tokens/s, 71 in flight, 3 queued, accept length 1.82.",
    ]
    assert found["why"] == ["MinDwell: the last move was 4 min ago. Since 12:00:00Z (10 min 0 s ago)."]
    assert found["would change it"] == ["a move is possible from 12:16:00Z"]
    assert found["waits for"] == [
        "chat-r3 (mtp, on its way to batch) is Draining since 12:00:00Z (10 min 0 s ago): "
        "waits for 3 requests in flight; deadline in 10 min 0 s"
    ]
    assert found["troubles"] == [
        "Ready=False (SomeSlotsServe) since 12:00:00Z (10 min 0 s ago): 3 of 4",
        "Degraded=True (CrashLoop) since 12:00:00Z (10 min 0 s ago): chat-r2",
    ]
    assert found["recently"] == ["12:00:00Z (10 min 0 s ago): chat-r2 mtp → batch, completed after 221s (RequestsQueued)"]


def test_what_is_unknown_is_a_trouble_and_what_waits_for_a_profile_is_none() -> None:
    unknown = [
        {"type": kind, "status": "Unknown", "reason": "HardwareClassMissing", "message": "no class", "lastTransitionTime": AT}
        for kind in ("CapacityAvailable", "Calibrated", "Degraded")
    ]
    found = explain(**{**STATUS, "conditions": unknown})
    assert found["troubles"] == ["CapacityAvailable=Unknown (HardwareClassMissing) since 12:00:00Z (10 min 0 s ago): no class"]


def test_how_flips_ended() -> None:
    flip = {"at": AT, "slot": "chat-r2", "from": "mtp", "to": "batch", "reason": "RequestsQueued"}
    history = [{**flip, "outcome": outcome} for outcome in ("Started", "RolledBack")]
    assert [line.partition(": ")[2] for line in explain(**{**STATUS, "history": history})["recently"]] == [
        "chat-r2 mtp → batch, under way (RequestsQueued)",
        "chat-r2 mtp → batch, rolled back (RequestsQueued)",
    ]


def test_a_service_that_nobody_looked_at() -> None:
    assert explain() == {"now": ["The operator has not looked at this service yet. Is it running, and does it serve this namespace?"]}


def test_numbers_of_the_load_have_their_time() -> None:
    """They are written once a minute at most: a load that has just ended must not look like one that goes on."""
    found = explain(**{**STATUS, "policy": {"observedAt": "2026-12-01T12:09:20Z"}})
    assert "Load at 12:09:20Z (40 s ago): 4310 output tokens/s, 71 in flight, 3 queued, accept length 1.82." in found["now"]


def test_a_pinned_mix_does_not_wait_for_a_load() -> None:
    service = inference_service() | {"status": outlook()}
    service["spec"] = service["spec"] | {"policy": {"mode": "Pinned", "pinned": {"mtp": 3, "batch": 1}}}
    assert explanation(service_from_object(service), NOW)["would change it"] == ["a move is possible from 12:16:00Z"]


def test_a_spec_that_is_newer_than_the_status() -> None:
    found = explain(**{**STATUS, "observedGeneration": 2})
    assert "The spec changed (generation 3); the operator has seen 2." in found["now"]


def test_nothing_empty_is_shown() -> None:
    quiet = {"observedGeneration": 3, "summary": {"mix": "2 mtp / 0 batch", "ready": "2/2"}, "decision": {"reason": "Steady"}}
    assert set(explain(**quiet)) == {"now", "why"}


def test_a_deadline_that_has_passed() -> None:
    slot = {"name": "chat-r0", "mode": "mtp", "phase": "Replacing", "deadline": "2026-12-01T10:00:00Z"}
    found = explain(**{**STATUS, "slots": [slot]})
    assert found["waits for"] == ["chat-r0 (mtp) is Replacing; deadline passed 2 h 10 min ago"]


def test_a_time_of_another_day_has_its_date() -> None:
    found = explain(**{**STATUS, "decision": {"reason": "Steady", "message": "3 mtp / 1 batch stays", "at": "2026-11-30T12:00:00Z"}})
    assert found["why"] == ["Steady: 3 mtp / 1 batch stays. Since 2026-11-30 12:00:00Z (24 h 10 min ago)."]


def test_a_service_that_is_being_deleted() -> None:
    obj = inference_service() | {"status": STATUS}
    obj["metadata"] = obj["metadata"] | {"deletionTimestamp": AT}
    found = explanation(service_from_object(obj), NOW)
    assert found["why"] == ["It is being deleted. Since 12:00:00Z (10 min 0 s ago)."]
    assert "would change it" not in found


def outlook(**changes: Any) -> dict[str, Any]:
    costs = {"staying": {"mix": {"mtp": 3, "batch": 1}, "requestMinutes": "2100"}, "priceOfReturn": "412", "best": {"mtp": 2, "batch": 2}}
    moves = [
        {"mix": {"mtp": 4, "batch": 0}, "requestMinutes": "5000", "feasible": False},
        {"mix": {"mtp": 2, "batch": 2}, "requestMinutes": "1680"},
    ]
    ahead = {"horizon": "1h", "moves": moves, "drawsBetter": "0.97", "batchAboveTokensPerSecond": "4200", "mtpBelowTokensPerSecond": "3100"}
    return {
        **STATUS,
        "decision": {**STATUS["decision"], "outlook": {**ahead, **costs, **changes}},
        "loop": {"kind": "Open", "confidence": "0.93"},
        "profile": {
            "name": "measured",
            "contextTokens": 1000,
            "crossover": "36",
            "bound": "Slots",
            "verdict": "Flip",
            "message": "the only one",
            "firstRemedy": "mtp is short of slots: raise them",
        },
    }


def test_what_staying_and_each_move_would_cost() -> None:
    found = explain(**outlook())
    assert found["now"][-1] == "It behaves like an open loop: arrivals go on whatever happens (93% sure)."
    assert found["decided by"] == [
        "Profile measured, 1000 tokens of context: batch is better above 36 requests at one replica (bound by slots); verdict Flip.",
        "Chosen: the only one.",
        "Mtp is short of slots: raise them.",
    ]
    assert found["ahead"] == [
        "Over the next 1h, in request-minutes (requests in the system × time):",
        "  staying at 3 mtp / 1 batch: 2,100",
        "  to 2 mtp / 2 batch: 1,680 (-20%)",
        "  to 4 mtp / 0 batch: 5,000 (+138%), but it misses workload.targets",
        "  coming back has cost 412 lately, which a move must earn as well",
        "Cheapest with that in it: 2 mtp / 2 batch, better than staying in 97% of the draws of the uncertain curves.",
    ]
    assert found["would change it"] == [
        "a move is possible from 12:16:00Z",
        "Demand above 4,200 output tokens/s: a step to batch would pay.",
        "Demand below 3,100 output tokens/s: a step to mtp would pay.",
    ]


def test_a_kind_of_load_that_is_not_known_and_a_fleet_at_rest() -> None:
    idle = {"mix": {"mtp": 3, "batch": 1}, "requestMinutes": "0"}
    quiet = outlook(staying=idle, moves=[{**idle, "mix": {"mtp": 4}}], drawsBetter=None, priceOfReturn="0", best={"mtp": 3, "batch": 1})
    found = explain(**{**quiet, "loop": {"kind": "Closed", "confidence": "0.5"}})
    assert found["now"][-1] == "Open or closed loop: not known yet; both are reckoned with."
    assert found["ahead"][1:3] == ["  staying at 3 mtp / 1 batch: 0", "  to 4 mtp / 0 batch: 0"]
    assert found["ahead"][-1] == "Cheapest with that in it: 3 mtp / 1 batch."


def test_a_load_that_ended_is_still_in_the_smoothed_demand_and_a_small_gain_moves_nothing() -> None:
    status = outlook(drawsBetter=None)
    status["decision"]["reason"] = "StayingIsCheaper"
    status["demand"] = {"outputTokensPerSecond": "0", "inFlight": 0, "queued": 0}
    found = explain(**{**status, "policy": {"smoothedTokensPerSecond": "851.4"}})["ahead"]
    assert found[0] == (
        "Over the next 1h from a smoothed demand of 851 output tokens/s (0 now), in request-minutes (requests in the system × time):"
    )
    assert found[-1] == "Cheapest with that in it: 2 mtp / 2 batch, by less than a move must gain, so the mix stays."


def test_a_profile_that_is_missing_and_one_that_never_crosses() -> None:
    found = explain(**{**STATUS, "profile": {"message": "no ThroughputProfile for a/b on rtx"}})
    assert found["decided by"] == ["Two thresholds on demand, since there is no usable profile: no ThroughputProfile for a/b on rtx."]
    never = {"name": "measured", "contextTokens": 1000, "verdict": "MtpOnly", "message": "spec.profile names it"}
    assert explain(**{**STATUS, "profile": never})["decided by"][0].endswith("the modes do not cross; verdict MtpOnly.")


def test_the_numbers_behind_the_sentences() -> None:
    found = numbers(service_from_object(inference_service() | {"status": outlook()}))
    assert found["loop"] == {"kind": "Open", "confidence": "0.93"}
    assert found["decision"]["outlook"]["staying"] == {"mix": {"mtp": 3, "batch": 1}, "requestMinutes": "2100", "feasible": True}
    assert "conditions" not in found


def test_how_far_a_calibration_is() -> None:
    told = {
        "phase": "Measuring", "requestId": "one", "slot": "chat-r1", "mode": "batch", "done": 15, "total": 27, "timeLeft": "4m10s",
        "message": "batch: 64 at once is next",
    }  # fmt: skip
    assert explain(**{**STATUS, "calibration": told})["calibration"] == [
        "Request one: Measuring on chat-r1, 15 of 27 batches of the modes begun, 4m10s left for batch: batch: 64 at once is next."
    ]
