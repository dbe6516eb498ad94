"""Spells of a closed loop: for how long one mode stays the better one, and what each mode serves over the changes.

What a move gains in a closed loop lasts until the number of clients changes, not for the whole horizon: a job that alternates
every twenty minutes is not worth following with flips of four, and the mode that does better over both halves is. The lengths
are learned from the spells that ended, with how much they differ: regular ones end when their time is up, irregular ones may
go on for as long as they usually last.
"""

from dataclasses import dataclass

NEW_SHARE = 0.5  # of the last spell in the usual length: a few spells teach it
LONGEST_MINUTES = 240.0  # that one spell counts for
SHORTEST_LEFT_MINUTES = 5.0  # a spell that has lasted its time is not over yet
REMEMBERED_MINUTES = 240.0  # of what each mode serves
LEAST_MINUTES = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """batch: batch is the better mode now; None: not seen yet. minutes: since when.

    usual_minutes, spread_minutes: length of the spells that ended, and its mean deviation; None: none has ended.
    mtp_rate, batch_rate: tok/s a replica that a fleet of one mode would have served in the mean, over seen_minutes.
    """

    batch: bool | None = None
    minutes: float = 0.0
    usual_minutes: float | None = None
    spread_minutes: float = 0.0
    mtp_rate: float = 0.0
    batch_rate: float = 0.0
    seen_minutes: float = 0.0


FIRST_SPELL = Spell()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """What a closed loop is taken to do: `minutes` more as it is now, then as usual; rates in tok/s of a fleet of one mode."""

    minutes: float
    mtp_rate: float
    batch_rate: float

    @property
    def best_rate(self) -> float:
        return max(self.mtp_rate, self.batch_rate)

    def rate(self, batch_share: float) -> float:
        """tok/s that a mix with this share of batch replicas usually serves."""
        return self.mtp_rate + batch_share * (self.batch_rate - self.mtp_rate)


def go_on(spell: Spell, *, batch: bool, mtp_rate: float, batch_rate: float, elapsed_minutes: float, horizon_minutes: float) -> Spell:
    """One sample later.

    batch: batch is the better mode. mtp_rate, batch_rate: tok/s a replica that a fleet of one mode would serve now.
    horizon_minutes: what the first spell that ends is averaged with.
    """
    step = max(elapsed_minutes, LEAST_MINUTES)
    seen = min(spell.seen_minutes + step, REMEMBERED_MINUTES)
    share = step / seen
    usual, spread, minutes = spell.usual_minutes, spell.spread_minutes, spell.minutes + elapsed_minutes
    if spell.batch is not None and spell.batch != batch:
        before, spread = (horizon_minutes, horizon_minutes) if usual is None else (usual, spread)
        off = min(spell.minutes, LONGEST_MINUTES) - before
        usual, spread, minutes = before + NEW_SHARE * off, spread + NEW_SHARE * (abs(off) - spread), 0.0
    return Spell(
        batch=batch,
        minutes=minutes,
        usual_minutes=usual,
        spread_minutes=spread,
        mtp_rate=spell.mtp_rate + share * (mtp_rate - spell.mtp_rate),
        batch_rate=spell.batch_rate + share * (batch_rate - spell.batch_rate),
        seen_minutes=seen,
    )


def left_minutes(spell: Spell, horizon_minutes: float) -> float:
    """For how long the present spell goes on, as far as the horizon reaches."""
    if not spell.usual_minutes:
        return horizon_minutes
    irregular = min(1.0, spell.spread_minutes / spell.usual_minutes)
    regular_left = max(spell.usual_minutes - spell.minutes, SHORTEST_LEFT_MINUTES)
    left = irregular * max(spell.usual_minutes, spell.minutes) + (1.0 - irregular) * regular_left
    return min(left, horizon_minutes)


def ahead(spell: Spell, replicas: int, horizon_minutes: float) -> Ahead:
    return Ahead(minutes=left_minutes(spell, horizon_minutes), mtp_rate=spell.mtp_rate * replicas, batch_rate=spell.batch_rate * replicas)
