"""The engine's container: SGLang as PID 1, with its GPUs, its probes and nothing more than it needs.

The command is in exec form, so SIGTERM reaches Python alone: a shell or an init that signals the whole process group ends
SGLang's schedulers first, and then nothing drains.
"""

from typing import Any

from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.model.names import ENGINE_CONTAINER, ENGINE_PORT, ENGINE_PORT_NAME

from .arguments import engine_arguments, engine_image
from .environment import engine_environment
from .errors import InvalidOverlay
from .overlay import merge
from .storage import engine_mounts
from .timing import pre_stop_seconds, readiness_probe, startup_probe

ENGINE_COMMAND = ("python3", "-m", "sglang.launch_server")
_RESOURCES_FIELD = "spec.engine.resources"


def engine_container(service: str, spec: InferenceServiceSpec, hardware: HardwareClassSpec, mode: Mode) -> dict[str, Any]:
    """The container of one mode.

    Raises:
        InvalidArguments: see engine_arguments, engine_environment, engine_resources.
    """
    return {
        "name": ENGINE_CONTAINER,
        "image": engine_image(spec, hardware),
        "command": list(ENGINE_COMMAND),
        "args": engine_arguments(spec, hardware, mode),
        "env": engine_environment(service, spec),
        "ports": [{"name": ENGINE_PORT_NAME, "containerPort": ENGINE_PORT, "protocol": "TCP"}],
        "resources": engine_resources(spec, hardware),
        "volumeMounts": engine_mounts(spec.model.cache),
        "startupProbe": startup_probe(spec.rollout),
        "readinessProbe": readiness_probe(),
        "lifecycle": {"preStop": {"sleep": {"seconds": pre_stop_seconds(spec.rollout)}}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def engine_resources(spec: InferenceServiceSpec, hardware: HardwareClassSpec) -> dict[str, Any]:
    """GPUs of one node of a replica, with the user's other resources merged in. Amounts are strings.

    Raises:
        InvalidOverlay: the user sets the GPUs.
    """
    gpus = str(hardware.gpu.per_replica // hardware.nodes_per_replica)
    own = {"limits": {hardware.gpu.resource: gpus}, "requests": {hardware.gpu.resource: gpus}}
    resources: dict[str, Any] = merge(own, spec.engine.resources or {}, field=_RESOURCES_FIELD)
    for part in own:
        amounts = resources.get(part, {})
        if str(amounts.get(hardware.gpu.resource)) != gpus:
            raise InvalidOverlay(f"{_RESOURCES_FIELD}.{part}[{hardware.gpu.resource}]", "GPUs come from the hardware class")
        resources[part] = {name: str(amount) for name, amount in amounts.items()}
    return resources
