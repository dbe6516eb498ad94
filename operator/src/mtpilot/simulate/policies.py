"""Policies to compare: what the operator decides, and what one could do instead.

The operator's own decision is `policy.decide` itself, with its guards and its state. The others are the alternatives that
a user has: one mode for ever, SGLang's adaptive speculation, thresholds.
"""

from dataclasses import dataclass, replace

from mtpilot.api.inference_service import Mode
from mtpilot.curves.conclusion import Conclusion
from mtpilot.curves.curve import CurvePair, ThroughputCurve
from mtpilot.policy.capacity import FULL_SHARE
from mtpilot.policy.fluid import FluidFleet

from .driver import Moment, Site, Steering

DWELL_MINUTES = 10  # least time between two moves of a threshold policy
SMOOTHING = 0.3  # share of a new minute
QUEUE_FOR_UP, QUEUE_FOR_DOWN = 5.0, 1.0  # requests


@dataclass(slots=True)
class _Stays:
    """Nothing ever moves."""

    batch: int
    why: str = ""

    def move(self, moment: Moment) -> Mode | None:
        return None


@dataclass(frozen=True, slots=True)
class Always:
    """One mode for ever."""

    mode: Mode

    @property
    def name(self) -> str:
        return f"always_{self.mode}"

    def curves(self, pair: CurvePair) -> CurvePair:
        return pair

    def begin(self, site: Site) -> Steering:
        return _Stays(site.replicas if self.mode is Mode.BATCH else 0)


@dataclass(frozen=True, slots=True)
class AdaptiveSpeculation:
    """SGLang's `--speculative-adaptive` at its best: at each batch the better of drafting and not drafting, at once and never wrong.

    It keeps mtp's slots, since the draft's weights and KV cells stay allocated. While it does not draft it still extends the draft
    model's KV cache by every token, so as to be able to draft again: `tax` is the share of batch mode's rate that this takes.
    """

    tax: float

    @property
    def name(self) -> str:
        return f"adaptive_{100 * self.tax:.0f}"

    def curves(self, pair: CurvePair) -> CurvePair:
        return replace(pair, mtp=adaptive_curve(pair, self.tax))

    def begin(self, site: Site) -> Steering:
        return _Stays(0)


def adaptive_curve(pair: CurvePair, tax: float) -> ThroughputCurve:
    """max(mtp, (1 − tax) × batch) at every level of either curve that fits into mtp's slots."""
    slots = pair.mtp.slots
    levels = sorted({slots, *(level for level in (*pair.mtp.concurrency, *pair.batch.concurrency) if level < slots)})
    rates = (max(pair.mtp.rate(level), (1 - tax) * pair.batch.rate(level)) for level in levels)
    return ThroughputCurve(concurrency=tuple(levels), tokens_per_second=tuple(rates))


@dataclass(slots=True)
class _Dwelling:
    """What threshold policies share: a smoothed number, and a least time between two moves."""

    replicas: int
    batch: int = 0
    why: str = ""
    mean: float | None = None
    since: int = DWELL_MINUTES

    def take(self, value: float) -> float:
        self.mean = value if self.mean is None else SMOOTHING * value + (1 - SMOOTHING) * self.mean
        self.since += 1
        return self.mean

    def step(self, moment: Moment, wanted: Mode | None, why: str) -> Mode | None:
        """`wanted`, if the time has come and a replica is left to move."""
        if wanted is None or moment.moving or self.since < DWELL_MINUTES:
            return None
        if moment.batch == (self.replicas if wanted is Mode.BATCH else 0):
            return None
        self.since, self.why = 0, why
        return wanted


@dataclass(frozen=True, slots=True)
class ThresholdRunning:
    """One threshold on the running requests of a replica: the mode that is better above the crossover from it on, the other below.

    conclusion: of the curves, so the threshold is tuned as well as it can be. Where mtp's slots come before the crossover, full slots are
    the threshold: beyond them there is nothing to see. Curves that do not cross have one mode for ever.
    """

    conclusion: Conclusion
    name: str = "threshold_running"

    def curves(self, pair: CurvePair) -> CurvePair:
        return pair

    def begin(self, site: Site) -> Steering:
        found = self.conclusion
        if found.crossover is None or found.above is None:
            return _Stays(site.replicas if found.batch_gain > found.mtp_gain else 0)
        slots = FluidFleet(site.curves, 1, by_latency=False).of(1, 0).slots
        threshold = min(found.crossover, FULL_SHARE * slots)
        return _RunningWatch(site.replicas, threshold=threshold, above=found.above)


@dataclass(slots=True)
class _RunningWatch(_Dwelling):
    threshold: float = 0.0
    above: Mode = Mode.BATCH

    def move(self, moment: Moment) -> Mode | None:
        serving = moment.serving_batch + moment.serving_mtp
        running = self.take(moment.running / serving if serving else 0.0)
        wanted = self.above if running >= self.threshold else self.above.other
        return self.step(moment, wanted, f"{running:.1f} running in a replica, threshold {self.threshold:.1f}")


@dataclass(frozen=True, slots=True)
class ThresholdDemand:
    """Two thresholds on demand, as shares of what an all-mtp fleet serves, which the curves tell: up above `up` of it or with a queue,
    down below `down` of it without one."""

    name: str = "threshold_demand"
    up: float = 0.97
    down: float = 0.75

    def curves(self, pair: CurvePair) -> CurvePair:
        return pair

    def begin(self, site: Site) -> Steering:
        capacity = FluidFleet(site.curves, site.replicas, by_latency=False).of(site.replicas, 0).capacity
        return _DemandWatch(site.replicas, above=self.up * capacity, below=self.down * capacity)


@dataclass(slots=True)
class _DemandWatch(_Dwelling):
    above: float = 0.0
    below: float = 0.0

    def move(self, moment: Moment) -> Mode | None:
        demand = self.take(moment.arriving)
        if demand > self.above or moment.queued > QUEUE_FOR_UP:
            return self.step(moment, Mode.BATCH, f"demand {demand:.0f} tok/s, {moment.queued:.0f} queued")
        if demand < self.below and moment.queued < QUEUE_FOR_DOWN:
            return self.step(moment, Mode.MTP, f"demand {demand:.0f} tok/s")
        return None
