"""Writes on a slot's object, whatever its kind is."""

from mtpilot.model.plan import DeleteObject, SetRolloutState
from mtpilot.model.slots import RolloutState, Slot


def set_state(slot: Slot, state: RolloutState) -> SetRolloutState:
    return SetRolloutState(slot=slot.name, kind=slot.kind, uid=slot.uid, state=state)


def delete_slot(slot: Slot, why: str) -> DeleteObject:
    return DeleteObject(api_version=slot.kind.api_version, kind=slot.kind, name=slot.name, uid=slot.uid, why=why)
