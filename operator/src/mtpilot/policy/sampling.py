"""Whether a look is a new sample, and whether it can be believed.

Looks that come faster than the scrapes see the same sample again: they count once, whatever woke the caller.
"""

from dataclasses import dataclass
from datetime import datetime

from mtpilot.api.status import PolicyState
from mtpilot.model.decision import Demand

from .timing import from_text, to_text

QUEUED_SAMPLES_KEPT = 10
CONTRADICTED_SAMPLES_TO_HOLD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """fresh: the sample is new and is taken. elapsed_seconds: since the one before; None: there is none.

    frozen: replicas whose series stand still: nothing is known of the load. fields: of the state after this look.
    """

    fresh: bool
    elapsed_seconds: float | None
    frozen: tuple[str, ...] = ()
    fields: dict[str, str | int | None]


def sample(demand: Demand, state: PolicyState, now: datetime, *, forget_after_seconds: float) -> Sampling:
    """forget_after_seconds: an absence after which what was counted before says nothing."""
    observed = from_text(state.observed_at)
    elapsed = (now - observed).total_seconds() if observed is not None and observed <= now else None
    if elapsed is not None and elapsed < 0.9 * demand.scrape_interval_seconds:
        frozen = demand.contradicted if state.contradicted_samples >= CONTRADICTED_SAMPLES_TO_HOLD else ()
        return Sampling(fresh=False, elapsed_seconds=elapsed, frozen=frozen, fields={})
    contradicted = min(state.contradicted_samples + 1, CONTRADICTED_SAMPLES_TO_HOLD) if demand.contradicted else 0
    fields: dict[str, str | int | None] = {"contradicted_samples": contradicted, "observed_at": to_text(now)}
    if contradicted == CONTRADICTED_SAMPLES_TO_HOLD:
        return Sampling(fresh=False, elapsed_seconds=elapsed, frozen=demand.contradicted, fields=fields)
    queued_before = 0 if elapsed is None or elapsed > forget_after_seconds else state.queued_samples
    fields["queued_samples"] = min(queued_before + 1, QUEUED_SAMPLES_KEPT) if demand.queued > 0 else 0
    return Sampling(fresh=True, elapsed_seconds=elapsed, fields=fields)
