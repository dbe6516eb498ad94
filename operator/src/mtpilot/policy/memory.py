"""What the predictive rule remembers, between the text of `PolicyState` and numbers.

Whatever cannot be read counts as never seen, so a state that is lost or edited costs some minutes of data, never a wrong move.
"""

from dataclasses import dataclass

from mtpilot.api.status import PolicyState

from .loop import LoopMemory
from .predictive import Memory
from .refine import Level, Refinement
from .timing import decimal, number

Fields = dict[str, str | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """accept_length: of loaded mtp replicas, smoothed; None: not seen. mtp_slots, batch_slots: effective ones, as last seen."""

    rule: Memory
    refinement: Refinement
    accept_length: float | None = None
    mtp_slots: int | None = None
    batch_slots: int | None = None


def recall(state: PolicyState) -> Remembered:
    weight = number(state.closed_weight)
    return Remembered(
        rule=Memory(
            demand=number(state.smoothed_tokens_per_second),
            in_system=number(state.in_system),
            loop=LoopMemory(
                closed_weight=0.5 if weight is None else min(weight, 1.0),
                compared=number(state.compared_in_system),
                since_seconds=number(state.compared_seconds) or 0.0,
            ),
            price_to_batch=number(state.price_to_batch),
            price_to_mtp=number(state.price_to_mtp),
        ),
        refinement=Refinement(
            mtp=_level(state.mtp_level, state.mtp_level_weight),
            batch=_level(state.batch_level, state.batch_level_weight),
            drift_seconds=float(state.drift_seconds),
        ),
        accept_length=number(state.accept_length) or None,
        mtp_slots=state.mtp_slots,
        batch_slots=state.batch_slots,
    )


def record(remembered: Remembered) -> Fields:
    """Fields of the state. The smoothed demand is shared with the rule without a profile."""
    rule, refinement = remembered.rule, remembered.refinement
    return {
        "smoothed_tokens_per_second": None if rule.demand is None else decimal(rule.demand),
        "in_system": _text(rule.in_system),
        "closed_weight": _text(rule.loop.closed_weight),
        "compared_in_system": _text(rule.loop.compared),
        "compared_seconds": _text(rule.loop.since_seconds),
        "price_to_batch": _text(rule.price_to_batch),
        "price_to_mtp": _text(rule.price_to_mtp),
        "accept_length": _text(remembered.accept_length),
        "mtp_slots": remembered.mtp_slots,
        "batch_slots": remembered.batch_slots,
        "mtp_level": _text(refinement.mtp.value),
        "mtp_level_weight": _text(refinement.mtp.known),
        "batch_level": _text(refinement.batch.value),
        "batch_level_weight": _text(refinement.batch.known),
        "drift_seconds": round(refinement.drift_seconds),
    }


def _level(value: str | None, known: str | None) -> Level:
    ratio = number(value)
    return Level(value=ratio, known=min(number(known) or 0.0, 1.0)) if ratio else Level()


def _text(value: float | None) -> str | None:
    """Six digits after the point: averages of ten-second samples move by less than three would show."""
    return None if value is None else f"{value:.6f}"
