"""Latency targets: which mixes would miss `itl` or `ttft` once the fleet has moved.

The fluid model knows the time between tokens of a full or emptier mix and the wait for a slot. It knows no prefill: a `ttft`
is compared with the wait alone.
"""

from mtpilot.api.inference_service import InferenceServiceSpec

from .fluid import MixTable
from .forecast import Forecast
from .timing import seconds

MARGIN = 0.03  # by which the present mix must miss a target before it counts: less is the noise of a curve


def missing_targets(spec: InferenceServiceSpec, forecast: Forecast, candidates: tuple[int, ...]) -> frozenset[int]:
    """Mixes, by number of batch replicas, that miss a target while another of `candidates` meets them; none where all miss one."""
    targets = spec.workload.targets
    if targets is None or (targets.itl is None and targets.ttft is None):
        return frozenset()
    missed = set()
    for batch in candidates:
        slack = 1.0 + MARGIN if batch == forecast.batch else 1.0
        token_seconds, wait_seconds = expected_latency(forecast, forecast.fleet.mix(batch))
        late_tokens = targets.itl is not None and token_seconds > slack * seconds(targets.itl)
        if late_tokens or (targets.ttft is not None and wait_seconds > slack * seconds(targets.ttft)):
            missed.add(batch)
    return frozenset(missed) if len(missed) < len(candidates) else frozenset()


def expected_latency(forecast: Forecast, mix: MixTable) -> tuple[float, float]:
    """(seconds between tokens of one request, seconds of waiting for a slot) with the fleet at `mix`.

    Under the open reading a backlog that grows is taken as half an hour old; under the closed one the clients beyond the slots wait.
    """
    load = forecast.load
    requests_per_second = max(mix.capacity, 1e-9) / load.output_tokens
    backlog = max(0.0, load.queued + (load.demand - mix.capacity) / load.output_tokens * 30 * forecast.terms.horizon_minutes)
    opened = mix.token_seconds_of(mix.in_flight(load.demand)), backlog / requests_per_second if load.demand > mix.capacity else 0.0
    closed = mix.token_seconds_of(load.in_system), max(0.0, load.in_system - mix.slots) / requests_per_second
    weight = load.closed_weight
    return weight * closed[0] + (1 - weight) * opened[0], weight * closed[1] + (1 - weight) * opened[1]
