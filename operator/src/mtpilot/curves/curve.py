"""Throughput of one replica against the requests in flight, as every decision reads it.

A curve is piecewise linear from (0, 0) through its points and flat beyond its slots: more requests than slots wait, they do
not run. However it was had (step-time model or the measured table itself), it is plain numbers here.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import pairwise

from mtpilot.api.inference_service import Mode


class InvalidCurve(ValueError):  # noqa: N818 - what is invalid is the curve
    """Points that are no throughput curve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputCurve:
    """Output tok/s of one replica.

    concurrency: requests in flight, rising, above 0; the last one is the number of slots.
    tokens_per_second: output tokens per second of the replica at each, above 0.
    """

    concurrency: tuple[float, ...]
    tokens_per_second: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.concurrency or len(self.concurrency) != len(self.tokens_per_second):
            raise InvalidCurve("a curve needs as many rates as levels of concurrency, and at least one")
        if self.concurrency[0] <= 0 or any(b <= a for a, b in pairwise(self.concurrency)):
            raise InvalidCurve("levels of concurrency must rise and be above 0")
        if not all(0 < rate < float("inf") for rate in self.tokens_per_second):
            raise InvalidCurve("rates must be finite and above 0")

    @property
    def slots(self) -> float:
        """Requests that run at the same time at most."""
        return self.concurrency[-1]

    def rate(self, in_flight: float) -> float:
        """tok/s with `in_flight` requests at the replica."""
        if in_flight <= 0:
            return 0.0
        if in_flight >= self.slots:
            return self.tokens_per_second[-1]
        i = bisect_left(self.concurrency, in_flight)
        left, low = (self.concurrency[i - 1], self.tokens_per_second[i - 1]) if i else (0.0, 0.0)
        return low + (self.tokens_per_second[i] - low) * (in_flight - left) / (self.concurrency[i] - left)

    def scaled(self, factor: float) -> "ThroughputCurve":
        """Every rate times `factor`."""
        return replace(self, tokens_per_second=tuple(rate * factor for rate in self.tokens_per_second))

    def with_slots(self, slots: float) -> "ThroughputCurve":
        """Cut at `slots`, or continued flat up to them: nothing was measured there, so nothing is promised."""
        if slots == self.slots:
            return self
        inside = [level for level in self.concurrency if level < slots]
        rates = [self.rate(level) for level in inside]
        return ThroughputCurve(concurrency=(*inside, slots), tokens_per_second=(*rates, self.rate(slots)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePair:
    """Both modes of one model on one hardware class at one context length.

    accept_length: tokens per verification step, bonus token included, that the mtp curve was measured with; None: unknown.
    mtp_error, batch_error: relative standard error of the level of each curve.
    """

    mtp: ThroughputCurve
    batch: ThroughputCurve
    accept_length: float | None = None
    mtp_error: float = 0.03
    batch_error: float = 0.03

    def of(self, mode: Mode) -> ThroughputCurve:
        return self.mtp if mode is Mode.MTP else self.batch
