"""A fleet that is looked at again and again, each time with the state of the look before."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from mtpilot.api.inference_service import InferenceServiceSpec
from mtpilot.api.status import PolicyState
from mtpilot.api.throughput_profile import Verdict
from mtpilot.curves.curve import CurvePair
from mtpilot.model.decision import Decision, Mix
from mtpilot.policy.decide import decide
from mtpilot.policy.fluid import fluid_fleet
from mtpilot.policy.predictive import DEFAULT_SETTINGS, PredictiveSettings
from tests.unit.policy.builders import NOW, PAIR, calibration, demand, fleet, spec

ALL_MTP, HALF, ALL_BATCH = Mix(mtp=4, batch=0), Mix(mtp=2, batch=2), Mix(mtp=0, batch=4)
MTP_CAPACITY = 4 * PAIR.mtp.rate(24)
FLIP_SECONDS = 240.0


@dataclass
class Watch:
    """Looks at a fleet that does not move, ten seconds apart. pair: what the replicas do; the profile says `profile`."""

    mix: Mix
    policy: dict[str, Any] = field(default_factory=dict)
    pair: CurvePair = PAIR
    profile: CurvePair = PAIR
    verdict: Verdict = Verdict.FLIP
    workload: dict[str, Any] = field(default_factory=dict)
    state: PolicyState = field(default_factory=PolicyState)
    looks: int = 0
    settings: PredictiveSettings = DEFAULT_SETTINGS

    @property
    def spec(self) -> InferenceServiceSpec:
        base = spec(replicas=self.mix.total, policy=self.policy)
        workload = base.workload.model_validate(base.workload.model_dump(by_alias=True, exclude_none=True) | self.workload)
        return base.model_copy(update={"workload": workload})

    def look(self, rate: float, *, queued: float = 0.0, explain: bool = True, moving: str | None = None, **changes: Any) -> Decision:
        now = NOW + timedelta(seconds=10 * self.looks)
        self.looks += 1
        running = fluid_fleet(self.pair, self.mix.total).mix(self.mix.batch).in_flight(rate) / self.mix.total
        seen = demand(rate, mix=self.mix, running=running, queued=queued, at=now)
        replicas = tuple(replace(item, tokens_per_second=self.pair.of(item.mode).rate(item.running)) for item in seen.replicas)
        decision = decide(
            self.spec,
            replace(seen, **({"replicas": replicas} | changes)),
            fleet(self.mix, expected_flip_seconds=FLIP_SECONDS, moving=moving),
            self.state,
            now,
            calibration(self.profile, self.verdict),
            explain=explain,
            settings=self.settings,
        )
        self.state = decision.state
        return decision

    def watch(self, rate: float, *, seconds: float = 300.0, queued: Callable[[int], float] | float = 0.0, **changes: Any) -> Decision:
        """The last of the looks of some time, the only one with words."""
        last = round(seconds / 10) - 1
        for i in range(last + 1):
            decision = self.look(rate, queued=queued(i) if callable(queued) else queued, **({"explain": i == last} | changes))
        return decision
