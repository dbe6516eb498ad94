"""Series for the plots, computed from records and timeline.

Times are seconds since the start of the policy's run. A request's tokens are spread evenly between its first token and
its end, because the generator notes only these two instants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from e2e.demo.timeline import Timeline, Window
from e2e.load.result import Outcome, Record
from e2e.load.schedule import Schedule

Series = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Values over seconds since the start."""

    seconds: Series
    values: Series


def _smooth(values: Series, width: int) -> Series:
    if len(values) < width:
        return values
    kernel = np.ones(width)
    smoothed: Series = np.convolve(values, kernel, mode="same") / np.convolve(np.ones_like(values), kernel, mode="same")
    return smoothed


def offered(schedule: Schedule, *, bin_seconds: float = 0.5, smooth_bins: int = 5) -> Curve:
    """Output tokens/s that the arrivals ask for."""
    bins = np.arange(0.0, schedule.seconds + bin_seconds, bin_seconds)
    at = [request.at_seconds for request in schedule.requests]
    tokens = [float(request.output_tokens) for request in schedule.requests]
    sums, _ = np.histogram(at, bins=bins, weights=tokens)
    return Curve(seconds=bins[:-1] + bin_seconds / 2, values=_smooth(sums.astype(np.float64) / bin_seconds, smooth_bins))


def delivered(records: Sequence[Record], start: float, *, bin_seconds: float = 0.5, smooth_bins: int = 3) -> Curve:
    """Output tokens/s as the clients received them."""
    done = [record for record in records if record.outcome is Outcome.COMPLETED and record.ttft_seconds is not None]
    if not done:
        return Curve(seconds=np.zeros(1), values=np.zeros(1))
    first = np.array([record.due_at + (record.ttft_seconds or 0.0) - start for record in done])
    last = np.maximum(np.array([record.ended_at - start for record in done]), first + 1e-3)
    rate = np.array([record.output_tokens for record in done]) / (last - first)
    bins = np.arange(0.0, float(last.max()) + bin_seconds, bin_seconds)
    values = np.array([float((rate * np.clip(np.minimum(last, at + bin_seconds) - np.maximum(first, at), 0, None)).sum()) for at in bins])
    return Curve(seconds=bins + bin_seconds / 2, values=_smooth(values / bin_seconds, smooth_bins))


def in_flight(records: Sequence[Record], start: float, *, step_seconds: float = 0.25) -> tuple[Curve, Curve]:
    """Requests sent and not yet answered, and those of them that still wait for their first token."""
    end = max((record.ended_at for record in records), default=start) - start
    at = np.arange(0.0, end + step_seconds, step_seconds)
    sent = np.sort([record.due_at - start for record in records])
    ended = np.sort([record.ended_at - start for record in records])
    first = np.sort(
        [(record.due_at + record.ttft_seconds if record.ttft_seconds is not None else record.ended_at) - start for record in records]
    )
    open_requests = np.searchsorted(sent, at, side="right") - np.searchsorted(ended, at, side="right")
    waiting = np.searchsorted(sent, at, side="right") - np.searchsorted(first, at, side="right")
    return Curve(seconds=at, values=open_requests.astype(np.float64)), Curve(seconds=at, values=waiting.astype(np.float64))


@dataclass(frozen=True, slots=True, kw_only=True)
class MixCurves:
    """Replicas by what they do, as steps over seconds since the start."""

    seconds: Series
    mtp: Series
    batch: Series
    draining: Series
    loading: Series


def mix(timeline: Timeline, window: Window) -> MixCurves:
    """The fleet in a window, from the last sample before it on."""
    own = [sample for sample in timeline.fleet if sample.service == window.service]
    before = [sample for sample in own if sample.at <= window.start][-1:]
    inside = [sample for sample in own if window.start < sample.at <= window.end]
    samples = before + inside
    if samples:
        samples.append(samples[-1])
    seconds = np.array([max(0.0, sample.at - window.start) for sample in samples])
    if samples:
        seconds[-1] = window.end - window.start
    return MixCurves(
        seconds=seconds,
        mtp=np.array([float(sample.mtp) for sample in samples]),
        batch=np.array([float(sample.batch) for sample in samples]),
        draining=np.array([float(sample.draining) for sample in samples]),
        loading=np.array([float(sample.loading) for sample in samples]),
    )


def gateway_queue(timeline: Timeline, window: Window) -> Curve:
    """Requests that wait at the gateway and in the engines, as Prometheus sees it."""
    inside = [sample for sample in timeline.engines if window.start <= sample.at <= window.end]
    return Curve(
        seconds=np.array([sample.at - window.start for sample in inside]),
        values=np.array([sample.gateway_queued + sample.queued for sample in inside]),
    )
