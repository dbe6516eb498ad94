"""The slots of a replica: what its engine says, and only before that the estimate."""

from dataclasses import dataclass
from enum import StrEnum

from mtpilot.model.slots import EngineLoad


class SlotSource(StrEnum):
    """Where a number of slots comes from."""

    ENGINE = "Engine"
    ESTIMATE = "Estimate"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSlots:
    """Slots of a replica and their source."""

    slots: int
    source: SlotSource


def effective_slots(load: EngineLoad | None, estimate: int | None) -> KnownSlots | None:
    """`max_running_requests` of `/v1/loads` where the engine gave it, else the estimate; None where neither is known.

    The engine has measured its memory, so its number goes first even where it is far from the estimate.
    """
    reported = load.effective_max_running_requests if load is not None else None
    if reported is not None and reported > 0:
        return KnownSlots(slots=reported, source=SlotSource.ENGINE)
    return KnownSlots(slots=estimate, source=SlotSource.ESTIMATE) if estimate is not None else None
