"""Both modes side by side: how far apart their slots are, what binds each, and the first change that gives more."""

from dataclasses import dataclass

from mtpilot.api.inference_service import Mode

from .errors import DoesNotFit, NotCovered
from .estimate import ModeCapacity, Subject, estimate
from .launch import DEFAULT_SLOTS_WITH_SPECULATION, Launch
from .limits import Limit
from .remedy import RAISE, Step, steps
from .state_slots import state_dtype

_WORTHWHILE = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """The first change, in order of price, that gives more slots, and how many it gives."""

    text: str
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The two modes of a model on a hardware class."""

    mtp: ModeCapacity
    batch: ModeCapacity
    mtp_remedy: Remedy | None
    batch_remedy: Remedy | None
    conclusion: str


def compare(subject: Subject, mtp: Launch, batch: Launch) -> Comparison:
    """Estimate both modes.

    Raises:
        NotCovered, DoesNotFit: as `estimate`; the message of DoesNotFit begins with the mode.
    """
    fast, many = _estimate(subject, mtp, Mode.MTP), _estimate(subject, batch, Mode.BATCH)
    fast_remedy, many_remedy = first_remedy(subject, fast, flip_slots=many.slots.usable), first_remedy(subject, many)
    return Comparison(
        mtp=fast,
        batch=many,
        mtp_remedy=fast_remedy,
        batch_remedy=many_remedy,
        conclusion=_conclusion(fast, many, fast_remedy, many_remedy),
    )


def _estimate(subject: Subject, launch: Launch, mode: Mode) -> ModeCapacity:
    try:
        return estimate(subject, launch)
    except DoesNotFit as error:
        raise DoesNotFit(f"{mode.value}: {error}") from error


def first_remedy(subject: Subject, capacity: ModeCapacity, *, flip_slots: int | None = None) -> Remedy | None:
    """Try the changes in order with the formulas themselves: the first that gives a tenth more slots, else the first that gives
    one more, and a flip only where no argument gives any; None where nothing does.

    `flip_slots`: what the other mode has, for mtp.
    """
    linear, present = subject.shape.linear, capacity.slots.usable
    dtype = state_dtype(linear, capacity.launch) if linear is not None else None
    small = None
    for step in steps(capacity.launch, capacity.slots.limit, hybrid=linear is not None, ssm_dtype=dtype):
        if step.launch is None and small is not None:
            break
        slots = flip_slots if step.launch is None else _slots_after(subject, step.launch)
        if slots is None or slots <= present:
            continue
        found = Remedy(text=_text(step, slots), slots=slots)
        if slots >= _WORTHWHILE * present:
            return found
        small = small or found
    return small


def _text(step: Step, slots: int) -> str:
    if not step.together:
        return step.text
    return f"{RAISE} {slots}" if step.text == RAISE else f"{step.text} and {RAISE} {slots}"


def _slots_after(subject: Subject, launch: Launch) -> int | None:
    """Usable slots with other arguments; None where they would not start."""
    try:
        return estimate(subject, launch).slots.usable
    except (DoesNotFit, NotCovered):
        return None


def _conclusion(mtp: ModeCapacity, batch: ModeCapacity, mtp_remedy: Remedy | None, batch_remedy: Remedy | None) -> str:
    fast, many = mtp.slots.usable, batch.slots.usable
    if fast >= many:
        text = f"mtp has {fast} slots, batch {many}: slots are no reason to flip, only the curves can be"
        remedy, who = batch_remedy, "batch"
    else:
        text = f"mtp has {fast} of batch's {many} slots: {_binds(mtp)}"
        remedy, who = mtp_remedy, "mtp"
    return f"{text}; first remedy for {who}: {remedy.text} ({remedy.slots} slots)" if remedy is not None else text


def _binds(capacity: ModeCapacity) -> str:
    launch, states = capacity.launch, capacity.states
    if capacity.slots.limit is Limit.STATE_SLOTS and states is not None:
        drafts = f", and a state for each of {launch.draft_tokens} draft tokens" if launch.draft_tokens else ""
        return f"state slots bind ({states.slots} states, {states.per_request} for each request{drafts})"
    if capacity.slots.limit is Limit.KV_TOKENS:
        return f"KV tokens bind ({capacity.kv_tokens} for requests of {capacity.request_tokens})"
    if launch.max_running_requests is None and launch.requested_slots == DEFAULT_SLOTS_WITH_SPECULATION:
        return f"SGLang's default of {DEFAULT_SLOTS_WITH_SPECULATION} with speculation binds"
    return "--max-running-requests binds"
