"""From a ThroughputProfile to the curves that a decision is made by."""

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import Bound, Curve, ThroughputProfileSpec, Verdict
from mtpilot.curves.curve import CurvePair, InvalidCurve, ThroughputCurve
from mtpilot.model.calibration import Calibration


class UnusableProfileError(ValueError):
    """A profile that gives no pair of curves; the message says why."""


def calibrate(name: str, spec: ThroughputProfileSpec, context_tokens: int) -> Calibration:
    """Curves of both modes at the measured context that is nearest.

    Raises:
        UnusableProfileError: a mode is missing, or its points are no curve.
    """
    shared = {curve.context_tokens for curve in spec.curves if curve.mode is Mode.MTP} & {
        curve.context_tokens for curve in spec.curves if curve.mode is Mode.BATCH
    }
    if not shared:
        raise UnusableProfileError("it has no context with curves of both modes")
    bucket = min(shared, key=lambda tokens: (max(tokens, context_tokens) / min(tokens, context_tokens), tokens))
    found = {curve.mode: curve for curve in spec.curves if curve.context_tokens == bucket}
    accepted = found[Mode.MTP].accept_length
    try:
        pair = CurvePair(mtp=_curve(found[Mode.MTP]), batch=_curve(found[Mode.BATCH]), accept_length=float(accepted) if accepted else None)
    except InvalidCurve as error:
        raise UnusableProfileError(str(error)) from error
    return Calibration(profile=name, context_tokens=bucket, curves=pair, verdict=Verdict.FLIP, bound=Bound.SLOTS)


def _curve(curve: Curve) -> ThroughputCurve:
    measured = ThroughputCurve(
        concurrency=tuple(float(point.concurrency) for point in curve.points),
        tokens_per_second=tuple(float(point.output_tokens_per_second) for point in curve.points),
    )
    return measured.with_slots(curve.slots)
