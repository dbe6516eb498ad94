"""Pods are sorted by what they do, and GPUs counted while a pod holds them; step times are summed only while busy."""

import io
import math
from typing import Any

import pytest
from rich.console import Console

from e2e.demo.fidelity import Reading, StepTime
from e2e.demo.manifests import hardware_class, inference_service, throughput_profile
from e2e.demo.parameters import Parameters
from e2e.demo.timeline import Mark
from e2e.demo.view import TokenRate, bar, view_for
from e2e.demo.watching import fleet_of, requested_gpus
from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import InferenceServiceSpec
from mtpilot.api.throughput_profile import ThroughputProfileSpec
from mtpilot.curves.of_profile import curve_pair


def pod(*, mode: str = "mtp", ready: bool = True, node: str | None = "n", phase: str = "Running", **changes: Any) -> dict[str, Any]:
    labels = {"mtpilot.dev/component": "engine", "mtpilot.dev/mode": mode, **changes.pop("labels", {})}
    return {
        "metadata": {"labels": labels, **changes},
        "spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "4"}}}, {}], **({"nodeName": node} if node else {})},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def test_gpus_are_held_from_binding_to_the_end():
    assert requested_gpus(pod()) == 4
    assert requested_gpus(pod(node=None)) == 0
    assert requested_gpus(pod(phase="Succeeded")) == requested_gpus(pod(phase="Failed")) == 0
    assert requested_gpus(pod(deletionTimestamp="now")) == 4


def test_pods_are_sorted_by_what_they_do():
    pods = [
        pod(),
        pod(mode="batch"),
        pod(labels={"mtpilot.dev/serving": "false"}),
        pod(deletionTimestamp="now"),
        pod(ready=False),
        pod(labels={"mtpilot.dev/component": "gateway"}),
    ]
    sample = fleet_of("chat", pods, 5.0)
    assert (sample.mtp, sample.batch, sample.draining, sample.loading, sample.gpus) == (1, 1, 2, 1, 24)


def reading(at: float, curve: float, *, running: int = 5, idle: float = 1.0) -> Reading:
    return Reading(at=at, running=running, curve_seconds=curve, idle_seconds=idle)


def test_step_time_is_wall_time_over_curve_time():
    total = StepTime()
    total.add(reading(10, 7.0), reading(14, 10.8))
    assert total.ratio == pytest.approx(4 / 3.8)


@pytest.mark.parametrize("after", [reading(14, 10, running=0), reading(14, 10, idle=1.5), reading(14, 7.0)])
def test_time_in_which_an_engine_stood_idle_is_not_counted(after):
    total = StepTime()
    total.add(reading(10, 7.0), after)
    assert math.isnan(total.ratio)


def test_the_manifests_are_valid_specs():
    parameters = Parameters()
    for pinned in (None, "mtp", "batch"):
        spec = InferenceServiceSpec.model_validate(inference_service(parameters, "chat", pinned=pinned)["spec"])
        assert spec.replicas == 4
        if pinned:
            assert spec.policy.pinned is not None
            assert getattr(spec.policy.pinned, pinned) == 4
    assert HardwareClassSpec.model_validate(hardware_class(parameters)["spec"]).gpu.per_replica == 4


def test_the_profile_is_that_of_the_engines_at_their_scale_of_time():
    parameters = Parameters()
    spec = ThroughputProfileSpec.model_validate(throughput_profile(parameters)["spec"])
    service = InferenceServiceSpec.model_validate(inference_service(parameters, "chat")["spec"])
    assert (spec.model.source, spec.hardware_class) == (service.model.source, service.hardware_class)
    pair, _ = curve_pair(spec, 1000)
    assert parameters.replicas * pair.mtp.rate(24) == pytest.approx(parameters.mtp_tokens_per_second, rel=0.01)
    assert parameters.replicas * pair.batch.rate(68) == pytest.approx(parameters.batch_tokens_per_second, rel=0.01)


def test_token_rate_over_the_last_seconds():
    rate = TokenRate(span_seconds=4)
    for second in range(1, 11):
        rate.add(float(second), 100 * second)
    assert rate.per_second == pytest.approx(100)
    rate.add(20.0, 5)
    assert rate.per_second == 0


def test_bar():
    assert bar(5, 10, width=4) == "██░░"
    assert bar(99, 10, width=4) == "████"
    assert bar(1, 0, width=4) == "░░░░"


@pytest.mark.parametrize(("terminal", "answered"), [(False, "sent 7, answered 3"), (True, "3 of 7 answered")])
def test_both_views_show_phases_and_load(terminal, answered):
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=150)
    counters = {"sent": 7, "completed": 3, "failed": 1, "incomplete": 0, "leaked": 0, "in_flight": 3, "output_tokens": 900}
    with view_for(console, Parameters(), plain=False) as view:
        view.phase("always mtp: fresh service")
        view.counters(counters)
        view.mark(Mark(at=1.0, kind="decision", reason="MinDwell", message="not yet for 3s"))
    shown = output.getvalue()
    for text in ("always mtp: fresh service", "MinDwell", "not yet for 3s", answered):
        assert text in shown
