"""The curves that a service is decided by, and where they come from."""

from dataclasses import dataclass

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import Bound, Verdict
from mtpilot.curves.curve import CurvePair


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """One ThroughputProfile in use.

    profile: its name. context_tokens: mean context of the curves taken. crossover: requests at one replica, None: never.
    above: the better mode above it.
    curves: as measured; the rule corrects them by the live acceptance and by the engines' real slots.
    """

    profile: str
    context_tokens: int
    curves: CurvePair
    verdict: Verdict
    crossover: float | None = None
    above: Mode | None = None
    bound: Bound | None = None
