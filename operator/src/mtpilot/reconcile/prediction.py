"""What the predictive rule sees, as status tells it: profile, kind of load, and what staying and each move would cost."""

from datetime import timedelta

from mtpilot.api.status import LoopStatus, MixCostStatus, OutlookStatus, ProfileInUseStatus
from mtpilot.api.types import format_duration
from mtpilot.model.decision import MixCost, Outlook

from .profiles import Selection
from .status import mix_spec, two_digits


def profile_in_use(selection: Selection, remedy: str | None) -> ProfileInUseStatus:
    """The profile and why it is this one, or what is missing for one."""
    calibration = selection.calibration
    message = "; ".join((selection.message, *selection.notes))[:1024]
    if calibration is None:
        return ProfileInUseStatus(message=message, first_remedy=remedy)
    return ProfileInUseStatus(
        name=calibration.profile,
        context_tokens=calibration.context_tokens,
        crossover=two_digits(calibration.crossover) if calibration.crossover is not None else None,
        above=calibration.above,
        bound=calibration.bound,
        verdict=calibration.verdict,
        message=message,
        first_remedy=remedy,
    )


def loop_seen(outlook: Outlook | None) -> LoopStatus | None:
    if outlook is None:
        return None
    return LoopStatus(kind=outlook.loop, confidence=two_digits(outlook.loop_confidence))


def outlook_seen(outlook: Outlook | None) -> OutlookStatus | None:
    if outlook is None:
        return None
    return OutlookStatus(
        horizon=format_duration(timedelta(seconds=round(outlook.horizon_seconds))),
        staying=_cost(outlook.staying),
        moves=tuple(_cost(move) for move in outlook.moves),
        price_of_return=two_digits(outlook.price_of_return),
        best=mix_spec(outlook.best),
        draws_better=_optional(outlook.draws_better),
        batch_above_tokens_per_second=_optional(outlook.batch_above_tokens_per_second),
        mtp_below_tokens_per_second=_optional(outlook.mtp_below_tokens_per_second),
    )


def _cost(cost: MixCost) -> MixCostStatus:
    return MixCostStatus(mix=mix_spec(cost.mix), request_minutes=two_digits(cost.request_minutes), feasible=cost.feasible)


def _optional(value: float | None) -> str | None:
    return two_digits(value) if value is not None else None
