"""What one full mtp replica produces: learned from production, since the uncalibrated rule has no curve.

It is the highest rate seen while full, with three precautions. Two samples in a row must agree before it counts, since a
replica that has just filled up still has its emptier past in the rate's window, and one more sample moves it only by its
share of time, so a spike is not taken. It belongs to one pod template: other arguments
are another capacity. And it sinks slowly while full replicas do less (longer contexts, heavier prefill): a capacity that
only grew would call the fleet back from batch for ever.
"""

from collections import Counter
from dataclasses import dataclass

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState
from mtpilot.model.decision import Demand, FleetState, ReplicaSample

from .smoothing import time_constant_seconds, weight
from .timing import number, seconds

FULL_SHARE = 0.97  # of the slots: the last ones are free between two requests
AGREE_WITHIN = 0.15  # of the larger of two samples; a window of six scrapes that fills up evenly differs by more until it is full
SINK_TIME_CONSTANTS = 3  # 15 minutes by default


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """tok/s of one full mtp replica and the template it was seen with; without a template it is a first sample, unconfirmed."""

    tokens_per_second: float | None = None
    template: str | None = None

    @property
    def known(self) -> float | None:
        return self.tokens_per_second if self.template is not None else None


def full_at(spec: InferenceServiceSpec, sample: ReplicaSample) -> float:
    """Running requests at which a replica counts as full."""
    by_slots = FULL_SHARE * sample.slots
    by_spec = spec.policy.thresholds.full_at_running_requests if sample.mode is Mode.MTP else None
    return by_slots if by_spec is None else min(by_slots, by_spec)


def is_full(spec: InferenceServiceSpec, sample: ReplicaSample) -> bool:
    return sample.running > 0 and sample.running >= full_at(spec, sample)


def has_no_room(spec: InferenceServiceSpec, sample: ReplicaSample) -> bool:
    """Full, or short of something else than slots: requests wait in an engine that runs others (long contexts fill its KV cache).

    Too loose to learn a capacity from: one request waits for a moment in an idle engine as well.
    """
    return is_full(spec, sample) or (sample.running > 0 and sample.queued > 0)


def template_in_force(demand: Demand, fleet: FleetState, known: str | None) -> str | None:
    """The digest of mtp now: the rendered one, else the known one while a replica has it, else that of most replicas."""
    if fleet.mtp_digest is not None:
        return fleet.mtp_digest
    serving = Counter(sample.digest for sample in demand.replicas if sample.mode is Mode.MTP)
    if not serving or known in serving:
        return known
    return min(serving, key=lambda digest: (-serving[digest], digest))


def recall(state: PolicyState, template: str | None) -> Learned:
    """What the state holds, unless it was seen with another template."""
    value = number(state.mtp_capacity_tokens_per_second)
    seen_with = state.mtp_capacity_template
    if not value or (seen_with is not None and seen_with != template):
        return Learned()
    return Learned(tokens_per_second=value, template=seen_with)


def learn(before: Learned, demand: Demand, template: str | None, spec: InferenceServiceSpec, elapsed_seconds: float | None) -> Learned:
    """Take one sample: the mean rate of the mtp replicas that are full now; nothing full, nothing learned."""
    rates = [
        sample.tokens_per_second
        for sample in demand.replicas
        if sample.mode is Mode.MTP and sample.digest == template and is_full(spec, sample) and sample.tokens_per_second > 0
    ]
    if not rates:
        return before
    rate = sum(rates) / len(rates)
    value = before.tokens_per_second
    if value is None:
        return Learned(tokens_per_second=rate)
    if before.template is None:
        agrees = abs(rate - value) <= AGREE_WITHIN * max(rate, value)
        return Learned(tokens_per_second=min(value, rate), template=template) if agrees else Learned(tokens_per_second=rate)
    constant = seconds(spec.policy.stabilization.up) if rate > value else SINK_TIME_CONSTANTS * time_constant_seconds(spec)
    share = weight(min(elapsed_seconds or 0.0, constant), constant)  # an absence gives one sample no more than 63 %
    return Learned(tokens_per_second=value + share * (rate - value), template=template)
