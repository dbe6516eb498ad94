"""Which slot: to flip, to retire, to create. Deterministic, so that two looks at the same objects choose the same one."""

from collections.abc import Iterable, Mapping, Sequence

from mtpilot.api.inference_service import Mode
from mtpilot.model.slots import EngineLoad, Pod, Slot

from .pods import in_flight, live
from .step import is_moving, state_of


def pods_of(slot: Slot, pods: Iterable[Pod]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.slot == slot.name)


def is_ready(slot: Slot, pods: Iterable[Pod]) -> bool:
    """Whether the slot serves: a ready live pod of its template that takes requests."""
    return any(pod.ready and pod.serving and pod.digest == slot.digest for pod in live(pods_of(slot, pods)))


def active(slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """Slots that count: not retiring and not being deleted."""
    return tuple(slot for slot in slots if not state_of(slot).retiring and not slot.deleting)


def surging(slot: Slot) -> bool:
    """A surge slot that has not served yet: beyond the budget until it does."""
    state = state_of(slot)
    return state.surge and state.served_digest is None


def slot_to_flip(slots: Sequence[Slot], pods: Sequence[Pod], loads: Mapping[str, EngineLoad], to: Mode) -> Slot | None:
    """The slot of the other mode whose flip disturbs least: broken first, then fewest in flight, then the highest index."""
    candidates = [slot for slot in active(slots) if state_of(slot).desired_mode is not to and not is_moving(state_of(slot))]

    def disturbance(slot: Slot) -> tuple[bool, int, int]:
        mine = pods_of(slot, pods)
        load = in_flight(live(mine), loads)
        return (is_ready(slot, mine), load if load is not None else 1 << 30, -slot.index)

    return min(candidates, key=disturbance, default=None)


def slots_to_retire(
    slots: Sequence[Slot], pods: Sequence[Pod], loads: Mapping[str, EngineLoad], count: int, digests: Mapping[Mode, str]
) -> tuple[Slot, ...]:
    """The `count` slots to take away: not ready first, then old templates, then the mode a surge replaces, then the larger mode."""
    left = [slot for slot in active(slots) if not surging(slot)]
    replaced = {state_of(slot).from_mode for slot in left if state_of(slot).surge and state_of(slot).from_mode is not None}
    chosen: list[Slot] = []
    while left and len(chosen) < count:
        per_mode = {mode: sum(state_of(slot).desired_mode is mode for slot in left) for mode in Mode}

        def rank(slot: Slot, per_mode: Mapping[Mode, int] = per_mode) -> tuple[bool, bool, bool, int, int, int]:
            mine = pods_of(slot, pods)
            mode = state_of(slot).desired_mode
            load = in_flight(live(mine), loads)
            return (
                is_ready(slot, mine),
                slot.digest == digests[mode],
                mode not in replaced or state_of(slot).surge,
                -per_mode[mode],
                load if load is not None else 1 << 30,
                -slot.index,
            )

        worst = min(left, key=rank)
        chosen.append(worst)
        left.remove(worst)
    return tuple(chosen)


def free_indexes(slots: Iterable[Slot], count: int, avoid: Iterable[int | None] = ()) -> tuple[int, ...]:
    """The lowest indexes without an object; one that is still being deleted is taken, and so is what stands in `avoid`."""
    taken = {slot.index for slot in slots} | set(avoid)
    found: list[int] = []
    index = 0
    while len(found) < count:
        if index not in taken:
            found.append(index)
        index += 1
    return tuple(found)
