"""What a profile's curves say, as its status and in words. Cheap enough for the operator to do on every change of a spec."""

from collections.abc import Mapping

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import (
    Bound,
    ContextStatus,
    Crossover,
    Fit,
    FitMethod,
    ThroughputProfileSpec,
    ThroughputProfileStatus,
    Verdict,
)

from .checks import warnings
from .conclusion import Conclusion
from .curve import InvalidCurve
from .decimals import decimal_text, share_text
from .of_profile import conclusion_at, context_buckets, curve_pair, fit_in_force

_MESSAGE_LENGTH = 1024


def status_of(spec: ThroughputProfileSpec, generation: int = 0) -> ThroughputProfileStatus:
    """The whole status of one generation. A profile that gives no pair of curves has only a message that says why."""
    try:
        found = {context: conclusion_at(spec, context) for context in context_buckets(spec)}
        if not found:
            curve_pair(spec, 1)
    except InvalidCurve as error:
        return ThroughputProfileStatus(observed_generation=generation, message=_cut(f"Not usable: {error}"))
    fit = fit_in_force(spec)
    contexts = tuple(
        ContextStatus(context_tokens=context, verdict=conclusion.verdict, crossover=crossover_of(conclusion))
        for context, conclusion in found.items()
    )
    return ThroughputProfileStatus(
        observed_generation=generation,
        fit=None if fit is None else Fit(method=fit.method, mape=fit.mape),
        crossover=contexts[0].crossover,
        verdict=_over_all([context.verdict for context in contexts]),
        message=_cut(". ".join((*_sentences(spec, found), *warnings(spec))) + "."),
        contexts=contexts,
    )


def crossover_of(conclusion: Conclusion) -> Crossover:
    """A conclusion as the API has it."""

    def text(value: float | None) -> str | None:
        return None if value is None else decimal_text(value, 3)

    return Crossover(
        value=text(conclusion.crossover),
        low=text(conclusion.low),
        high=text(conclusion.high),
        above=conclusion.above,
        bound=conclusion.bound,
        probability_none=share_text(conclusion.probability_none),
    )


def sentences(spec: ThroughputProfileSpec) -> list[str]:
    """What each context's curves conclude, without the stops; contexts that conclude the same share a sentence.

    Raises:
        InvalidCurve: see `curve_pair`.
    """
    return _sentences(spec, {context: conclusion_at(spec, context) for context in context_buckets(spec)})


def _sentences(spec: ThroughputProfileSpec, found: Mapping[int, Conclusion]) -> list[str]:
    contexts: dict[tuple[Verdict, str], list[int]] = {}
    for context, conclusion in found.items():
        contexts.setdefault((conclusion.verdict, _reason(spec, context, conclusion)), []).append(context)
    return [f"{verdict} at {', '.join(map(str, at))} tokens of context: {reason}" for (verdict, reason), at in contexts.items()]


def _reason(spec: ThroughputProfileSpec, context_tokens: int, conclusion: Conclusion) -> str:
    if conclusion.crossover is None or conclusion.above is None:
        better, gain = max((conclusion.mtp_gain, Mode.MTP), (conclusion.batch_gain, Mode.BATCH))[::-1]
        return f"{better} serves more at every level, by up to {gain:.0%}"
    behind = Mode.MTP if conclusion.above is Mode.BATCH else Mode.BATCH
    pair, _ = curve_pair(spec, context_tokens)
    why = f"{behind} has {pair.of(behind).slots:g} slots" if conclusion.bound is Bound.SLOTS else f"{behind} is slower there"
    interval = "" if conclusion.low is None or conclusion.high is None else f" ({conclusion.low:.3g} to {conclusion.high:.3g})"
    gains = f"batch serves up to {conclusion.batch_gain:.0%} more, mtp {conclusion.mtp_gain:.0%}"
    return f"{conclusion.above} is better above {conclusion.crossover:.3g} requests at one replica{interval}, {why}; {gains}"


def fit_words(spec: ThroughputProfileSpec) -> str:
    """How the points are joined, in a sentence without the stop."""
    fit = fit_in_force(spec)
    if fit is None:
        return "No fit: a power law from each level to the next"
    error = f"mean error {float(fit.mape):.1%} in the worse mode, noise of a point {float(fit.noise):.1%}"
    return f"Step-time model, {error}" if fit.method is FitMethod.STEP_TIME else f"Interpolation of the table, {error}"


def _over_all(verdicts: list[Verdict]) -> Verdict:
    """Contexts that disagree: which mode is right depends on the load."""
    return verdicts[0] if len(set(verdicts)) == 1 else Verdict.FLIP


def _cut(text: str) -> str:
    return text if len(text) <= _MESSAGE_LENGTH else text[: _MESSAGE_LENGTH - 1] + "…"
