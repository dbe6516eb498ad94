"""A recorded outcome of a small demo: three runs of one schedule, one flip each way in the auto run."""

import dataclasses
import random

import pytest

from e2e.demo.parameters import Parameters
from e2e.demo.summary import ALWAYS_BATCH, ALWAYS_MTP, AUTO, Outcome
from e2e.demo.timeline import EngineSample, FleetSample, Flip, LoadSample, Mark, Timeline, Window
from e2e.load.result import LoadResult, Record
from e2e.load.result import Outcome as Verdict
from e2e.load.schedule import Request, Schedule

SERVICES = {AUTO: "chat", ALWAYS_MTP: "chat-mtp", ALWAYS_BATCH: "chat-batch"}
START = {AUTO: 1000.0, ALWAYS_MTP: 1200.0, ALWAYS_BATCH: 1400.0}


def one_record(index: int, *, start: float, request: Request, latency: float) -> Record:
    due = start + request.at_seconds
    return Record(
        index=index,
        marker=f"r-{index}",
        target="http://127.1.0.1:8080",
        due_at=due,
        sent_at=due,
        ended_at=due + latency,
        ttft_seconds=latency / 4,
        status=200,
        input_tokens=request.input_tokens,
        expected_tokens=request.output_tokens,
        output_tokens=request.output_tokens,
        outcome=Verdict.COMPLETED,
    )


def flip(second: float, slot: str, from_mode: str, to_mode: str, outcome: str = "Completed") -> Flip:
    ended = None if outcome == "Started" else START[AUTO] + second + 8
    return Flip(
        at=START[AUTO] + second,
        service="chat",
        slot=slot,
        from_mode=from_mode,
        to_mode=to_mode,
        outcome=outcome,
        reason="DemandAboveMtpCapacity",
        message="demand <b>above</b> the cap",
        seconds=8.0 if ended else None,
        ended_at=ended,
    )


@pytest.fixture(scope="module")
def schedule() -> Schedule:
    draw = random.Random(1)
    times = sorted(draw.uniform(0, 60) for _ in range(400))
    return Schedule(requests=tuple(Request(at_seconds=at, input_tokens=100, output_tokens=draw.randint(20, 400)) for at in times))


@pytest.fixture
def outcome(schedule: Schedule) -> Outcome:
    """A fresh one for each test: it may be changed."""
    return recorded(schedule)


def recorded(schedule: Schedule) -> Outcome:
    timeline = Timeline()
    results = {}
    for name, start in START.items():
        timeline.windows.append(Window(policy=name, service=SERVICES[name], start=start, end=start + 90))
        latency = {AUTO: 2.0, ALWAYS_MTP: 4.0, ALWAYS_BATCH: 2.5}[name]
        records = [one_record(index, start=start, request=request, latency=latency) for index, request in enumerate(schedule.requests)]
        results[name] = LoadResult(records=tuple(records), peak_in_flight=40, cpu_seconds=1.0)
    auto = START[AUTO]
    for second, mtp, batch, draining, loading in ((-5, 4, 0, 0, 0), (20, 3, 0, 1, 0), (24, 3, 0, 0, 1), (28, 3, 1, 0, 0), (60, 4, 0, 0, 0)):
        sample = FleetSample(at=auto + second, service="chat", mtp=mtp, batch=batch, draining=draining, loading=loading, gpus=16)
        timeline.fleet += [sample, dataclasses.replace(sample, service="chat-mtp", mtp=4, batch=0, draining=0)]
    for second in range(0, 90, 2):
        timeline.engines.append(EngineSample(at=auto + second, running=30.0, queued=2.0, gateway_queued=float(second % 7)))
        timeline.load.append(LoadSample(at=auto + second, sent=second, completed=second, failed=0, in_flight=0, output_tokens=second * 100))
    timeline.marks.append(Mark(at=auto + 20, kind="decision", reason="DemandAboveMtpCapacity", message="demand <i>above</i>"))
    for entry in (flip(20, "chat-r3", "mtp", "batch"), flip(52, "chat-r3", "batch", "mtp")):
        timeline.flips[f"{entry.slot} {entry.at}"] = entry
    return Outcome(
        parameters=Parameters(),
        timeline=timeline,
        results=results,
        step_time={AUTO: 1.01, ALWAYS_MTP: 1.0, ALWAYS_BATCH: 1.02},
        timings={"total": 200.0},
        versions={"python": "3"},
        cpu_seconds={"sglang-sim": 9.0},
    )
