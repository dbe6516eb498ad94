"""The curves that a service is decided by, and where they come from."""

from dataclasses import dataclass
from typing import Self

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import Bound, Verdict
from mtpilot.curves.conclusion import Conclusion
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

    @classmethod
    def concluded(cls, profile: str, context_tokens: int, curves: CurvePair, conclusion: Conclusion) -> Self:
        """A pair of curves with what it concludes."""
        return cls(
            profile=profile,
            context_tokens=context_tokens,
            curves=curves,
            verdict=conclusion.verdict,
            crossover=conclusion.crossover,
            above=conclusion.above,
            bound=conclusion.bound,
        )
