"""The last decisions and their events, derived from the rollout state of the slots.

Since a decision stands on its slot from the moment it is made, history can always be completed after a crash; and since
events come from the difference to the history read, each decision is announced at least once.
"""

from datetime import datetime

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import HistoryEntry
from mtpilot.model.plan import Event, EventType
from mtpilot.model.reasons import Reason
from mtpilot.model.slots import RolloutState

KEPT = 10
STARTED, COMPLETED, ROLLED_BACK = "Started", "Completed", "RolledBack"


def timestamp(at: datetime) -> str:
    """RFC 3339 to the second, UTC."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def entry_of(name: str, state: RolloutState) -> HistoryEntry | None:
    """The history entry of a slot's latest flip."""
    if state.decided_at is None or state.from_mode is None:
        return None
    rolled_back = state.completed_at is not None and state.failed_at is not None and state.failed_at == state.completed_at
    to = state.from_mode.other
    outcome = ROLLED_BACK if rolled_back else COMPLETED if state.completed_at is not None else STARTED
    seconds = round((state.completed_at - state.decided_at).total_seconds()) if state.completed_at and not rolled_back else None
    return HistoryEntry(
        at=timestamp(state.decided_at),
        slot=name,
        from_mode=state.from_mode,
        to_mode=to,
        outcome=outcome,
        reason=state.reason or Reason.PINNED_MIX,
        message=state.message or "",
        seconds=seconds,
    )


def merge(old: tuple[HistoryEntry, ...], states: dict[str, RolloutState]) -> tuple[HistoryEntry, ...]:
    """Old entries updated by what the slots say, newest last, at most KEPT. An outcome once known is kept."""
    entries = {(entry.slot, entry.at): entry for entry in old}
    for name, state in states.items():
        entry = entry_of(name, state)
        if entry is None:
            continue
        known = entries.get((entry.slot, entry.at))
        if known is None or known.outcome == STARTED:
            entries[entry.slot, entry.at] = entry
    return tuple(sorted(entries.values(), key=lambda entry: (entry.at, entry.slot))[-KEPT:])


def events(old: tuple[HistoryEntry, ...], new: tuple[HistoryEntry, ...]) -> tuple[Event, ...]:
    """Events for entries that are new or whose outcome became known."""
    known = {(entry.slot, entry.at): entry.outcome for entry in old}
    found: list[Event] = []
    for entry in new:
        before = known.get((entry.slot, entry.at))
        if before == entry.outcome:
            continue
        if before is None:
            found.append(_event(EventType.NORMAL, Reason.FLIP_STARTED, f"{_flip(entry)}: {entry.message}"))
        if entry.outcome == COMPLETED:
            found.append(_event(EventType.NORMAL, Reason.FLIP_COMPLETED, f"{_flip(entry)} took {entry.seconds}s"))
        if entry.outcome == ROLLED_BACK:
            found.append(_event(EventType.WARNING, Reason.FLIP_ROLLED_BACK, f"{_flip(entry)} was not ready in time and was rolled back"))
    return tuple(found)


def _flip(entry: HistoryEntry) -> str:
    return f"{entry.slot} {Mode(entry.from_mode)} → {Mode(entry.to_mode)}"


def _event(kind: EventType, reason: Reason, message: str) -> Event:
    return Event(type=kind, reason=reason, message=message, action="Flip")
