"""What is wrong with a profile, and what to mind in one that is right.

`problems` are the API server's own rules on a ThroughputProfile (`api.rules`; the samples hold both together), for a file that no server
has seen. `warnings` are about the measurement: they do not make a profile unusable, they say how far to trust it.
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import Acceptance, Curve, CurvePoint, FitMethod, ProfileFit, ThroughputProfileSpec

from .of_profile import accept_length, context_buckets, fit_in_force, table_of

# Without a level this high, or at the slots, the curves at high load are extrapolated: errors of 25 to 31 % were seen.
HIGH_LEVEL = 64
FEWEST_LEVELS = 3
_FALL = 0.03


def problems(spec: ThroughputProfileSpec) -> list[str]:
    """What the API server would refuse, each beginning with the field's path; empty: nothing."""
    found = [problem for index, curve in enumerate(spec.curves) for problem in _curve_problems(curve, f"spec.curves[{index}]")]
    keys = [(curve.mode, curve.context_tokens) for curve in spec.curves]
    for index, key in enumerate(keys):
        if key in keys[:index]:
            found.append(f"spec.curves[{index}]: mode {key[0]} with contextTokens {key[1]} stands twice")
    if not _is_time(spec.provenance.measured_at):
        found.append(f"spec.provenance.measuredAt: no time like 2026-11-20T09:00:00Z: {spec.provenance.measured_at}")
    return found + (_fit_problems(spec.fit) if spec.fit is not None else [])


def _is_time(text: str | None) -> bool:
    """RFC 3339 with its zone, or absent."""
    try:
        return text is None or datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _curve_problems(curve: Curve, path: str) -> Iterator[str]:
    if curve.mode is Mode.BATCH and (curve.accept_length is not None or any(point.accept_length is not None for point in curve.points)):
        yield f"{path}.acceptLength: acceptLength has no meaning on a curve of mode batch"
    elif curve.accept_length is not None and not 1 <= float(curve.accept_length) <= 257:
        yield f"{path}.acceptLength: acceptLength must be from 1 (nothing accepted) to 257: it counts the bonus token"
    for index, point in enumerate(curve.points):
        yield from _point_problems(point, f"{path}.points[{index}]")
    levels = [point.concurrency for point in curve.points]
    for before, after in pairwise(levels):
        if after == before:
            yield f"{path}.points: concurrency {after} stands twice"
        elif after < before:
            yield f"{path}.points: points must stand by rising concurrency, {after} comes after {before}"


def _point_problems(point: CurvePoint, path: str) -> Iterator[str]:
    total = float(point.output_tokens_per_second)
    if total <= 0:
        yield f"{path}.outputTokensPerSecond: outputTokensPerSecond must be above 0"
    one = None if point.per_request_tokens_per_second is None else float(point.per_request_tokens_per_second)
    if one is not None and not 0 < one <= 1.01 * total:
        yield (
            f"{path}.perRequestTokensPerSecond: perRequestTokensPerSecond must be above 0 and not exceed outputTokensPerSecond, "
            f"it is {one:g} of {total:g}"
        )
    if point.accept_length is not None and not 1 <= float(point.accept_length) <= 257:
        yield f"{path}.acceptLength: acceptLength must be from 1 (nothing accepted) to 257: it counts the bonus token"


def _fit_problems(fit: ProfileFit) -> list[str]:
    found = []
    modelled = fit.method is FitMethod.STEP_TIME
    if modelled != (fit.parameters is not None) or (modelled and fit.draft_tokens is None):
        words = "fit: method StepTime needs parameters and draftTokens, method Interpolation must not have parameters"
        found.append(f"spec.fit.parameters: {words}")
    together = (fit.experts is None) == (fit.active_experts is None)
    if not together or (fit.experts is not None and fit.active_experts is not None and fit.active_experts >= fit.experts):
        words = "fit: experts and activeExperts belong together, and activeExperts must be below experts"
        found.append(f"spec.fit.activeExperts: {words}")
    return found


def warnings(spec: ThroughputProfileSpec) -> list[str]:
    """What to mind, most important first; empty: nothing. What is said of several curves is said once."""
    of_curves: dict[tuple[Mode, str], list[int]] = {}
    for curve in spec.curves:
        for text in (*_of_pairing(spec, curve), *_of_acceptance(spec, curve), *_of_levels(curve)):
            of_curves.setdefault((curve.mode, text), []).append(curve.context_tokens)
    found = [f"{mode} at {', '.join(map(str, contexts))} tokens of context: {text}" for (mode, text), contexts in of_curves.items()]
    return [*_of_the_whole(spec), *found]


def _of_the_whole(spec: ThroughputProfileSpec) -> Iterator[str]:
    if spec.fit is not None and fit_in_force(spec) is None:
        yield "spec.fit was made from other points (pointsSha256): it does not count, run `mtpilot profile fit` or `profile merge` again"
    if spec.acceptance is Acceptance.SYNTHETIC:
        yield "acceptance is Synthetic: made-up text is accepted more or less than real text, so check the live accept length"


def _of_pairing(spec: ThroughputProfileSpec, curve: Curve) -> Iterator[str]:
    if curve.context_tokens not in context_buckets(spec):
        yield "there is no curve of the other mode at this context, so it is not used"


def _of_acceptance(spec: ThroughputProfileSpec, curve: Curve) -> Iterator[str]:
    if curve.mode is Mode.BATCH:
        return
    accepted = accept_length(curve)
    if accepted is None:
        yield "acceptLength is missing, so the curve cannot follow the live acceptance"
    elif spec.fit is not None and spec.fit.draft_tokens is not None and accepted >= spec.fit.draft_tokens + 1:
        yield (
            f"acceptLength {accepted:g} is its bound, {spec.fit.draft_tokens} drafted tokens and the bonus token: "
            "every draft was accepted, as repeated tokens are, so the curve is an upper bound"
        )


def _of_levels(curve: Curve) -> Iterator[str]:
    levels, rates = table_of(curve)
    if len(levels) < FEWEST_LEVELS:
        yield f"{len(levels)} level{'s' * (len(levels) > 1)}, fewer than {FEWEST_LEVELS}: what lies between is a guess"
    if levels[-1] < min(HIGH_LEVEL, curve.slots):
        yield (
            f"the highest level is {levels[-1]:g} of {curve.slots} slots; measure one at {HIGH_LEVEL} or at the slots, "
            "or the curve at high load may be wrong by a quarter"
        )
    for (_, before), (level, after) in pairwise(zip(levels, rates, strict=True)):
        if after < before * (1 - _FALL):
            yield (
                f"tok/s falls from {before:g} to {after:g} at {level:g} requests; the curve stays at the higher rate, "
                "which --max-running-requests below that level gives"
            )
