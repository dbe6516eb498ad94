"""From a ThroughputProfile's spec to the curves that decide, without scipy: the operator calls this.

With a step-time fit the curves are the model's, at the very context that is asked for, within the measured contexts. Otherwise they are
the table of the nearest context, with a power law from each level to the next. Rates are the running maximum (`monotone`).
A fit whose digest is not that of the points is left aside: the points were edited after it.
"""

from collections.abc import Sequence

import numpy as np

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import Curve, FitMethod, ProfileFit, ThroughputProfileSpec

from .conclusion import Conclusion, conclude
from .curve import CurvePair, InvalidCurve, ThroughputCurve
from .digest import points_digest
from .interpolation import levels_up_to, power_law
from .step_time import StepTime
from .table import monotone

# Nobody measures a replica better than this from one start of the engine to the next.
LEAST_ERROR = 0.03


def curve_pair(spec: ThroughputProfileSpec, context_tokens: int) -> tuple[CurvePair, int]:
    """Both curves at `context_tokens`, and the measured context (tokens) that is nearest in ratio.

    Raises:
        InvalidCurve: no context has curves of both modes, or points are no curve; the message begins with the field's path.
    """
    bucket = nearest(context_buckets(spec), context_tokens)
    fit = fit_in_force(spec)
    mtp, batch = (_curve_at(spec, mode, bucket) for mode in (Mode.MTP, Mode.BATCH))
    model = step_time_of(fit)
    if fit is not None and model is not None:
        wanted = within(context_buckets(spec), context_tokens)
        accepted = accept_length(mtp) or float(fit.assumed_accept_length or 1)
        curves = [_modelled(model, curve, wanted, accepted) for curve in (mtp, batch)]
    else:
        curves = [_interpolated(spec, curve) for curve in (mtp, batch)]
    mtp_error, batch_error = errors_of(fit)
    pair = CurvePair(
        mtp=curves[0],
        batch=curves[1],
        accept_length=accept_length(mtp),
        mtp_error=max(mtp_error, LEAST_ERROR),
        batch_error=max(batch_error, LEAST_ERROR),
    )
    return pair, bucket


def conclusion_at(spec: ThroughputProfileSpec, context_tokens: int) -> Conclusion:
    """Crossover and verdict at a context; see `curve_pair` for the errors."""
    return conclusion_of(spec, curve_pair(spec, context_tokens)[0])


def conclusion_of(spec: ThroughputProfileSpec, pair: CurvePair) -> Conclusion:
    """Crossover and verdict of a pair that `curve_pair` made of this spec."""
    mtp_error, batch_error = errors_of(fit_in_force(spec))
    return conclude(pair, mtp_error=mtp_error, batch_error=batch_error)


def context_buckets(spec: ThroughputProfileSpec) -> tuple[int, ...]:
    """Contexts with curves of both modes, rising; may be empty."""
    of = {mode: {curve.context_tokens for curve in spec.curves if curve.mode is mode} for mode in Mode}
    return tuple(sorted(of[Mode.MTP] & of[Mode.BATCH]))


def nearest(buckets: Sequence[int], context_tokens: int) -> int:
    """The bucket nearest in ratio, the shorter one of two.

    Raises:
        InvalidCurve: there is none.
    """
    if not buckets:
        raise InvalidCurve("spec.curves: no contextTokens has a curve of both modes")
    wanted = max(context_tokens, 1)
    return min(buckets, key=lambda tokens: (max(tokens, wanted) / min(tokens, wanted), tokens))


def within(buckets: Sequence[int], context_tokens: int) -> int:
    """The context itself, or the nearest end of what was measured."""
    return min(max(context_tokens, buckets[0]), buckets[-1])


def fit_in_force(spec: ThroughputProfileSpec) -> ProfileFit | None:
    """The fit, unless it was made from other points."""
    return spec.fit if spec.fit is not None and spec.fit.points_sha256 == points_digest(spec.curves) else None


def errors_of(fit: ProfileFit | None) -> tuple[float, float]:
    """Relative standard errors of the mtp and the batch curve; without a fit that of one careful measurement."""
    return (LEAST_ERROR, LEAST_ERROR) if fit is None else (float(fit.mtp_error), float(fit.batch_error))


def step_time_of(fit: ProfileFit | None) -> StepTime | None:
    """The fit's model, None where the table is used."""
    if fit is None or fit.method is not FitMethod.STEP_TIME or fit.parameters is None:
        return None
    found = fit.parameters
    return StepTime(
        step_milliseconds=float(found.step_milliseconds),
        token_milliseconds=float(found.token_milliseconds),
        experts_milliseconds=float(found.experts_milliseconds or 0),
        context_nanoseconds=float(found.context_nanoseconds or 0),
        mtp_context_nanoseconds=float(found.mtp_context_nanoseconds or 0),
        draft_milliseconds=float(found.draft_milliseconds),
        draft_request_milliseconds=float(found.draft_request_milliseconds),
        draft_tokens=fit.draft_tokens or 1,
        experts=fit.experts,
        active_experts=fit.active_experts,
    )


def accept_length(curve: Curve) -> float | None:
    """Of the curve, else the mean of its points that have one."""
    if curve.accept_length is not None:
        return float(curve.accept_length)
    found = [float(point.accept_length) for point in curve.points if point.accept_length is not None]
    return sum(found) / len(found) if found else None


def table_of(curve: Curve) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Levels and tok/s as measured; of the levels beyond the slots, where only so many ran, the mean stands at the slots."""
    inside = [
        (float(point.concurrency), float(point.output_tokens_per_second)) for point in curve.points if point.concurrency < curve.slots
    ]
    full = [float(point.output_tokens_per_second) for point in curve.points if point.concurrency >= curve.slots]
    points = [*inside, (float(curve.slots), sum(full) / len(full))] if full else inside
    return tuple(level for level, _ in points), tuple(rate for _, rate in points)


def _curve_at(spec: ThroughputProfileSpec, mode: Mode, bucket: int) -> Curve:
    return next(curve for curve in spec.curves if curve.mode is mode and curve.context_tokens == bucket)


def _modelled(model: StepTime, curve: Curve, context_tokens: int, accepted: float) -> ThroughputCurve:
    levels = levels_up_to(float(curve.slots))
    rates = model.tokens_per_second(curve.mode, np.array(levels), float(context_tokens), accepted)
    try:
        return ThroughputCurve(concurrency=levels, tokens_per_second=monotone(rates.tolist()))
    except InvalidCurve as error:
        raise InvalidCurve(f"spec.fit.parameters: {error}") from error


def _interpolated(spec: ThroughputProfileSpec, curve: Curve) -> ThroughputCurve:
    path = f"spec.curves[{spec.curves.index(curve)}].points"
    measured, rates = table_of(curve)
    try:
        table = ThroughputCurve(concurrency=measured, tokens_per_second=monotone(rates))
    except InvalidCurve as error:
        raise InvalidCurve(f"{path}: {error}") from error
    levels = levels_up_to(float(curve.slots), keep=measured)
    found = power_law(table.concurrency, table.tokens_per_second, np.array(levels))
    return ThroughputCurve(concurrency=levels, tokens_per_second=monotone(found.tolist()))
