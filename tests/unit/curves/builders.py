"""Small profiles and pairs of curves that tests bend."""

from collections.abc import Sequence
from typing import Any

from mtpilot.api.throughput_profile import ProfileFit, ThroughputProfileSpec
from mtpilot.curves.curve import CurvePair, ThroughputCurve
from mtpilot.curves.fit_profile import fit_curves

Points = Sequence[tuple[int, float]]

LEVELS = (1, 2, 4, 8, 16, 24, 32, 48, 68)


def power(scale: float, exponent: float, slots: int) -> tuple[tuple[int, float], ...]:
    """Points of a power law at the levels up to the slots."""
    return tuple((level, scale * level**exponent) for level in LEVELS if level <= slots)


MTP = power(121.5, 0.83, 24)
BATCH = power(108, 0.771, 68)


def curve(points: Points = BATCH, *, mode: str = "batch", context: int = 1000, slots: int | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "mode": mode,
        "contextTokens": context,
        "slots": slots or points[-1][0],
        "points": [{"concurrency": level, "outputTokensPerSecond": f"{rate:.5g}"} for level, rate in points],
    } | changes


def mtp_curve(points: Points = MTP, **changes: Any) -> dict[str, Any]:
    return curve(points, mode="mtp", **({"acceptLength": "1.8"} | changes))


def spec(*curves: dict[str, Any], fit: ProfileFit | None = None, **changes: Any) -> ThroughputProfileSpec:
    """A profile; without curves those of the 122B report."""
    document = {
        "model": {"source": "hf://org/model"},
        "hardwareClass": "gpu-x4",
        "acceptance": "Natural",
        "curves": list(curves) or [mtp_curve(), curve()],
        "provenance": {"source": "a test"},
    } | changes
    made = ThroughputProfileSpec.model_validate(document)
    return made.model_copy(update={"fit": fit}) if fit else made


def fitted(*curves: dict[str, Any], draft_tokens: int | None = 1, **changes: Any) -> ThroughputProfileSpec:
    """The same with its fit."""
    made = spec(*curves, **changes)
    outcome = fit_curves(made.curves, draft_tokens=draft_tokens)
    return made.model_copy(update={"fit": outcome.fit})


def pair(mtp: Points = MTP, batch: Points = BATCH, **changes: Any) -> CurvePair:
    def of(points: Points) -> ThroughputCurve:
        levels, rates = zip(*points, strict=True)
        return ThroughputCurve(concurrency=tuple(map(float, levels)), tokens_per_second=rates)

    return CurvePair(mtp=of(mtp), batch=of(batch), **changes)
