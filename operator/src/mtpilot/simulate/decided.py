"""The operator's own decision in a replay: `policy.decide.decide`, fed minute by minute with what metrics would show.

The fleet is described as `policy.demand.observe` and `reconcile.fleet` describe one: samples of the replicas that serve, the mix
that is wanted, the move that is under way, the moves of the last hour. While no replica serves there is no demand, as on a cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil

from mtpilot.api.inference_service import MOST_RUNNING_REQUESTS, InferenceServiceSpec, Mode, Objective
from mtpilot.api.status import PolicyState
from mtpilot.curves.curve import CurvePair, ThroughputCurve
from mtpilot.model.calibration import Calibration
from mtpilot.model.decision import Decision, Demand, FleetState, Mix, NoDemand, ReplicaSample
from mtpilot.model.reasons import Reason
from mtpilot.policy.decide import decide
from mtpilot.policy.demand import asked_for
from mtpilot.policy.fluid import envelope
from mtpilot.policy.initial import first_mix

from .driver import Moment, Site, Steering
from .sharing import Sharing

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SCRAPE_SECONDS = 10.0
MOST_FLIPS_PER_HOUR = 120  # that a spec may allow
_DIGESTS = {Mode.MTP: "mtp", Mode.BATCH: "batch"}
_NOBODY = NoDemand(reason=Reason.NO_READY_REPLICA, message="no replica is ready and serves: there is no load to observe")


def spec_of(site: Site, *, guards: bool = True, objective: Objective = Objective.BALANCED) -> InferenceServiceSpec:
    """A service as its user would write it, every policy field at its default.

    guards: False: no dwell and no flip budget, to see what they cost.
    """
    policy = {} if guards else {"minDwell": "0s", "maxFlipsPerHour": MOST_FLIPS_PER_HOUR}
    return InferenceServiceSpec.model_validate(
        {
            "model": {"source": "hf://replay/replay"},
            "hardwareClass": "replay",
            "replicas": site.replicas,
            "workload": {"outputTokens": max(round(site.output_tokens), 1), "objective": objective},
            "modes": {mode.value: {"maxRunningRequests": slots_of(site.curves.of(mode))} for mode in Mode},
            "policy": policy,
            "rollout": {"allowDowntime": True},  # a replay of a lone replica is asked to show what its flips cost
        }
    )


def slots_of(curve: ThroughputCurve) -> int:
    """Requests that the fluid runs in one replica: where more add nothing to a curve, they wait. At most what a spec may ask for."""
    return min(max(ceil(envelope(curve)[-1][0]), 1), MOST_RUNNING_REQUESTS)


@dataclass(frozen=True, slots=True)
class Decided:
    """What the operator would do: with a calibration by prediction, without one by two thresholds on a capacity that it learns.

    explain: say with each move why, at the price of a slower replay.
    """

    name: str
    calibration: Calibration | None
    guards: bool = True
    objective: Objective = Objective.BALANCED
    explain: bool = False

    def curves(self, pair: CurvePair) -> CurvePair:
        return pair

    def begin(self, site: Site) -> Steering:
        return Operator(site, spec_of(site, guards=self.guards, objective=self.objective), self.calibration, explain=self.explain)


def fleet_after(
    moves: Sequence[tuple[datetime, Mode]],
    now: datetime,
    mix: Mix,
    *,
    ready: int,
    moving: str | None,
    flip_seconds: float,
    median_flip_seconds: float | None = None,
    mtp_digest: str | None = None,
) -> FleetState:
    """What the guards look at in a fleet without a spare GPU that has made `moves`: when and to which mode, oldest first."""
    recent = [at for at, _ in moves[-MOST_FLIPS_PER_HOUR:] if now - at < timedelta(hours=1)]
    last_at, last_to = moves[-1] if moves else (None, None)
    return FleetState(
        mix=mix,
        replicas=mix.total,
        ready=ready,
        moving=moving,
        last_move_at=last_at,
        last_move_to=last_to,
        moves_last_hour=len(recent),
        oldest_move_last_hour_at=recent[0] if recent else None,
        failed_modes={},
        gpus_free=0,
        gpus_per_replica=1,
        median_flip_seconds=median_flip_seconds,
        mtp_digest=mtp_digest,
        expected_flip_seconds=flip_seconds,
    )


class Operator:
    """The operator of one fleet, and what it knows beside the load."""

    def __init__(self, site: Site, spec: InferenceServiceSpec, calibration: Calibration | None, *, explain: bool) -> None:
        self.site, self.spec, self.calibration, self.explain = site, spec, calibration, explain
        self.batch = first_mix(spec, site.replicas, calibration).batch
        self.why = ""
        self.memory = PolicyState()
        self.moves: list[tuple[datetime, Mode]] = []
        self._sharing = Sharing(site)
        self._slots = {Mode.MTP: spec.modes.mtp.max_running_requests, Mode.BATCH: spec.modes.batch.max_running_requests}

    def move(self, moment: Moment) -> Mode | None:
        now = START + (moment.minute + 1) * MINUTE
        decision = self.decide(moment, now)
        self.memory = decision.state
        if decision.move_to is not None:
            self.moves.append((now, decision.move_to))
            self.why = f"{decision.reason}: {decision.message}" if self.explain else decision.reason
        return decision.move_to

    def decide(self, moment: Moment, now: datetime) -> Decision:
        demand, fleet = self.demand(moment, now), self.fleet(moment, now)
        return decide(self.spec, demand, fleet, self.memory, now, self.calibration, explain=self.explain)

    def demand(self, moment: Moment, now: datetime) -> Demand | NoDemand:
        samples = self._samples(moment)
        if not samples:
            return _NOBODY
        saturated = moment.queued > 0 or all(sample.running >= sample.slots for sample in samples)
        return Demand(
            at=now,
            replicas=samples,
            served_tokens_per_second=moment.served,
            demand_tokens_per_second=asked_for(moment.served, moment.arriving, saturated=saturated, estimated=False),
            in_flight=moment.running,
            queued=moment.queued,
            mean_output_tokens=self.site.output_tokens,
            saturated=saturated,
            accept_length=self.site.curves.accept_length if moment.serving_mtp else None,
            scrape_interval_seconds=SCRAPE_SECONDS,
        )

    def _samples(self, moment: Moment) -> tuple[ReplicaSample, ...]:
        found: list[ReplicaSample] = []
        shares = self._sharing.of(moment.serving_mtp, moment.serving_batch, moment.running)
        for mode, count, (running, rate) in zip(Mode, (moment.serving_mtp, moment.serving_batch), shares, strict=True):
            accept_length = self.site.curves.accept_length if mode is Mode.MTP else None
            found += [
                ReplicaSample(
                    slot=f"{mode}-{i}",
                    mode=mode,
                    digest=_DIGESTS[mode],
                    running=running,
                    queued=0.0,
                    tokens_per_second=rate,
                    slots=self._slots[mode],
                    accept_length=accept_length,
                )
                for i in range(count)
            ]
        return tuple(found)

    def fleet(self, moment: Moment, now: datetime) -> FleetState:
        seconds = 60.0 * self.site.flip_minutes
        return fleet_after(
            self.moves,
            now,
            Mix(mtp=self.site.replicas - moment.batch, batch=moment.batch),
            ready=self.site.replicas - moment.moving,
            moving="on-its-way" if moment.moving else None,
            flip_seconds=seconds,
            median_flip_seconds=seconds if self.moves else None,
            mtp_digest=_DIGESTS[Mode.MTP],
        )
