"""The fit of the step-time model to measured points: soft-L1 on log errors, with bounds that keep rates rising. Needs scipy.

The time of a step is linear in its parameters, so non-negative least squares gives the start. All parameters are fitted together over
both modes and all contexts; what a mode adds is fitted as that mode's own constant and slope (a + d0, b (K+1) + d1), which must not be
negative. The accept length is read, never fitted: it and d0 trade off.
"""

from dataclasses import dataclass

import numpy as np

from .step_time import NANOSECONDS, Floats, StepTime, experts_read

# Relative error from which on a point is an outlier to the fit.
SOFT_ERROR = 0.05
LEAST_NOISE = 0.03
_A, _B, _W, _KV, _A_MTP, _B_MTP, _KV_MTP = range(7)
_NAMES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Measured points of both modes, one entry each.

    mtp: whether in mtp mode. requests: that ran. context_tokens, tokens_per_second, accept_length (1 in batch mode): as named.
    """

    mtp: Floats
    requests: Floats
    context_tokens: Floats
    tokens_per_second: Floats
    accept_length: Floats

    def step_milliseconds(self) -> Floats:
        """What a step must have taken."""
        return 1000.0 * self.accept_length * self.requests / self.tokens_per_second


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimeFit:
    """A fitted model and how well it meets the points.

    mape: of the worse mode, as a share. noise: relative standard error of one point. mtp_error, batch_error: root mean square over the
    points of the relative standard error that this noise leaves in the fitted rate (linearised, parameters at a bound held there).
    """

    model: StepTime
    mape: float
    noise: float
    mtp_error: float
    batch_error: float


def fit_step_time(
    points: Points, *, draft_tokens: int, experts: int | None, active_experts: int | None, repeat_noise: float = 0.0
) -> StepTimeFit | None:
    """The model that meets the points best; None where there are too few of them to tell its parameters.

    repeat_noise: relative spread of measurements of the same level, 0: unknown.
    """
    columns = _columns(points, draft_tokens, experts, active_experts)
    free = _identifiable(points, columns)
    if free is None:
        return None
    taken = points.step_milliseconds()
    design = columns[:, free] / taken[:, None]  # relative: the sum of a row is predicted over measured time
    scale = np.maximum(np.abs(design).max(axis=0), 1e-30)
    solution = _solve(design / scale)
    errors = np.log((design / scale) @ solution)
    noise = max(LEAST_NOISE, repeat_noise, _robust_deviation(errors, len(solution)))
    standard = _standard_errors(design / scale, solution, noise)
    found = np.zeros(_NAMES)
    found[free] = solution / scale
    in_mtp = points.mtp > 0
    relative = np.abs(np.expm1(-errors))
    return StepTimeFit(
        model=_model(found, draft_tokens, experts, active_experts),
        mape=max(float(relative[in_mtp].mean()), float(relative[~in_mtp].mean())),
        noise=noise,
        mtp_error=float(np.sqrt(np.mean(standard[in_mtp] ** 2))),
        batch_error=float(np.sqrt(np.mean(standard[~in_mtp] ** 2))),
    )


def _columns(points: Points, draft_tokens: int, experts: int | None, active_experts: int | None) -> Floats:
    """ms of each point's step for a unit of each parameter, (points, 7)."""
    mtp = points.mtp
    tokens = points.requests * (1 + draft_tokens * mtp)
    context = points.requests * points.context_tokens * NANOSECONDS
    batch = 1 - mtp
    own = (batch, batch * points.requests, batch * context, mtp, mtp * points.requests, mtp * context)
    read = experts_read(tokens, experts, active_experts)
    return np.column_stack([own[0], own[1], read, own[2], own[3], own[4], own[5]])


def _identifiable(points: Points, columns: Floats) -> list[int] | None:
    """Parameters that the points can tell; None where a mode has fewer than two levels, or all are fewer than the parameters."""
    levels = [len(np.unique(points.requests[points.mtp == mode])) for mode in (0, 1)]
    contexts = [len(np.unique(points.context_tokens[points.mtp == mode])) for mode in (0, 1)]
    free = [_A, _B, _A_MTP, _B_MTP]
    free += [_W] if columns[:, _W].any() and max(levels) >= 3 else []
    free += [_KV] if contexts[0] > 1 else []
    free += [_KV_MTP] if contexts[1] > 1 else []
    return None if min(levels) < 2 or len(points.requests) <= len(free) else sorted(free)


def _solve(design: Floats) -> Floats:
    """Non-negative parameters with the least soft-L1 sum of log errors, for a design of relative times."""
    from scipy.optimize import least_squares, nnls

    start, _ = nnls(design, np.ones(len(design)))
    start = np.maximum(start, 1e-4)
    result = least_squares(
        lambda p: np.log(design @ p),
        start,
        jac=lambda p: design / (design @ p)[:, None],
        bounds=(0.0, np.inf),
        loss="soft_l1",
        f_scale=SOFT_ERROR,
        x_scale="jac",
        ftol=1e-12,
        xtol=1e-12,
        gtol=1e-12,
    )
    return np.where(result.x < 1e-6, 0.0, result.x)


def _robust_deviation(errors: Floats, parameters: int) -> float:
    """Standard deviation as the mean absolute error of normal errors gives it, for the degrees of freedom that are left."""
    return float(np.sqrt(np.pi / 2) * np.abs(errors).mean() * np.sqrt(len(errors) / max(len(errors) - parameters, 1)))


def _standard_errors(design: Floats, solution: Floats, noise: float) -> Floats:
    """Relative standard error of the fitted rate at each point."""
    inside = design[:, solution > 0]
    jacobian = inside / (design @ solution)[:, None]
    spread = jacobian @ np.linalg.pinv(jacobian.T @ jacobian) @ jacobian.T
    return noise * np.sqrt(np.maximum(np.diag(spread), 0.0))


def _model(found: Floats, draft_tokens: int, experts: int | None, active_experts: int | None) -> StepTime:
    return StepTime(
        step_milliseconds=float(found[_A]),
        token_milliseconds=float(found[_B]),
        experts_milliseconds=float(found[_W]),
        context_nanoseconds=float(found[_KV]),
        mtp_context_nanoseconds=float(found[_KV_MTP]),
        draft_milliseconds=float(found[_A_MTP] - found[_A]),
        draft_request_milliseconds=float(found[_B_MTP] - found[_B] * (draft_tokens + 1)),
        draft_tokens=draft_tokens,
        experts=experts if found[_W] else None,
        active_experts=active_experts if found[_W] else None,
    )
