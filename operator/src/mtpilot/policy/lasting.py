"""Since when a rule has asked for the same: a signal moves the mix only once it has lasted."""

from datetime import datetime, timedelta

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState
from mtpilot.model.decision import FleetState

from .timing import from_text, seconds, to_text

# A signal counts as lasting across a gap of six of the caller's usual ticks, or of twice its own stabilization: less would
# let a slow API server or Prometheus keep a fleet in overload from ever moving.
PATIENCE_SECONDS = 60.0

PRESSURE = {Mode.BATCH: "Up", Mode.MTP: "Down"}


def stabilization_seconds(spec: InferenceServiceSpec, to: Mode) -> float:
    stabilization = spec.policy.stabilization
    return seconds(stabilization.up if to is Mode.BATCH else stabilization.down)


def lasting_since(spec: InferenceServiceSpec, to: Mode, fleet: FleetState, state: PolicyState, now: datetime) -> datetime:
    """Since when the signal has lasted. It starts anew while a slot is away: the absence itself makes queues."""
    since = from_text(state.pressure_since)
    seen = from_text(state.observed_at)
    if state.pressure != PRESSURE[to] or fleet.moving is not None or since is None or seen is None:
        return now
    gap = (now - seen).total_seconds()
    unbroken = 0 <= gap <= max(2 * stabilization_seconds(spec, to), PATIENCE_SECONDS)
    return since if unbroken and since <= now else now


def stable_at(spec: InferenceServiceSpec, to: Mode, since: datetime) -> datetime:
    return since + timedelta(seconds=stabilization_seconds(spec, to))


def pressed(to: Mode, since: datetime) -> dict[str, str | None]:
    """Fields of the state while the signal is there."""
    return {"pressure": PRESSURE[to], "pressure_since": to_text(since)}


UNPRESSED: dict[str, str | None] = {"pressure": None, "pressure_since": None}
