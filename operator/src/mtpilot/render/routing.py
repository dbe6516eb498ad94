"""What the gateway's agent is told while it runs: a ConfigMap that it has mounted, so that a change rolls nothing."""

from math import floor

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.throughput_profile import Verdict
from mtpilot.model.calibration import Calibration
from mtpilot.model.names import COMPONENT_GATEWAY, routing_name
from mtpilot.model.snapshot import Manifest, Service

from .digest import with_digest
from .owner import owned_object

CONTENTION_LIMIT_KEY = "contention-limit"
NO_LIMIT = "none"


def contention_limit(spec: InferenceServiceSpec, calibration: Calibration | None) -> int | None:
    """Requests that an mtp replica takes before the batch replicas do; None: no rule, the modes share the load by their slots.

    The spec's own number, else the crossover of the profile in use: up to it mtp is the better mode for a replica. Without a
    profile nothing is known of it, and a guessed limit would leave mtp replicas idle that are the better ones.
    """
    if spec.gateway.contention.limit is not None:
        return spec.gateway.contention.limit
    if calibration is None:
        return None
    if calibration.verdict is Verdict.BATCH_ONLY:
        return 1
    if calibration.crossover is None or calibration.above is not Mode.BATCH:
        return None
    return max(1, floor(calibration.crossover))


def render_routing(service: Service, limit: int | None) -> Manifest:
    """The ConfigMap for a contention limit; its keys are always there, so that a mounted file is changed and never missing."""
    data = {CONTENTION_LIMIT_KEY: NO_LIMIT if limit is None else str(limit)}
    return with_digest(
        owned_object(service, api_version="v1", kind="ConfigMap", name=routing_name(service.name), component=COMPONENT_GATEWAY, data=data)
    )
