"""The policies that a replay can compare, by name."""

from collections.abc import Callable

from mtpilot.api.inference_service import Mode
from mtpilot.curves.conclusion import conclude
from mtpilot.curves.curve import CurvePair
from mtpilot.model.calibration import Calibration

from .decided import Decided
from .driver import Policy
from .policies import AdaptiveSpeculation, Always, ThresholdDemand, ThresholdRunning

OPTIMUM = "optimum"
PREDICTIVE = "predictive"
STATICS = ("always_mtp", "always_batch")

_MAKERS: dict[str, Callable[[Calibration, bool, bool], Policy]] = {
    "always_mtp": lambda calibration, guards, explain: Always(Mode.MTP),
    "always_batch": lambda calibration, guards, explain: Always(Mode.BATCH),
    "adaptive_0": lambda calibration, guards, explain: AdaptiveSpeculation(0.0),
    "adaptive_7": lambda calibration, guards, explain: AdaptiveSpeculation(0.07),
    "adaptive_20": lambda calibration, guards, explain: AdaptiveSpeculation(0.20),
    "threshold_running": lambda calibration, guards, explain: ThresholdRunning(conclude(calibration.curves)),
    "threshold_demand": lambda calibration, guards, explain: ThresholdDemand(),
    "uncalibrated": lambda calibration, guards, explain: Decided("uncalibrated", None, guards=guards, explain=explain),
    PREDICTIVE: lambda calibration, guards, explain: Decided(PREDICTIVE, calibration, guards=guards, explain=explain),
}
NAMES = tuple(_MAKERS)
DESCRIPTIONS = {
    "always_mtp": "every replica in mtp mode for ever",
    "always_batch": "every replica in batch mode for ever",
    "adaptive_0": "SGLang's adaptive speculation in mtp's slots, no tax where it does not draft",
    "adaptive_7": "the same with a tax of 7 %",
    "adaptive_20": "the same with a tax of 20 %",
    "threshold_running": "one threshold on running requests, at the crossover",
    "threshold_demand": "two thresholds on demand, 0.97 and 0.75 of the mtp capacity",
    "uncalibrated": "the operator without a profile",
    PREDICTIVE: "the operator with the profile",
    OPTIMUM: "the best that knowing the future could do",
}


def policy(name: str, calibration: Calibration, *, guards: bool = True, explain: bool = False) -> Policy:
    """The policy of this name. guards: see `decided.spec_of`; explain: see `Decided`. KeyError: there is none."""
    return _MAKERS[name](calibration, guards, explain)


def calibration(name: str, pair: CurvePair, context_tokens: int = 1) -> Calibration:
    """A pair of curves as a profile would give it."""
    return Calibration.concluded(name, context_tokens, pair, conclude(pair))
