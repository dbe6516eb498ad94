"""The fit of a profile's curves: the step-time model where it meets the points, else the table itself. Needs scipy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import Curve, FitMethod, ProfileFit, StepTimeParameters

from .decimals import decimal_text, share_text
from .digest import points_digest
from .fit import LEAST_NOISE, Points, StepTimeFit, fit_step_time
from .of_profile import table_of
from .step_time import StepTime
from .table import monotone

# A model that misses the points of a mode by more is not used.
WORST_MAPE = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A fit, and why it is not the step-time model where it is not (empty: it is).

    step_time_mape: how far that model misses the points of the worse mode in the mean, used or not; None where it could not be fitted.
    """

    fit: ProfileFit
    why_interpolation: str = ""
    step_time_mape: float | None = None


def fit_curves(
    curves: Sequence[Curve],
    *,
    draft_tokens: int | None,
    experts: int | None = None,
    active_experts: int | None = None,
    repeat_noise: float = 0.0,
) -> Outcome:
    """Over all modes and contexts together.

    draft_tokens: K, tokens drafted for each request and step; None: not known, which leaves the table. experts, active_experts: routed
    experts of a layer and those that a token uses, None for a dense model. repeat_noise: see `fit_step_time`.
    """
    known = {"draft_tokens": draft_tokens, "experts": experts, "active_experts": active_experts}
    if draft_tokens is None:
        return _interpolation(curves, known, repeat_noise, "the number of drafted tokens is not known")
    assumed = None if all(_is_told(curve) for curve in curves) else 1 + draft_tokens / 2
    found = fit_step_time(
        points_of(curves, assumed or 1.0),
        draft_tokens=draft_tokens,
        experts=experts,
        active_experts=active_experts,
        repeat_noise=repeat_noise,
    )
    if found is None:
        return _interpolation(curves, known, repeat_noise, "there are too few levels to tell the model's parameters")
    if found.mape > WORST_MAPE:
        missed = f"the step-time model misses the points of a mode by {found.mape:.0%} in the mean, more than {WORST_MAPE:.0%}"
        return replace(_interpolation(curves, known, repeat_noise, missed), step_time_mape=found.mape)
    return Outcome(fit=_step_time(curves, known, found, assumed), step_time_mape=found.mape)


def points_of(curves: Sequence[Curve], assumed_accept_length: float) -> Points:
    """All points as arrays, each at the requests that ran; where no accept length was measured the assumed one."""
    rows = [
        (
            float(curve.mode is Mode.MTP),
            float(min(point.concurrency, curve.slots)),
            float(curve.context_tokens),
            float(point.output_tokens_per_second),
            float(point.accept_length or curve.accept_length or assumed_accept_length) if curve.mode is Mode.MTP else 1.0,
        )
        for curve in curves
        for point in curve.points
    ]
    mtp, requests, context, rate, accepted = np.array(rows).T
    return Points(mtp=mtp, requests=requests, context_tokens=context, tokens_per_second=rate, accept_length=accepted)


def _is_told(curve: Curve) -> bool:
    return curve.mode is Mode.BATCH or curve.accept_length is not None or all(point.accept_length for point in curve.points)


def _step_time(curves: Sequence[Curve], known: dict[str, int | None], found: StepTimeFit, assumed: float | None) -> ProfileFit:
    return ProfileFit(
        method=FitMethod.STEP_TIME,
        mape=share_text(found.mape),
        noise=share_text(found.noise),
        mtp_error=share_text(found.mtp_error),
        batch_error=share_text(found.batch_error),
        points_sha256=points_digest(curves),
        **known,
        assumed_accept_length=None if assumed is None else decimal_text(assumed),
        parameters=_parameters(found.model),
    )


def _parameters(model: StepTime) -> StepTimeParameters:
    def some(value: float) -> str | None:
        return decimal_text(value) if value else None

    return StepTimeParameters(
        step_milliseconds=decimal_text(model.step_milliseconds),
        token_milliseconds=decimal_text(model.token_milliseconds),
        experts_milliseconds=some(model.experts_milliseconds),
        context_nanoseconds=some(model.context_nanoseconds),
        mtp_context_nanoseconds=some(model.mtp_context_nanoseconds),
        draft_milliseconds=decimal_text(model.draft_milliseconds),
        draft_request_milliseconds=decimal_text(model.draft_request_milliseconds),
    )


def _interpolation(curves: Sequence[Curve], known: dict[str, int | None], repeat_noise: float, why: str) -> Outcome:
    """The table: it misses its own points only where they fall, and each of its levels is as uncertain as one point."""
    noise = share_text(max(LEAST_NOISE, repeat_noise))
    misses = {mode: [miss for curve in curves if curve.mode is mode for miss in _misses(curve)] for mode in Mode}
    mape = max((sum(found) / len(found) for found in misses.values() if found), default=0.0)
    fit = ProfileFit(
        method=FitMethod.INTERPOLATION,
        mape=share_text(mape),
        noise=noise,
        mtp_error=noise,
        batch_error=noise,
        points_sha256=points_digest(curves),
        **known,
    )
    return Outcome(fit=fit, why_interpolation=why)


def _misses(curve: Curve) -> list[float]:
    _, rates = table_of(curve)
    return [kept / rate - 1 for kept, rate in zip(monotone(rates), rates, strict=True)]
