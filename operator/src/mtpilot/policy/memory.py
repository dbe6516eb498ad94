"""What the predictive rule remembers, between the text of `PolicyState` and numbers.

Whatever cannot be read counts as never seen, so a state that is lost or edited costs some minutes of data, never a wrong move.
"""

from dataclasses import dataclass
from functools import lru_cache

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import PolicyState

from .loop import LoopMemory
from .predictive import Memory
from .refine import Level, Refinement
from .regret import NO_REGRET, Regret
from .spell import FIRST_SPELL, Spell
from .timing import decimal, number, signed
from .wavering import MINUTES, NOTHING_SEEN, Lately

Fields = dict[str, str | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """accept_length: of loaded mtp replicas, smoothed; None: not seen. mtp_slots, batch_slots: below the request, as last reported."""

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
            spell=_spell(state),
            lately=_lately(state),
            regret=_regret(state),
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
        **_spell_fields(rule.spell),
        **_lately_fields(rule.lately),
        **_regret_fields(rule.regret),
        "accept_length": _text(remembered.accept_length),
        "mtp_slots": remembered.mtp_slots,
        "batch_slots": remembered.batch_slots,
        "mtp_level": _text(refinement.mtp.value),
        "mtp_level_weight": _text(refinement.mtp.known),
        "batch_level": _text(refinement.batch.value),
        "batch_level_weight": _text(refinement.batch.known),
        "drift_seconds": round(refinement.drift_seconds),
    }


def _lately(state: PolicyState) -> Lately:
    minutes = _minutes(state.recent_tokens_per_second or "")
    if minutes is None:
        return NOTHING_SEEN
    return Lately(minutes=minutes, tokens=number(state.minute_tokens) or 0.0, seconds=number(state.minute_seconds) or 0.0)


# The same text is read and written at each tick of a minute.
@lru_cache(maxsize=1024)
def _minutes(text: str) -> tuple[float, ...] | None:
    found = tuple(rate for rate in map(number, text.split()) if rate is not None)
    return found[-MINUTES:] if len(found) == len(text.split()) else None


@lru_cache(maxsize=1024)
def _minutes_text(minutes: tuple[float, ...]) -> str | None:
    return " ".join(f"{rate:.1f}" for rate in minutes) or None


def _lately_fields(lately: Lately) -> Fields:
    return {
        "recent_tokens_per_second": _minutes_text(lately.minutes),
        "minute_tokens": _text(lately.tokens),
        "minute_seconds": _text(lately.seconds),
    }


def _regret(state: PolicyState) -> Regret:
    to_batch, to_mtp = signed(state.regret_to_batch), signed(state.regret_to_mtp)
    if state.regret_batch is None or to_batch is None or to_mtp is None:
        return NO_REGRET
    return Regret(batch=state.regret_batch, to_batch=to_batch, to_mtp=to_mtp)


def _regret_fields(regret: Regret) -> Fields:
    """Nothing where it is not kept."""
    if regret.batch is None:
        return {}
    return {"regret_batch": regret.batch, "regret_to_batch": _text(regret.to_batch), "regret_to_mtp": _text(regret.to_mtp)}


def _spell(state: PolicyState) -> Spell:
    seen = number(state.usual_seen_minutes)
    rates = number(state.usual_mtp_tokens_per_second), number(state.usual_batch_tokens_per_second)
    if state.spell_mode is None or not seen or rates[0] is None or rates[1] is None:
        return FIRST_SPELL
    return Spell(
        batch=state.spell_mode is Mode.BATCH,
        minutes=number(state.spell_minutes) or 0.0,
        usual_minutes=number(state.usual_spell_minutes),
        spread_minutes=number(state.spell_spread_minutes) or 0.0,
        mtp_rate=rates[0],
        batch_rate=rates[1],
        seen_minutes=seen,
    )


def _spell_fields(spell: Spell) -> Fields:
    """Nothing where clients that wait were never seen."""
    if spell.batch is None:
        return {}
    return {
        "spell_mode": Mode.BATCH if spell.batch else Mode.MTP,
        "spell_minutes": _text(spell.minutes),
        "usual_spell_minutes": _text(spell.usual_minutes),
        "spell_spread_minutes": _text(spell.spread_minutes),
        "usual_mtp_tokens_per_second": _text(spell.mtp_rate),
        "usual_batch_tokens_per_second": _text(spell.batch_rate),
        "usual_seen_minutes": _text(spell.seen_minutes),
    }


def _level(value: str | None, known: str | None) -> Level:
    ratio = number(value)
    return Level(value=ratio, known=min(number(known) or 0.0, 1.0)) if ratio else Level()


def _text(value: float | None) -> str | None:
    """Six digits after the point: averages of ten-second samples move by less than three would show."""
    return None if value is None else f"{value:.6f}"
