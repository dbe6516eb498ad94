"""Probes and grace of the engine pod: how its start is awaited and its end is not cut short.

All probes ask /ready, which answers at once and says nothing about load. There is no liveness probe: /health runs a request
of its own (more than a second, and it hangs while an engine is paused), a failed one makes SGLang skip its drain on SIGTERM,
and SGLang's own watchdog ends a hung engine. A hang is seen in the metrics and handled with a drain.
"""

import math
from typing import Any

from mtpilot.api.inference_service import RolloutSpec
from mtpilot.api.types import parse_duration
from mtpilot.model.names import ENGINE_PORT

PROBE_PERIOD_SECONDS = 2
PROBE_TIMEOUT_SECONDS = 5
PROBE_FAILURES = 3
PRE_STOP_SECONDS = 5  # the gateway agent and endpoints see the pod leave before the engine does
PRE_STOP_SHARE = 0.1  # of drainTimeout at most: who lets a drain take seconds does not want each to begin with five of them
SHUTDOWN_SECONDS = 30  # SGLang looks for an empty queue every 5 s, then gives its schedulers 15 s
START_MARGIN_SECONDS = 60  # the operator's deadline ends a slow start, with a rollback; the kubelet only after it


def whole_seconds(duration: str) -> int:
    """A duration in seconds, rounded up."""
    return math.ceil(parse_duration(duration).total_seconds())


def ready_deadline_seconds(rollout: RolloutSpec) -> int:
    """After how long the kubelet and the Deployment give up on a start: a little later than the operator."""
    return whole_seconds(rollout.ready_timeout) + START_MARGIN_SECONDS


def pre_stop_seconds(rollout: RolloutSpec) -> int:
    """From the decision to end a pod to its SIGTERM: 5 s, less where drainTimeout is below 50 s, never less than 1."""
    return max(1, min(PRE_STOP_SECONDS, math.ceil(PRE_STOP_SHARE * parse_duration(rollout.drain_timeout).total_seconds())))


def grace_period_seconds(rollout: RolloutSpec) -> int:
    """From deletion to SIGKILL, for a pod that somebody else deletes under load: pre-stop, the whole drain, the shutdown."""
    return whole_seconds(rollout.drain_timeout) + pre_stop_seconds(rollout) + SHUTDOWN_SECONDS


def startup_probe(rollout: RolloutSpec) -> dict[str, Any]:
    return _ready_probe(failures=math.ceil(ready_deadline_seconds(rollout) / PROBE_PERIOD_SECONDS))


def readiness_probe() -> dict[str, Any]:
    return _ready_probe(failures=PROBE_FAILURES)


def _ready_probe(*, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": "/ready", "port": ENGINE_PORT, "scheme": "HTTP"},
        "periodSeconds": PROBE_PERIOD_SECONDS,
        "timeoutSeconds": PROBE_TIMEOUT_SECONDS,
        "failureThreshold": failures,
        "successThreshold": 1,
    }
