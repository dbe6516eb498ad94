"""Whether the other replicas can do without one, now and for as long as it is away.

Two limits with a gap between them: to take a replica there must be far more room than to go on without it, so that a calibration
does not begin what it has to break off. Engines are asked directly and are seconds old; Prometheus adds the queue at the gateway.
"""

from dataclasses import dataclass

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.curves.curve import CurvePair
from mtpilot.model.decision import Demand, NoDemand
from mtpilot.model.slots import Slot
from mtpilot.model.snapshot import Snapshot
from mtpilot.rollout.choose import is_ready, pods_of
from mtpilot.rollout.pods import live
from mtpilot.rollout.step import state_of

TAKE_SHARE = 0.5  # of what the others can do
KEEP_SHARE = 0.85
_QUEUED_SAMPLES = 2  # one request waits for a moment in an idle engine as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """The replicas that stay. running: their requests, None where an engine is silent. capacity: tok/s by the curves, None without."""

    serving: int
    missing: tuple[str, ...]
    slots: int
    running: int | None
    capacity: float | None


def peers_of(away: Slot, snapshot: Snapshot, curves: CurvePair | None) -> Peers:
    """What the others of `away` are and do."""
    spec, pods, loads = snapshot.service.spec, snapshot.pods, snapshot.engines
    others = [slot for slot in snapshot.slots if slot.name != away.name and not state_of(slot).retiring and not slot.deleting]
    ready = [slot for slot in others if is_ready(slot, pods)]
    found = [(slot, loads.get(pod.uid)) for slot in ready for pod in live(pods_of(slot, pods)) if pod.ready and pod.digest == slot.digest]
    known = [load for _, load in found if load is not None]
    return Peers(
        serving=len(ready),
        missing=tuple(slot.name for slot in others if slot not in ready),
        slots=sum((load.effective_max_running_requests if load else None) or _asked(spec, slot.mode) for slot, load in found),
        running=sum(load.in_flight for load in known) if len(known) == len(found) else None,
        capacity=sum(curves.of(slot.mode).tokens_per_second[-1] for slot in ready) if curves is not None else None,
    )


def _asked(spec: InferenceServiceSpec, mode: Mode) -> int:
    return (spec.modes.mtp if mode is Mode.MTP else spec.modes.batch).max_running_requests


def why_not_take(peers: Peers, demand: Demand | NoDemand, replicas: int) -> str | None:
    """What keeps a replica from being taken; None: it may be."""
    if replicas < 2:
        return "a second replica is needed: a lone one cannot be taken out of rotation"
    if peers.missing or peers.serving < replicas - 1:
        return f"{', '.join(peers.missing) or 'a replica'} does not serve"
    if isinstance(demand, NoDemand):
        return f"the load is not known: {demand.message}"
    if demand.missing or demand.queued > 0:
        return f"{demand.queued:.0f} requests wait" if demand.queued > 0 else f"no fresh numbers of {', '.join(demand.missing)}"
    return _too_much(peers, demand, TAKE_SHARE, "an engine does not tell its load", in_flight=demand.in_flight)


def why_give_back(peers: Peers, demand: Demand | NoDemand, *, queued_samples: int, replicas: int) -> str | None:
    """Why the replica is needed now; None: the others do without it. queued_samples: samples in a row in which requests waited."""
    if peers.missing or peers.serving < replicas - 1:
        return f"{', '.join(peers.missing) or 'a replica'} does not serve"
    if isinstance(demand, NoDemand):
        return _too_much(peers, None, KEEP_SHARE, f"the load is not known: {demand.message}, and an engine does not answer")
    if demand.queued > 0 and queued_samples >= _QUEUED_SAMPLES:
        return f"{demand.queued:.0f} requests wait"
    return _too_much(peers, demand, KEEP_SHARE, None)


def _too_much(peers: Peers, demand: Demand | None, share: float, silent: str | None, *, in_flight: float | None = None) -> str | None:
    running = peers.running if in_flight is None or peers.running is None else max(in_flight, peers.running)
    if running is None:
        return silent
    if running > share * peers.slots:
        return f"{running:.0f} requests run or wait, more than {share:.0%} of the {peers.slots} slots that the others have"
    if demand is not None and peers.capacity is not None and demand.demand_tokens_per_second > share * peers.capacity:
        asked = f"{demand.demand_tokens_per_second:.0f} tok/s are asked for"
        return f"{asked}, more than {share:.0%} of the {peers.capacity:.0f} tok/s that the others can do"
    return None
