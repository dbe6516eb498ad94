"""From a ThroughputProfile to the curves that a decision is made by."""

from mtpilot.api.throughput_profile import ThroughputProfileSpec
from mtpilot.curves.curve import InvalidCurve
from mtpilot.curves.of_profile import conclusion_of, curve_pair
from mtpilot.model.calibration import Calibration


class UnusableProfileError(ValueError):
    """A profile that gives no pair of curves; the message says why."""


def calibrate(name: str, spec: ThroughputProfileSpec, context_tokens: int) -> Calibration:
    """Curves of both modes at a context, and what they conclude.

    Raises:
        UnusableProfileError: no context has curves of both modes, or points are no curve.
    """
    try:
        pair, bucket = curve_pair(spec, context_tokens)
        conclusion = conclusion_of(spec, pair)
    except InvalidCurve as error:
        raise UnusableProfileError(str(error)) from error
    return Calibration.concluded(name, bucket, pair, conclusion)
