"""What is parsed, and what the parser must make of it: every InferenceService and every HardwareClass of the samples, in both modes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.render.arguments import engine_arguments
from tests.sample_files import samples
from tests.unit.render.samples import SAMPLES, service, small_hardware, small_spec

_FILLED_IN = {
    "POD_IP": "127.1.0.1",
    "POD_UID": "6f1c-uid",
    "MTPILOT_ADMIN_API_KEY": "key",
    "LWS_LEADER_ADDRESS": "chat-r0-0.chat-r0.team-a",
    "LWS_WORKER_INDEX": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One argument list as the kubelet passes it on, and fields of `ServerArgs` with the values that were meant."""

    name: str
    mode: Mode
    args: list[str]
    meant: dict[str, Any]


def every_case() -> list[Case]:
    """Documentation examples, accepted InferenceServices, accepted HardwareClasses; in this order."""
    return [*_examples(), *_services(), *_classes()]


def _examples() -> Iterator[Case]:
    for sample in SAMPLES:
        yield from _both(f"docs/examples/{sample.name}", sample.service.spec, sample.hardware.spec)


def _services() -> Iterator[Case]:
    for sample in samples("accept"):
        if sample.kind == "InferenceService":
            yield from _both(str(sample), service(sample.document["spec"]).spec, small_hardware().spec)


def _classes() -> Iterator[Case]:
    spec = service(small_spec()).spec
    for sample in samples("accept"):
        if sample.kind == "HardwareClass":
            yield from _both(str(sample), spec, HardwareClassSpec.model_validate(sample.document["spec"]))


def _both(name: str, spec: InferenceServiceSpec, hardware: HardwareClassSpec) -> Iterator[Case]:
    for mode in Mode:
        args = [re.sub(r"\$\((\w+)\)", lambda found: _FILLED_IN[found[1]], arg) for arg in engine_arguments(spec, hardware, mode)]
        yield Case(name=name, mode=mode, args=args, meant=_meant(spec, mode))


def _meant(spec: InferenceServiceSpec, mode: Mode) -> dict[str, Any]:
    limits = spec.modes.mtp if mode is Mode.MTP else spec.modes.batch
    speculation = spec.modes.mtp.speculation if mode is Mode.MTP else None
    return {
        "max_running_requests": limits.max_running_requests,
        "mem_fraction_static": float(limits.mem_fraction_static),
        "context_length": spec.model.context_length,
        "host": "127.1.0.1",
        "port": 30000,
        "enable_metrics": True,
        "extra_metric_labels": {"mode": mode.value, "pod_uid": "6f1c-uid"},
        "admin_api_key": "key",
        "speculative_algorithm": speculation.algorithm.value if speculation else None,
        "speculative_num_steps": speculation.num_steps if speculation else None,
        "speculative_adaptive": bool(speculation and speculation.adaptive),
    }
